// SPDX-License-Identifier: Apache-2.0
// Zygotes: one for the image of the pool, others for images whose boxes have asked. One has a slot
// like a box, for its user id and its cgroups, and is ended like one; state BOX_ZYGOTE. They are
// made anew at intervals, so that no address layout lives for long, and when they have died; forks
// that they have made are children of their boxes and do not notice.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "box/root.h"
#include "keeper/keeper-internal.h"
#include "wire/guest-msg.h"
#include "wire/zygote-msg.h"

enum {
    IDLE_MS = 10 * 60 * 1000, // of one that is not the pool's
    PATIENCE_MS = 60 * 1000,  // for its libraries
    ANSWER_MS = 2000,         // for a fork: it takes some milliseconds
    BACK_OFF_MS = 1000,       // after a death, doubled with each
    BACK_OFF_MAX_MS = 5 * 60 * 1000,
    FORKS_LOOK = 16, // forks between two looks at its memory
};

static const struct box_limits limits = {
    .memory = UINT64_C(1) << 30, .disk = UINT64_C(64) << 20, .pids = 32, .cpu_milli = 1000};

static int64_t after_ms(int64_t ms)
{
    return clock_ns() + ms * NS_PER_MS;
}

static int is_on(const struct keeper *k)
{
    return k->serve != NULL && k->config.preload != NULL && !k->zygotes_off && !k->closing &&
           !serve_is_ending(k);
}

uint32_t zygote_slots(const struct keeper *k)
{
    return k->config.preload != NULL ? ZYGOTE_SLOTS : 0;
}

static struct zygote *find(struct keeper *k, const struct keeper_image *image)
{
    for (unsigned i = 0; i < ZYGOTES_MAX; i++) {
        if (k->zygotes[i].image == image && image != NULL)
            return &k->zygotes[i];
    }
    return NULL;
}

static struct zygote *find_slot(struct keeper *k, uint32_t slot)
{
    for (unsigned i = 0; i < ZYGOTES_MAX; i++) {
        if (k->zygotes[i].slot == slot || k->zygotes[i].next_slot == slot)
            return &k->zygotes[i];
    }
    return NULL;
}

// --- starting one

static int make_root(struct keeper *k, struct box *box, struct err *err)
{
    char path[48];
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", k->spawner_pid);
    auto_fd z = open(path, O_RDONLY | O_CLOEXEC);
    if (z < 0)
        return err_sys(err, errno, "open the user namespace of boxes");
    box->disk_kind = DISK_TMPFS;
    box->disk_fd = tmpfs_make(limits.disk, keeper_host_id(k, box->slot), err);
    if (box->disk_fd < 0)
        return -1;
    const struct root_disk disk = {.fd = box->disk_fd};
    return root_make(&box->image->image, &disk, z, keeper_host_id(k, box->slot), &box->root, err);
}

static int send_start(struct keeper *k, struct box *box, int sock, struct err *err)
{
    struct spawner_zygote msg = {
        .head = {.version = WIRE_VERSION, .type = SPAWNER_ZYGOTE, .id = (uint32_t)box->number},
        .slot = box->slot,
        .n_binds = box->root.n_binds,
    };
    int fds[2 + GUEST_BINDS_MAX] = {sock, box->root.overlay};
    for (unsigned i = 0; i < box->root.n_binds; i++) {
        (void)snprintf(msg.target[i], sizeof msg.target[i], "%s", box->root.targets[i]);
        fds[2 + i] = box->root.binds[i];
    }
    (void)snprintf(msg.preload, sizeof msg.preload, "%s", k->config.preload);
    int r = wire_send(k->spawner, &msg, sizeof msg, NULL, 0, fds, 2 + msg.n_binds);
    return r < 0 ? err_sys(err, -r, "ask the spawner for a zygote") : 0;
}

static int begin(struct keeper *k, struct box *box, struct err *err)
{
    int ends[2];
    uint32_t uid = keeper_host_id(k, box->slot);
    if (make_root(k, box, err) < 0 ||
        cgroups_make(k->cgroups, keeper_host_slot(k, box->slot), uid, &limits, err) < 0)
        return -1;
    box->has_cgroups = 1;
    int r = wire_pair(ends);
    if (r < 0)
        return err_sys(err, -r, "make the socket of a zygote");
    auto_fd theirs = ends[1];
    box->guest = ends[0];
    (void)fd_set_nonblock(box->guest, 1); // it may stop reading: not our trouble
    r = keeper_watch(k, box->guest, EVENT_GUEST, box->slot);
    r = r < 0 ? err_sys(err, -r, "watch a zygote") : send_start(k, box, theirs, err);
    if (r < 0) // no pidfd will come that its end could wait for
        keeper_unwatch(k, TAKE_FD(box->guest));
    root_done(&box->root);
    fd_close(TAKE_FD(box->disk_fd));
    return r;
}

