// SPDX-License-Identifier: Apache-2.0
// How a sandbox moves: sleeping, starting, running, quieting, stopping, held, destroying. One table
// says which change is possible in which state, one function makes it. Who wants something else
// than what goes on waits in a list; whenever a state is reached in which it can rest,
// lifecycle_settle() looks at these lists.
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "box/limits.h"
#include "sandbox/hold-internal.h"
#include "sandbox/process.h"
#include "sandbox/session.h"
#include "sandbox/terminal.h"

enum { GRACE_MS = 2000 }; // between SIGTERM and the end of the box

// All others are not possible: a bug.
static const struct {
    enum sandbox_state from;
    enum sandbox_change change;
    enum sandbox_state to;
} moves[] = {
    {STATE_SLEEPING,   CHANGE_START,    STATE_STARTING  },
    {STATE_SLEEPING,   CHANGE_BOUND,    STATE_RUNNING   },
    {STATE_SLEEPING,   CHANGE_HOLD,     STATE_HELD      },
    {STATE_SLEEPING,   CHANGE_DESTROY,  STATE_DESTROYING},
    {STATE_HELD,       CHANGE_LET_GO,   STATE_SLEEPING  },
    {STATE_STARTING,   CHANGE_BOUND,    STATE_RUNNING   },
    {STATE_STARTING,   CHANGE_FAILED,   STATE_SLEEPING  },
    {STATE_STARTING,   CHANGE_BOX_GONE, STATE_SLEEPING  },
    {STATE_RUNNING,    CHANGE_QUIET,    STATE_QUIETING  },
    {STATE_RUNNING,    CHANGE_STOP,     STATE_STOPPING  },
    {STATE_RUNNING,    CHANGE_BOX_GONE, STATE_SLEEPING  },
    {STATE_QUIETING,   CHANGE_STOP,     STATE_STOPPING  },
    {STATE_QUIETING,   CHANGE_BOX_GONE, STATE_SLEEPING  },
    {STATE_STOPPING,   CHANGE_BOX_GONE, STATE_SLEEPING  },
    {STATE_DESTROYING, CHANGE_FORGET,   STATE_GONE      },
};

static const char *const state_names[STATE_MAX] = {
    [STATE_SLEEPING] = "sleeping",     [STATE_STARTING] = "starting", [STATE_RUNNING] = "running",
    [STATE_QUIETING] = "quieting",     [STATE_STOPPING] = "stopping", [STATE_HELD] = "held",
    [STATE_DESTROYING] = "destroying", [STATE_GONE] = "gone",
};

void lifecycle_move(struct sandbox *s, enum sandbox_change change)
{
    enum sandbox_state next = STATE_MAX;
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        if (moves[i].from == s->state && moves[i].change == change)
            next = moves[i].to;
    }
    if (next == STATE_MAX)
        abort();
    log_line(LOG_DEBUG, "sandbox moves", "sandbox", s->row.id, "from", state_names[s->state], "to",
             state_names[next], NULL);
    s->state = next;
}

// --- waiting

static void wait_in(struct waiter **list, sandbox_fn fn, void *data, bool created, int64_t since_ns)
{
    if (fn == NULL)
        return;
    struct waiter *w = calloc(1, sizeof *w);
    if (w == NULL)
        abort();
    *w = (struct waiter){.fn = fn, .data = data, .created = created, .since_ns = since_ns};
    while (*list != NULL)
        list = &(*list)->next;
    *list = w;
}

void lifecycle_wait(struct waiter **list, sandbox_fn fn, void *data)
{
    wait_in(list, fn, data, false, 0);
}

void lifecycle_tell(struct sandbox *s, struct waiter **list, const struct err *err)
{
    struct waiter *w = *list;
    *list = NULL;
    while (w != NULL) {
        struct waiter *next = w->next;
        w->fn(w->data, err == NULL ? s : NULL, w->created, err);
        free(w);
        w = next;
    }
}

static void tell_destroyed(struct sandbox *s)
{
    struct err err = {0};
    (void)err_set(&err, ERR_CONFLICT, "sandbox '%.128s' is being destroyed", s->row.id);
    lifecycle_tell(s, &s->wakers, &err);
    lifecycle_tell(s, &s->sleepers, &err);
    lifecycle_tell(s, &s->holders, &err);
    lifecycle_tell(s, &s->copiers, &err);
}

// --- the row

int lifecycle_store(struct sandbox *s, struct err *err)
{
    s->row.updated_ms = db_now_ms();
    return db_sandbox_update(s->fleet->config.db, &s->row, err);
}

