// SPDX-License-Identifier: Apache-2.0
// Giving a sandbox a box: one that is ready, of which the keeper is only told, or one that is
// claimed with its disk. And the beginning of a sandbox, which is one row written with its first
// box.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "box/limits.h"
#include "sandbox/context.h"
#include "sandbox/language.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/session.h"

static void attach(struct sandbox *s, uint64_t number, struct guest_peer guest, unsigned parked)
{
    s->box = box_link_new(s, number, guest);
    *box_link_parked(s->box) = parked;
    s->row.box = (int64_t)number;
    s->row.run = (int64_t)s->fleet->welcome.run;
    s->row.status = SANDBOX_RUNNING;
    sandbox_touch(s);
    sandbox_ref(s); // as long as it has a box
    fleet_bind(s->fleet, s->box);
}

// Takes the box away from the sandbox. The keeper has ended it, or will.
void bind_detach(struct sandbox *s)
{
    reach_unbind(s);
    fleet_unbind(s->fleet, s->box);
    box_link_free(s->box);
    s->box = NULL;
    hand_link_free(s->hand); // last: whoever is told may ask again, and finds no box
    s->row.box = 0;
    s->row.status = SANDBOX_SLEEPING;
    sessions_forget(s);
    contexts_forget(s);
}

uint64_t bind_disk(const struct sandbox *s)
{
    return s->row.ephemeral ? 0 : (uint64_t)s->row.number;
}

struct disk_ref disk_kept(uint64_t number)
{
    return (struct disk_ref){.place = PLACE_KEPT, .number = number};
}

struct disk_ref disk_snapshot(uint64_t number)
{
    return (struct disk_ref){.place = PLACE_SNAPSHOT, .number = number};
}

struct disk_ref disk_making(uint64_t number)
{
    return (struct disk_ref){.place = PLACE_MAKING, .number = number};
}

// A daemon that was killed may have given one of its own to a sandbox whose row does not say so
// yet.
static bool is_without_disk(const struct sandbox *s)
{
    return s->row.disks == 0 && s->created_now;
}

static bool suits_pool(const struct sandbox *s)
{
    // A disk in memory keeps the size that it was made with.
    bool fits = s->fleet->welcome.has_volume || (uint64_t)s->row.disk == limits_default().disk;
    return fits && s->fleet->n_ready > 0 && strcmp(s->row.image, s->fleet->config.image) == 0 &&
           (s->row.ephemeral || (is_without_disk(s) && !s->row.durable));
}

static bool has_default_limits(const struct sandbox *s)
{
    struct box_limits d = limits_default();
    return (uint64_t)s->row.memory == d.memory &&
           (uint64_t)(s->row.disk - s->row.shared) == d.disk && s->row.pids == d.pids &&
           s->row.cpu_milli == d.cpu_milli;
}

static void on_limited(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct sandbox *s = data;
    (void)ev;
    if (err != NULL)
        log_line(LOG_WARN, "the limits of a box could not be set", "sandbox", s->row.id, "error",
                 err->msg, NULL);
    sandbox_unref(s);
}

// The settings may have been changed while the box was being made.
static void catch_up(struct sandbox *s)
{
    struct box_limits limits = lifecycle_limits(s);
    if (memcmp(&limits, &s->asked, sizeof limits) != 0)
        keeper_limit(s->fleet, box_link_number(s->box), &limits, on_limited, sandbox_ref(s));
}

static void tell_bound(struct sandbox *s)
{
    if (s->state == STATE_RUNNING)
        lifecycle_tell(s, &s->wakers, NULL);
    lifecycle_settle(s);
}