static void failed(struct zygote *z, const char *why)
{
    int shift = z->failures < 9 ? (int)z->failures : 9;
    int64_t ms = (int64_t)BACK_OFF_MS << shift;
    z->failures++;
    z->due_ns = after_ms(ms < BACK_OFF_MAX_MS ? ms : BACK_OFF_MAX_MS);
    // Most often the image has no Python, which is no fault.
    log_line(z->failures == 1 ? LOG_INFO : LOG_DEBUG,
             "no zygote: Python contexts start the ordinary way", "image", z->image->name, "why",
             why, NULL);
}

static void start(struct keeper *k, struct zygote *z)
{
    struct err err = {0};
    struct box *box = table_first(k, LIST_FREE);
    z->due_ns = 0;
    z->why[0] = '\0';
    if (box == NULL || k->spawner < 0) {
        failed(z, "all boxes are in use");
        return;
    }
    box->number = ++k->next_number;
    box->state = BOX_ZYGOTE;
    box->is_zygote = 1;
    box->image = z->image;
    box->image->users++;
    table_update(k, box);
    z->next_slot = box->slot;
    z->patience_ns = after_ms(PATIENCE_MS);
    int r = begin(k, box, &err);
    table_update(k, box);
    if (r < 0) {
        z->next_slot = 0;
        failed(z, err.msg);
        end_begin(k, box);
    }
}

void zygote_spawned(struct keeper *k, struct box *box, int pidfd)
{
    const struct zygote_plain go = {
        .head = {.version = WIRE_VERSION, .type = ZYGOTE_READY}
    };
    struct err err = {0};
    box->pidfd = pidfd;
    table_update(k, box);
    int r = keeper_watch(k, pidfd, EVENT_END, box->slot);
    pid_t pid = pidfd_child(pidfd);
    if (r == 0 && pid > 0 && box->state == BOX_ZYGOTE)
        r = cgroups_join(k->cgroups, keeper_host_slot(k, box->slot), pid, &err);
    if (r == 0)
        r = wire_send(box->guest, &go, sizeof go, NULL, 0, NULL, 0);
    if (r < 0 || pid < 0 || box->state != BOX_ZYGOTE)
        end_begin(k, box);
}

// --- asking it

// The zygote of a box's image; one that is not there yet is begun.
struct zygote *zygote_of(struct keeper *k, const struct box *box, struct err *err)
{
    struct zygote *z = find(k, box->image);
    if (z == NULL && is_on(k) && box->image != NULL)
        z = zygote_want(k, box->image);
    if (z == NULL || z->slot == 0 || box->foreign) {
        (void)err_set(err, ERR_UNAVAILABLE, "there is no zygote for this box");
        return NULL;
    }
    return z;
}

// --- hearing from it

// It has been asked for a fork, or has answered: whoever has done so is given time for the next.
void zygote_expect(struct keeper *k, struct zygote *z, bool anew)
{
    if (!plant_waits(k, z->slot))
        z->answer_ns = 0;
    else if (anew || z->answer_ns == 0)
        z->answer_ns = after_ms(ANSWER_MS);
}

// What forks have written before they were in their boxes' cgroups, and their page tables, is
// charged to the zygote as long as they live: another takes its place before that is too much.
static void see_memory(const struct keeper *k, struct zygote *z)
{
    struct cgroup_usage used;
    if (++z->forks % FORKS_LOOK != 0 || z->next_slot != 0 || z->failures > 0)
        return;
    cgroups_usage(k->cgroups, keeper_host_slot(k, z->slot), &used);
    if (used.memory > limits.memory / 2)
        z->due_ns = clock_ns();
}

static void retire(struct keeper *k, uint32_t slot)
{
    if (slot == 0)
        return;
    plant_lose(k, slot);
    end_begin(k, &k->boxes[slot]);
}

static void became_ready(struct keeper *k, struct zygote *z)
{
    uint32_t old = z->slot;
    z->slot = z->next_slot;
    z->next_slot = 0;
    z->answer_ns = 0;
    z->failures = 0;
    z->patience_ns = 0;
    z->forks = 0;
    z->due_ns = after_ms(k->config.zygote_renew_ms);
    retire(k, old);
}

void zygote_event(struct keeper *k, struct box *box)
{
    union zygote_answer msg;
    struct wire_fds fds;
    ssize_t n = wire_recv(box->guest, &msg, sizeof msg, &fds, MSG_DONTWAIT);
    if (n == -EAGAIN || n == -EINTR)
        return;
    if (n <= 0) { // or what is no message: its end tells the rest
        (void)epoll_ctl(k->epoll, EPOLL_CTL_DEL, box->guest, NULL);
        end_begin(k, box);
        return;
    }
    struct zygote *z = find_slot(k, box->slot);
    bool is_why = msg.head.type == ZYGOTE_FAILED && n == sizeof msg.failed && msg.head.id == 0;
    if (msg.head.type == ZYGOTE_READY && z != NULL && z->next_slot == box->slot) {
        became_ready(k, z);
    } else if (is_why && z != NULL) {
        (void)snprintf(z->why, sizeof z->why, "%.*s", (int)sizeof msg.failed.step - 1,
                       msg.failed.step);
    } else if (plant_heard(k, box->slot, &msg, (size_t)n, &fds) && z != NULL &&
               z->slot == box->slot) {
        zygote_expect(k, z, /* anew */ true);
        see_memory(k, z);
    }
    wire_fds_close(&fds);
}