static void store_or_log(struct sandbox *s)
{
    struct err err = {0};
    if (lifecycle_store(s, &err) < 0)
        log_line(LOG_ERROR, "cannot store a sandbox's row", "sandbox", s->row.id, "error", err.msg,
                 NULL);
}

struct box_limits lifecycle_limits(const struct sandbox *s)
{
    return (struct box_limits){
        .memory = (uint64_t)s->row.memory,
        .disk = (uint64_t)(s->row.disk - s->row.shared),
        .pids = (uint32_t)s->row.pids,
        .cpu_milli = (uint32_t)s->row.cpu_milli,
    };
}

int lifecycle_check_shared(int64_t disk, int64_t shared, struct err *err)
{
    if (disk - shared >= (int64_t)LIMIT_DISK_MIN)
        return 0;
    return err_set(err, ERR_EXHAUSTED,
                   "what is on the disk already, %lld MiB, leaves nothing to write of its limit of "
                   "%lld MiB: give it a larger disk",
                   (long long)(shared >> 20), (long long)(disk >> 20));
}

struct tenant *lifecycle_tenant(struct sandbox *s)
{
    struct err err = {0};
    struct tenant *tenant = fleet_tenant(s->fleet, s->row.tenant, &err);
    if (tenant == NULL)
        abort(); // it was there when the sandbox was loaded, and stays in memory
    return tenant;
}

void lifecycle_count_running(struct sandbox *s, int by)
{
    struct tenant *tenant = lifecycle_tenant(s);
    int64_t memory = by > 0 ? s->row.memory : 0;
    tenant->running += by;
    tenant->memory += memory - s->memory_counted;
    s->memory_counted = memory;
    s->fleet->running += (unsigned)by;
}

void lifecycle_count_memory(struct sandbox *s)
{
    if (s->memory_counted == 0)
        return;
    lifecycle_tenant(s)->memory += s->row.memory - s->memory_counted;
    s->memory_counted = s->row.memory;
}

struct err lifecycle_told(const struct err *err)
{
    struct err told = *err;
    if (told.code == ERR_EXHAUSTED || told.code == ERR_CONFLICT)
        told.code = ERR_UNAVAILABLE; // boxes that end, a disk that is being let go: try again
    else if (told.code == ERR_DENIED)
        told.code = ERR_INTERNAL;
    return told;
}

// --- ending a box

static void stop_grace(struct sandbox *s)
{
    if (s->grace == NULL)
        return;
    s->grace->data = NULL;
    uv_close((uv_handle_t *)s->grace, (uv_close_cb)free);
    s->grace = NULL;
}

static void stop(struct sandbox *s)
{
    stop_grace(s);
    lifecycle_move(s, CHANGE_STOP);
    keeper_destroy(s->fleet, box_link_number(s->box), NULL, NULL);
}

static void on_grace(uv_timer_t *timer)
{
    struct sandbox *s = timer->data;
    if (s == NULL)
        return;
    int64_t waited = clock_ns() - s->quiet_ns;
    if (s->box == NULL || s->state != STATE_QUIETING) {
        stop_grace(s);
    } else if (box_link_running(s->box) == 0 || waited > GRACE_MS * NS_PER_MS) {
        stop(s);
    }
}

static void on_sessions_saved(void *data)
{
    enum { LOOK_EVERY_MS = 20 };
    struct sandbox *s = data;
    if (s->state == STATE_QUIETING && s->box != NULL && s->grace == NULL) {
        if (box_link_running(s->box) == 0 || s->destroy_wanted) {
            stop(s);
        } else {
            terminals_hang_up(s);
            box_link_signal_all(s->box, SIGTERM);
            box_link_signal_all(s->box, SIGCONT);
            s->quiet_ns = clock_ns();
            s->grace = calloc(1, sizeof *s->grace);
            if (s->grace == NULL)
                abort();
            s->grace->data = s;
            (void)uv_timer_init(s->fleet->config.loop, s->grace);
            (void)uv_timer_start(s->grace, on_grace, LOOK_EVERY_MS, LOOK_EVERY_MS);
        }
    }
    sandbox_unref(s);
}

static void quiet(struct sandbox *s)
{
    lifecycle_move(s, CHANGE_QUIET);
    sessions_save(s, on_sessions_saved, sandbox_ref(s));
}