static void on_bound(struct sandbox *s, const struct err *failed)
{
    struct err err = {0};
    bool first = s->created_now;
    s->fleet->starting--;
    if (failed != NULL) {
        lifecycle_move(s, CHANGE_FAILED);
        lifecycle_count_running(s, -1);
        // Its first box decides whether there is such a sandbox at all.
        if (first)
            s->destroy_wanted = true;
        err = lifecycle_told(failed);
        lifecycle_tell(s, &s->wakers, &err);
        lifecycle_settle(s);
        fleet_check_stopped(s->fleet);
        return;
    }
    lifecycle_move(s, CHANGE_BOUND);
    s->row.boxes++;
    if (s->row.disks == 0 && !s->row.ephemeral)
        s->row.disks = 1;
    s->created_now = false;
    if (s->destroy_wanted) { // its row says so, and goes on saying it
        lifecycle_settle(s);
        return;
    }
    if (lifecycle_store(s, &err) < 0) {
        s->destroy_wanted = first;
        lifecycle_tell(s, &s->wakers, &err);
        if (first)
            lifecycle_settle(s);
        else
            sandbox_sleep(s, "its row could not be stored", NULL, NULL);
        return;
    }
    catch_up(s);
    sandbox_event(s, first ? "created" : "woke", NULL);
    if (first)
        s->fleet->counted.created++;
    else
        s->fleet->counted.woken++;
    for (struct waiter *w = s->wakers; w != NULL; w = w->next)
        fleet_time(s->fleet, first ? TIMING_CREATE : TIMING_WAKE, clock_ns() - w->since_ns);
    reach_bind(s, tell_bound);
}

static void on_claimed(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct sandbox *s = data;
    if (ev != NULL)
        attach(s, ev->msg.box.box, (struct guest_peer){.sock = ev->guest, .version = WIRE_VERSION},
               0);
    on_bound(s, err);
    sandbox_unref(s);
}

static void claim_box(struct sandbox *s)
{
    struct claim claim = {
        .image = s->row.image,
        .limits = s->asked,
        .disk = bind_disk(s),
        .durable = s->row.durable,
    };
    if (claim.disk != 0)
        claim.disk_kind = DISK_KEPT;
    else
        claim.disk_kind = s->fleet->welcome.has_volume ? DISK_BLANK : DISK_TMPFS;
    keeper_claim(s->fleet, &claim, on_claimed, sandbox_ref(s));
}

// A box that is still in the keeper's pool: only what was taken can be ended.
static void take_to_end(struct sandbox *s)
{
    struct box_limits limits = limits_default();
    keeper_take(s->fleet, box_link_number(s->box), &limits, 0, NULL, NULL);
}

// A ready box has the default limits until the keeper has set others. One that has died in the pool
// meanwhile (lifecycle_box_gone) is nobody's fault: another one is asked for.
static void on_taken(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct sandbox *s = data;
    (void)ev;
    if (err != NULL)
        log_line(LOG_ERROR, "a ready box could not be taken", "sandbox", s->row.id, "error",
                 err->msg, NULL);
    if (err != NULL && s->box != NULL) {
        take_to_end(s);
        keeper_destroy(s->fleet, box_link_number(s->box), NULL, NULL);
        bind_detach(s);
        sandbox_unref(s); // the box's
    }
    if (err != NULL && err->code == ERR_NOT_FOUND && !s->destroy_wanted)
        claim_box(s);
    else
        on_bound(s, err);
    sandbox_unref(s);
}

struct late {
    struct sandbox *s;
    uint64_t box;
};

// The answer of a take nobody waits for.
static void on_late_taken(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct late *late = data;
    struct sandbox *s = late->s;
    (void)ev;
    if (err != NULL)
        log_line(LOG_ERROR, "a ready box could not be taken", "sandbox", s->row.id, "error",
                 err->msg, NULL);
    if (err != NULL && sandbox_box(s) == late->box) {
        take_to_end(s);
        if (s->state == STATE_STOPPING) // what was asked for then was refused
            keeper_destroy(s->fleet, late->box, NULL, NULL);
        else
            sandbox_sleep(s, "its box could not be taken", NULL, NULL);
    }
    sandbox_unref(s);
    free(late);
}

static void take_late(struct sandbox *s)
{
    struct box_limits limits = lifecycle_limits(s);
    struct late *late = calloc(1, sizeof *late);
    if (late == NULL)
        abort();
    *late = (struct late){.s = sandbox_ref(s), .box = box_link_number(s->box)};
    keeper_take(s->fleet, late->box, &limits, bind_disk(s), on_late_taken, late);
}