void zygote_gone(struct keeper *k, uint32_t slot)
{
    struct zygote *z = slot != 0 ? find_slot(k, slot) : NULL;
    plant_lose(k, slot);
    if (z == NULL)
        return;
    if (z->slot == slot) {
        z->slot = 0;
        z->answer_ns = 0;
    }
    if (z->next_slot == slot)
        z->next_slot = 0;
    if (z->image != NULL && is_on(k))
        failed(z, z->why[0] != '\0' ? z->why : "it has ended");
    else
        z->due_ns = clock_ns(); // as soon as there may be one: an upgrade may come to nothing
}

void zygote_spawner_lost(struct keeper *k)
{
    for (unsigned i = 0; i < ZYGOTES_MAX; i++) {
        retire(k, k->zygotes[i].slot);
        retire(k, k->zygotes[i].next_slot);
    }
}

// --- which there are

struct zygote *zygote_want(struct keeper *k, struct keeper_image *image)
{
    struct zygote *z = NULL, *oldest = NULL;
    for (unsigned i = 0; i < ZYGOTES_MAX; i++) {
        struct zygote *one = &k->zygotes[i];
        if (one->image == NULL)
            z = one;
        else if (!one->is_pools && one->next_slot == 0 &&
                 (oldest == NULL || one->used_ns < oldest->used_ns))
            oldest = one;
    }
    if (z == NULL && oldest != NULL) {
        zygote_forget(k, oldest);
        z = oldest;
    }
    if (z == NULL)
        return NULL;
    *z = (struct zygote){.image = image, .used_ns = clock_ns()};
    image->users++;
    start(k, z);
    return z;
}

void zygote_forget(struct keeper *k, struct zygote *z)
{
    uint32_t slots[2] = {z->slot, z->next_slot};
    z->image->users--;
    *z = (struct zygote){0};
    retire(k, slots[0]);
    retire(k, slots[1]);
}

static int is_idle(const struct zygote *z)
{
    return !z->is_pools && clock_ns() - z->used_ns > IDLE_MS * NS_PER_MS;
}

static int has_no_pools(const struct keeper *k)
{
    for (unsigned i = 0; i < ZYGOTES_MAX; i++) {
        if (k->zygotes[i].is_pools)
            return 0;
    }
    return k->config.pool_ready > 0;
}

// In nanoseconds of the clock when it wants something, 0 for never.
static int64_t due(const struct zygote *z)
{
    if (z->image == NULL)
        return 0;
    int64_t when = z->next_slot != 0 ? z->patience_ns : z->due_ns;
    return z->answer_ns != 0 && (when == 0 || z->answer_ns < when) ? z->answer_ns : when;
}

// It was asked for a fork and does not answer: whoever waits hears it, and another takes its place.
static void give_up(struct keeper *k, struct zygote *z)
{
    uint32_t slot = z->slot;
    z->slot = 0;
    z->answer_ns = 0;
    failed(z, "it does not answer");
    retire(k, slot);
}

int zygote_wait(const struct keeper *k)
{
    int64_t soonest = 0;
    if (!is_on(k))
        return -1;
    if (has_no_pools(k) && k->table.n[COUNT_READY] > 0) // the pool first
        return 0;
    for (unsigned i = 0; i < ZYGOTES_MAX; i++) {
        int64_t when = due(&k->zygotes[i]);
        if (when != 0 && (soonest == 0 || when < soonest))
            soonest = when;
    }
    if (soonest == 0)
        return -1;
    int64_t ms = (soonest - clock_ns() + NS_PER_MS - 1) / NS_PER_MS;
    return ms <= 0 ? 0 : ms > 60000 ? 60000 : (int)ms;
}

static void begin_pools(struct keeper *k)
{
    struct err err = {0};
    struct keeper_image *image = build_image(k, pool_image(k), &err);
    struct zygote *z = image != NULL ? find(k, image) : NULL; // a box may have asked before
    if (z == NULL && image != NULL)
        z = zygote_want(k, image);
    if (z != NULL)
        z->is_pools = 1;
    else
        k->zygotes_off = 1; // whoever claims a box hears what is wrong with the image
}

void zygote_work(struct keeper *k)
{
    if (has_no_pools(k) && k->table.n[COUNT_READY] > 0) {
        begin_pools(k);
        return;
    }
    for (unsigned i = 0; i < ZYGOTES_MAX; i++) {
        struct zygote *z = &k->zygotes[i];
        int64_t when = due(z);
        if (when == 0 || clock_ns() < when)
            continue;
        if (z->answer_ns != 0 && clock_ns() >= z->answer_ns)
            give_up(k, z);
        else if (z->next_slot != 0)
            end_begin(k, &k->boxes[z->next_slot]); // it takes too long; its end is heard
        else if (is_idle(z))
            zygote_forget(k, z);
        else
            start(k, z);
        return;
    }
}
