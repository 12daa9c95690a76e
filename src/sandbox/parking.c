// SPDX-License-Identifier: Apache-2.0
// Interpreters in boxes that are ready: a fork of the zygote in each, Node in some, so that the
// first cell of a new sandbox finds one there. (What an earlier daemon has parked in a box is found
// there too: its guest refuses the second of the same id.) Nothing is read from a box in the pool:
// what its guest said waits in its socket for whoever the box is bound to, where it becomes a job
// without an owner (box-link.c) until a context asks for it (kernel.c). One at a time, and not
// while sandboxes are being made.
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fd.h"
#include "kernels/kernels.h"
#include "sandbox/exec.h"
#include "sandbox/kernel.h"
#include "sandbox/sandbox-internal.h"

enum {
    QUIET_MS = 5,   // since a box was taken
    AGAIN_MS = 500, // when the zygote is not there yet
    NODE_BOXES = 2, // a Node is large
};

struct parking {
    struct fleet *fleet;
    uv_timer_t timer;
    bool under_way;
    int64_t not_before_ns;
    int64_t taken_ns;
};

static void work(uv_timer_t *timer);

static void schedule(struct parking *p, int64_t ms)
{
    if (!uv_is_active((uv_handle_t *)&p->timer))
        (void)uv_timer_start(&p->timer, work, (uint64_t)ms, 0);
}

static struct ready_box *find(struct fleet *fleet, uint64_t number)
{
    for (unsigned i = 0; i < fleet->n_ready; i++) {
        if (fleet->ready[i].number == number)
            return &fleet->ready[i];
    }
    return NULL;
}

// --- Python

// The box may be in use by now: then somebody may wait for it.
static void on_planted(struct fleet *fleet, uint64_t number, uint32_t id, const struct err *err)
{
    struct ready_box *box = find(fleet, number);
    struct parking *p = fleet->parking;
    if (err != NULL && box != NULL)
        box->parked &= ~(1u << KERNEL_PYTHON);
    else if (err != NULL)
        kernel_plant_failed(fleet, number, id, err);
    p->under_way = false;
    if (err != NULL)
        p->not_before_ns = clock_ns() + AGAIN_MS * NS_PER_MS;
    schedule(p, err != NULL ? AGAIN_MS : 0);
}

static void park_python(struct fleet *fleet, struct ready_box *box)
{
    box->parked |= 1u << KERNEL_PYTHON;
    fleet->parking->under_way = true;
    keeper_plant(fleet, box->number, PARKED_FIRST + KERNEL_PYTHON, on_planted);
}

// --- Node

static bool park_node(struct ready_box *box)
{
    enum { VARIABLE_MAX = 128 * 1024 }; // Linux's
    struct kernel_source source = kernel_source(KERNEL_NODE);
    struct err ignored;
    char *variable = NULL;
    if (source.len >= VARIABLE_MAX - 64 ||
        asprintf(&variable, "CAY_KERNEL=%.*s", (int)source.len, source.bytes) < 0)
        return false;
    const char *const envp[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                "HOME=/root", "LANG=C.UTF-8", variable, NULL};
    struct exec_spec spec = {
        .cwd = "/",
        .argv = kernel_parked_node(),
        .envp = envp,
        .uid = KERNEL_UID,
        .gid = KERNEL_GID,
        .files = EXEC_FILES,
        .flags = GUEST_EXEC_CONTROL | GUEST_EXEC_KEEP | GUEST_EXEC_KEEP_EXIT,
    };
    struct guest_peer guest = {.sock = box->guest, .version = WIRE_VERSION};
    (void)fd_set_nonblock(box->guest, 1); // it may be too full of what nobody has read
    bool is_sent = guest_send_exec(guest, PARKED_FIRST + KERNEL_NODE, &spec, &ignored) == 0;
    if (is_sent)
        box->parked |= 1u << KERNEL_NODE;
    free(variable);
    return is_sent;
}

// --- which, and when

unsigned parking_count(const struct fleet *fleet, unsigned kind)
{
    unsigned n = 0;
    for (unsigned i = 0; i < fleet->n_ready; i++)
        n += fleet->ready[i].parked >> kind & 1;
    return n;
}

// The oldest: so a daemon after us finds them where it would have put them.
static struct ready_box *oldest_without(struct fleet *fleet, enum kernel_kind kind)
{
    struct ready_box *oldest = NULL;
    for (unsigned i = 0; i < fleet->n_ready; i++) {
        struct ready_box *box = &fleet->ready[i];
        if (!(box->parked >> kind & 1) && (oldest == NULL || box->number < oldest->number))
            oldest = box;
    }
    return oldest;
}

static void work(uv_timer_t *timer)
{
    struct parking *p = timer->data;
    struct fleet *fleet = p->fleet;
    int64_t now = clock_ns();
    struct ready_box *box = oldest_without(fleet, KERNEL_PYTHON);
    if (fleet->stopping || p->under_way)
        return;
    if (now - p->taken_ns < QUIET_MS * NS_PER_MS) {
        schedule(p, QUIET_MS);
        return;
    }
    if (box != NULL && now >= p->not_before_ns) {
        park_python(fleet, box);
        return;
    }
    struct ready_box *other = oldest_without(fleet, KERNEL_NODE);
    if (other != NULL && parking_count(fleet, KERNEL_NODE) < NODE_BOXES) {
        schedule(p, park_node(other) ? QUIET_MS : AGAIN_MS);
    } else if (box != NULL) {
        schedule(p, AGAIN_MS);
    }
}

void parking_ready(struct fleet *fleet)
{
    schedule(fleet->parking, 0);
}

static unsigned score(const struct ready_box *box, unsigned wanted)
{
    unsigned python = box->parked >> KERNEL_PYTHON & 1, node = box->parked >> KERNEL_NODE & 1;
    bool wants_node = wanted >> KERNEL_NODE & 1;
    return 2 * (node == wants_node) + python;
}

void parking_choose(struct fleet *fleet, unsigned wanted)
{
    unsigned best = 0;
    for (unsigned i = 1; i < fleet->n_ready; i++) {
        if (score(&fleet->ready[i], wanted) >= score(&fleet->ready[best], wanted))
            best = i;
    }
    if (fleet->n_ready > 1) {
        struct ready_box swap = fleet->ready[best];
        fleet->ready[best] = fleet->ready[fleet->n_ready - 1];
        fleet->ready[fleet->n_ready - 1] = swap;
    }
    fleet->parking->taken_ns = clock_ns();
}

void parking_open(struct fleet *fleet)
{
    struct parking *p = calloc(1, sizeof *p);
    if (p == NULL)
        abort();
    p->fleet = fleet;
    (void)uv_timer_init(fleet->config.loop, &p->timer);
    p->timer.data = p;
    fleet->parking = p;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void parking_close(struct fleet *fleet)
{
    if (fleet->parking != NULL)
        uv_close((uv_handle_t *)&fleet->parking->timer, on_closed);
    fleet->parking = NULL;
}