// The kernels that its settings say it will want.
static unsigned wanted_kernels(const struct sandbox *s)
{
    unsigned wanted = 0;
    for (unsigned i = 0; s->row.languages != NULL && i < n_languages; i++) {
        char quoted[32];
        (void)snprintf(quoted, sizeof quoted, "\"%s\"", languages[i].name);
        if (strstr(s->row.languages, quoted) != NULL)
            wanted |= 1u << languages[i].kernel;
    }
    return wanted;
}

static void take_box(struct sandbox *s)
{
    struct ready_box box;
    struct box_limits limits = lifecycle_limits(s);
    parking_choose(s->fleet, wanted_kernels(s));
    (void)fleet_take_ready(s->fleet, &box);
    attach(s, box.number, (struct guest_peer){.sock = box.guest, .version = WIRE_VERSION},
           box.parked);
    if (has_default_limits(s)) {
        take_late(s);
        on_bound(s, NULL);
    } else {
        keeper_take(s->fleet, box.number, &limits, bind_disk(s), on_taken, sandbox_ref(s));
    }
}

static int admit(struct sandbox *s, struct err *err)
{
    struct box_limits limits = lifecycle_limits(s);
    if (s->fleet->stopping)
        return err_set(err, ERR_UNAVAILABLE, "the server is stopping");
    if (admit_box(s->fleet, lifecycle_tenant(s), &limits, err) < 0) {
        s->fleet->counted.refused++;
        return -1;
    }
    return 0;
}

void bind_start(struct sandbox *s)
{
    struct err err = {0};
    if (admit(s, &err) < 0) {
        if (s->created_now)
            s->destroy_wanted = true;
        lifecycle_tell(s, &s->wakers, &err);
        if (s->created_now)
            lifecycle_settle(s);
        return;
    }
    lifecycle_move(s, CHANGE_START);
    s->asked = lifecycle_limits(s);
    s->fleet->starting++;
    lifecycle_count_running(s, 1);
    if (suits_pool(s))
        take_box(s);
    else
        claim_box(s);
}

int bind_create_ready(struct sandbox *s, struct err *err)
{
    if (!suits_pool(s) || !has_default_limits(s) || reach_is_needed(s))
        return 0;
    if (admit(s, err) < 0)
        return -1;
    parking_choose(s->fleet, wanted_kernels(s));
    const struct ready_box *next = &s->fleet->ready[s->fleet->n_ready - 1];
    s->row.box = (int64_t)next->number;
    s->row.run = (int64_t)s->fleet->welcome.run;
    s->row.status = SANDBOX_RUNNING;
    s->row.boxes = 1;
    s->row.disks = !s->row.ephemeral;
    if (db_sandbox_add(s->fleet->config.db, &s->row, err) < 0) {
        s->row.box = 0;
        s->row.status = SANDBOX_SLEEPING;
        s->row.boxes = 0;
        s->row.disks = 0;
        return -1;
    }
    struct ready_box box;
    (void)fleet_take_ready(s->fleet, &box);
    lifecycle_count_running(s, 1);
    attach(s, box.number, (struct guest_peer){.sock = box.guest, .version = WIRE_VERSION},
           box.parked);
    lifecycle_move(s, CHANGE_BOUND);
    s->created_now = false;
    return 1;
}

void bind_created(struct sandbox *s)
{
    take_late(s);
}

void bind_abandon(struct sandbox *s)
{
    if (s->box != NULL) {
        take_to_end(s);
        keeper_destroy(s->fleet, box_link_number(s->box), NULL, NULL);
        bind_detach(s);
        lifecycle_count_running(s, -1);
        lifecycle_move(s, CHANGE_BOX_GONE);
        sandbox_unref(s); // the box's
    }
    lifecycle_move(s, CHANGE_DESTROY);
    lifecycle_move(s, CHANGE_FORGET);
    fleet_remove(s);
}

void bind_adopt(struct sandbox *s, uint64_t box, struct guest_peer guest)
{
    attach(s, box, guest, 0);
    lifecycle_count_running(s, 1);
    lifecycle_move(s, CHANGE_BOUND);
}