// The box's processes are all reaped; mounts and disk are still being let go.
void lifecycle_box_ended(struct sandbox *s, const struct keeper_ended *msg)
{
    enum end_reason reason = END_KILLED;
    uint32_t limits = 0;
    if (s->state == STATE_STARTING)
        return; // it died in the pool: the answer to its taking says so
    if (s->state != STATE_STOPPING) {
        reason = msg->oom_kills > 0 ? END_OOM : END_BOX_LOST;
        limits = msg->oom_kills > 0 ? GUEST_LIMIT_OOM : 0;
        s->fleet->counted.lost++;
        log_line(LOG_WARN, "a box was lost", "sandbox", s->row.id, "reason",
                 end_reason_name(reason), NULL);
    }
    bool asked = s->state == STATE_STOPPING;
    stop_grace(s);
    if (!asked)
        lifecycle_move(s, CHANGE_STOP); // nothing is started in it any more
    box_link_lost(s->box, reason, limits);
    if (s->destroy_wanted)
        return;
    char *data =
        event_data("{\"reason\":\"%s\",\"cpu\":%.3f,\"peakMemory\":%llu,\"oomKills\":%u}",
                   asked ? "asked" : end_reason_name(reason), (double)msg->cpu_usec / 1000.0,
                   (unsigned long long)msg->memory_peak, msg->oom_kills);
    sandbox_event(s, asked ? "slept" : "lost", data);
    s->fleet->counted.slept += asked;
    free(data);
}

void lifecycle_box_gone(struct sandbox *s)
{
    stop_grace(s);
    bind_detach(s);
    if (s->state == STATE_STARTING) { // on_taken goes on
        sandbox_unref(s);             // the box's
        return;
    }
    lifecycle_count_running(s, -1);
    lifecycle_move(s, CHANGE_BOX_GONE);
    s->row.slept_ms = db_now_ms();
    if (!s->destroy_wanted)
        store_or_log(s);
    lifecycle_tell(s, &s->sleepers, NULL);
    if (!s->destroy_wanted && s->fleet->slept_fn != NULL)
        s->fleet->slept_fn(s->fleet->slept_data, s);
    if (!s->destroy_wanted)
        sandbox_recount(s);
    lifecycle_settle(s);
    fleet_check_stopped(s->fleet);
    sandbox_unref(s); // the box's
}

// --- destroying

static void forget(struct sandbox *s)
{
    struct err err = {0};
    struct tenant *tenant = lifecycle_tenant(s);
    processes_destroy(s);
    if (db_sandbox_del(s->fleet->config.db, s->row.number, &err) < 0) {
        // It counts until it is gone: whoever looks it up next tries again.
        log_line(LOG_ERROR, "cannot remove a sandbox's row", "sandbox", s->row.id, "error", err.msg,
                 NULL);
    } else {
        tenant->sandboxes--;
        tenant->disk -= s->row.disk;
    }
    s->fleet->counted.destroyed++;
    lifecycle_move(s, CHANGE_FORGET);
    fleet_remove(s);
    followers_end(s);
    log_line(LOG_INFO, "sandbox destroyed", "sandbox", s->row.id, NULL);
    lifecycle_tell(s, &s->destroyers, NULL);
    sandbox_unref(s); // of those in destruction
}

static void on_disk_dropped(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct sandbox *s = data;
    (void)ev;
    // A daemon that was killed had asked for a box that no row knows of: it is about to end.
    s->disk_in_use = err != NULL && err->code == ERR_CONFLICT;
    if (s->disk_in_use)
        return; // the ticker tries again
    if (err != NULL && err->code != ERR_NOT_FOUND)
        log_line(LOG_ERROR, "cannot remove a disk; it is tried again at the next start", "sandbox",
                 s->row.id, "error", err->msg, NULL);
    forget(s);
}

void lifecycle_drop_disk(struct sandbox *s)
{
    s->disk_in_use = false;
    keeper_disk_drop(s->fleet, disk_kept(bind_disk(s)), on_disk_dropped, s);
}

static void destroy(struct sandbox *s)
{
    sandbox_ref(s); // until it is gone
    lifecycle_move(s, CHANGE_DESTROY);
    tell_destroyed(s);
    snapshots_drop(s);
    // Also of one that has had no box, as far as its row knows: a daemon that was killed may have
    // asked for one, and its disk was made.
    if (bind_disk(s) != 0)
        lifecycle_drop_disk(s);
    else
        forget(s);
}

// --- what is wanted next

static void settle_destroyed(struct sandbox *s)
{
    tell_destroyed(s);
    if (s->state == STATE_RUNNING)
        stop(s);
    else if (s->state == STATE_QUIETING && s->box != NULL)
        stop(s);
    else if (s->state == STATE_SLEEPING)
        destroy(s); // one that is held: when it is let go
}

static void settle_asleep(struct sandbox *s)
{
    struct err err = {0};
    if (s->sleepers != NULL) {
        lifecycle_tell(s, &s->sleepers, NULL); // it never got a box
        lifecycle_settle(s);
    } else if (s->holders != NULL && s->fleet->stopping) {
        (void)err_set(&err, ERR_UNAVAILABLE, "the server is stopping");
        lifecycle_tell(s, &s->holders, &err);
        lifecycle_settle(s);
    } else if (s->holders != NULL) {
        hold_for_next(s);
    } else if (s->wakers != NULL && s->row.archive != NULL) {
        hold_to_recall(s);
    } else if (s->wakers != NULL) {
        bind_start(s);
    }
}

void lifecycle_settle(struct sandbox *s)
{
    sandbox_ref(s);
    if (s->destroy_wanted)
        settle_destroyed(s);
    else if (s->state == STATE_RUNNING && (s->sleepers != NULL || s->holders != NULL))
        quiet(s);
    else if (s->state == STATE_RUNNING && s->wakers != NULL)
        lifecycle_tell(s, &s->wakers, NULL);
    else if (s->state == STATE_SLEEPING)
        settle_asleep(s);
    sandbox_unref(s);
}

void lifecycle_start(struct sandbox *s, sandbox_fn fn, void *data, bool created, int64_t since_ns)
{
    sandbox_touch(s);
    wait_in(&s->wakers, fn, data, created, since_ns);
    lifecycle_settle(s);
}

void lifecycle_resume_destroy(struct sandbox *s)
{
    s->destroy_wanted = true;
    lifecycle_settle(s);
}

void sandbox_wake(struct sandbox *s, sandbox_fn fn, void *data)
{
    // The ordinary case costs nothing.
    if (s->state == STATE_RUNNING && !s->destroy_wanted && s->sleepers == NULL &&
        s->holders == NULL) {
        sandbox_touch(s);
        fn(data, s, false, NULL);
        return;
    }
    if (s->state == STATE_GONE || s->destroy_wanted) {
        struct err err = {0};
        (void)err_set(&err, ERR_NOT_FOUND, "sandbox '%.128s' was destroyed", s->row.id);
        fn(data, NULL, false, &err);
        return;
    }
    lifecycle_start(s, fn, data, /* created */ false, clock_ns());
}

static void ignore(void *data, struct sandbox *s, bool created, const struct err *err)
{
    (void)data, (void)s, (void)created, (void)err;
}

void sandbox_sleep(struct sandbox *s, const char *why, sandbox_fn fn, void *data)
{
    struct err err = {0};
    if (fn == NULL)
        fn = ignore;
    if (s->state == STATE_GONE || s->destroy_wanted) {
        (void)err_set(&err, ERR_NOT_FOUND, "sandbox '%.128s' was destroyed", s->row.id);
        fn(data, NULL, false, &err);
    } else if ((s->state == STATE_SLEEPING || s->state == STATE_HELD) && s->wakers == NULL) {
        fn(data, s, false, NULL);
    } else {
        log_line(LOG_INFO, "sandbox falls asleep", "sandbox", s->row.id, "why", why, NULL);
        wait_in(&s->sleepers, fn, data, false, 0);
        lifecycle_settle(s);
    }
}

void sandbox_destroy(struct sandbox *s, sandbox_fn fn, void *data)
{
    struct err err = {0};
    if (s->state == STATE_GONE) {
        (void)err_set(&err, ERR_NOT_FOUND, "sandbox '%.128s' was destroyed", s->row.id);
        if (fn != NULL)
            fn(data, NULL, false, &err);
        return;
    }
    wait_in(&s->destroyers, fn, data, false, 0);
    if (s->destroy_wanted)
        return;
    // From here on it is gone for everybody; a crash before its disk is removed is taken up again.
    s->destroy_wanted = true;
    enum sandbox_status before = s->row.status;
    s->row.status = SANDBOX_DESTROYING;
    if (lifecycle_store(s, &err) < 0) {
        s->destroy_wanted = false;
        s->row.status = before;
        lifecycle_tell(s, &s->destroyers, &err);
        return;
    }
    lifecycle_settle(s);
}
