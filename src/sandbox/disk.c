// SPDX-License-Identifier: Apache-2.0
// Copying, replacing and dropping the disks of sandboxes. A copy is asked for when the sandbox
// rests or runs: what is in between is waited for.
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "sandbox/sandbox-internal.h"

enum { TRIES_MAX = 16 }; // a sandbox may change its state again and again

int sandbox_has_disk(const struct sandbox *s, struct err *err)
{
    if (s->row.ephemeral)
        return err_set(err, ERR_UNSUPPORTED,
                       "sandbox '%.128s' is ephemeral: its disk is lost when it falls asleep, and "
                       "cannot be copied",
                       s->row.id);
    if (!s->fleet->welcome.has_volume)
        return err_set(err, ERR_UNSUPPORTED, "this machine keeps no disks: it has no Btrfs volume");
    return 0;
}

int disk_check(const struct sandbox *s, struct err *err)
{
    if (s->state == STATE_GONE || s->destroy_wanted)
        return err_set(err, ERR_NOT_FOUND, "sandbox '%.128s' was destroyed", s->row.id);
    if (sandbox_has_disk(s, err) < 0)
        return -1;
    if (s->row.archive != NULL)
        return err_set(err, ERR_CONFLICT, "sandbox '%.128s' is archived: wake it first", s->row.id);
    return 0;
}

uint64_t disk_number_make(void)
{
    uint64_t number = 0;
    while (number == 0) {
        if (getrandom(&number, sizeof number, 0) != sizeof number)
            abort();
        number >>= 1; // rows and messages have signed ones
    }
    return number;
}

// --- copying

struct copying {
    struct sandbox *s;
    struct copy_spec spec;
    struct disk_copied copied; // as it was when it was asked for
    unsigned tries;
    disk_copied_fn fn;
    void *data;
};

static void copy_try(struct copying *c);

static void copy_end(struct copying *c, const struct err *err)
{
    struct fleet *fleet = c->s->fleet;
    c->fn(c->data, err == NULL ? &c->copied : NULL, err);
    sandbox_unref(c->s);
    free(c);
    fleet->forking--;
    fleet_check_stopped(fleet);
}

static void on_rested(void *data, struct sandbox *s, bool created, const struct err *err)
{
    (void)s, (void)created, (void)err;
    copy_try(data); // whatever came of it: its state tells
}

// Its box has ended before the copy was begun.
static bool lost_box(const struct copying *c, const struct err *err)
{
    if (c->spec.box == 0 || (err->code != ERR_NOT_FOUND && err->code != ERR_CONFLICT))
        return false;
    return sandbox_box(c->s) != c->spec.box || c->s->state != STATE_RUNNING ||
           box_link_is_over(c->s->box);
}

static void on_copied(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct copying *c = data;
    if (ev != NULL) {
        c->copied.own = (int64_t)ev->msg.copied.bytes;
        c->copied.shared += c->copied.own;
        c->copied.version = ev->msg.copied.version;
        copy_end(c, NULL);
    } else if (lost_box(c, err) && c->s->box != NULL && !c->s->destroy_wanted) {
        lifecycle_wait(&c->s->sleepers, on_rested, c);
    } else if (lost_box(c, err)) {
        copy_try(c);
    } else {
        struct err told = lifecycle_told(err);
        copy_end(c, &told);
    }
}

// Whom to wait with until the disk can be copied; NULL: it can.
static struct waiter **copy_waits(struct sandbox *s)
{
    switch (s->state) {
    case STATE_STARTING:
        return &s->wakers;
    case STATE_QUIETING:
    case STATE_STOPPING:
        return &s->sleepers;
    case STATE_HELD:
        return s->replacing ? &s->copiers : NULL;
    case STATE_SLEEPING:
    case STATE_RUNNING:
    case STATE_DESTROYING:
    case STATE_GONE:
    case STATE_MAX:
        break;
    }
    return NULL;
}

static void copy_try(struct copying *c)
{
    struct err err = {0};
    struct sandbox *s = c->s;
    if (disk_check(s, &err) == 0 && c->tries++ >= TRIES_MAX)
        (void)err_set(&err, ERR_UNAVAILABLE, "sandbox '%.128s' does not come to rest: try again",
                      s->row.id);
    if (err.code != ERR_NONE) {
        copy_end(c, &err);
        return;
    }
    struct waiter **list = copy_waits(s);
    if (list != NULL) {
        lifecycle_wait(list, on_rested, c);
        return;
    }
    c->spec.box = s->state == STATE_RUNNING ? sandbox_box(s) : 0;
    c->copied = (struct disk_copied){.shared = s->row.shared, .disk = s->row.disks};
    keeper_disk_copy(s->fleet, &c->spec, on_copied, c);
}

void disk_copy(struct sandbox *s, struct disk_ref to, uint64_t bytes, disk_copied_fn fn, void *data)
{
    struct copying *c = calloc(1, sizeof *c);
    if (c == NULL)
        abort();
    *c = (struct copying){
        .s = sandbox_ref(s),
        .spec = {.from = disk_kept((uint64_t)s->row.number), .to = to, .bytes = bytes},
        .fn = fn,
        .data = data,
    };
    s->fleet->forking++; // its end waits
    copy_try(c);
}

// --- copies for others

struct making {
    struct fleet *fleet;
    uint64_t number;
    disk_copy_fn fn;
    void *data;
};

static struct making *making_new(struct fleet *fleet, disk_copy_fn fn, void *data)
{
    struct making *m = calloc(1, sizeof *m);
    if (m == NULL)
        abort();
    *m = (struct making){.fleet = fleet, .number = disk_number_make(), .fn = fn, .data = data};
    return m;
}

static void on_making(void *data, const struct disk_copied *copied, const struct err *err)
{
    struct making *m = data;
    struct disk_made made = {.making = m->number};
    if (copied != NULL) {
        made.shared = copied->shared;
        made.version = copied->version;
    }
    m->fn(m->data, err == NULL ? &made : NULL, err);
    free(m);
}

void sandbox_copy_disk(struct sandbox *s, disk_copy_fn fn, void *data)
{
    struct making *m = making_new(s->fleet, fn, data);
    disk_copy(s, disk_making(m->number), lifecycle_limits(s).disk, on_making, m);
}

static void on_made(void *data, const struct keeper_event *ev, const struct err *err)
{
    if (ev != NULL) {
        on_making(data, NULL, NULL);
    } else {
        struct err told = lifecycle_told(err);
        on_making(data, NULL, &told);
    }
}

void fleet_make_disk(struct fleet *fleet, uint64_t bytes, disk_copy_fn fn, void *data)
{
    struct err err = {0};
    struct making *m = making_new(fleet, fn, data);
    // A copy of one that is not there is an empty one.
    struct copy_spec spec = {
        .from = disk_kept(disk_number_make()), .to = disk_making(m->number), .bytes = bytes};
    if (fleet->welcome.has_volume) {
        keeper_disk_copy(fleet, &spec, on_made, m);
    } else {
        (void)err_set(&err, ERR_UNSUPPORTED, "this machine keeps no disks: it has no Btrfs volume");
        on_making(m, NULL, &err);
    }
}

static void on_dropped(void *data, const struct keeper_event *ev, const struct err *err)
{
    (void)data, (void)ev;
    if (err != NULL)
        log_line(LOG_WARN, "cannot remove a disk; it is tried again at the next start", "error",
                 err->msg, NULL);
}

void fleet_drop_making(struct fleet *fleet, uint64_t making)
{
    keeper_disk_drop(fleet, disk_making(making), on_dropped, NULL);
}

// --- another disk

struct replacing {
    struct sandbox *s;
    int64_t shared, before;
    disk_fn fn;
    void *data;
};

static void replace_end(struct replacing *r, const struct err *err)
{
    r->s->replacing = false;
    r->fn(r->data, err);
    if (!r->s->destroy_wanted && !r->s->replacing)
        lifecycle_tell(r->s, &r->s->copiers, NULL);
    sandbox_unref(r->s);
    free(r);
}

static int store_synced(struct sandbox *s, struct err *err)
{
    s->row.updated_ms = db_now_ms();
    return db_sandbox_update_synced(s->fleet->config.db, &s->row, err);
}

static void on_moved(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct replacing *r = data;
    struct sandbox *s = r->s;
    struct err told = {0};
    (void)ev;
    if (err != NULL) {
        s->row.shared = r->before;
        told = lifecycle_told(err);
        replace_end(r, &told);
        return;
    }
    char *archive = s->row.archive;
    s->row.shared = r->shared;
    s->row.archive = NULL;
    s->row.disks++;
    // Of one that is being destroyed the row says so, and goes on saying it.
    if (store_synced(s, &told) < 0)
        log_line(LOG_ERROR, "cannot store a sandbox's row", "sandbox", s->row.id, "error", told.msg,
                 NULL);
    free(archive);
    replace_end(r, told.code != ERR_NONE ? &told : NULL);
}

void sandbox_replace_disk(struct sandbox *s, uint64_t making, int64_t shared, disk_fn fn,
                          void *data)
{
    struct err err = {0};
    struct replacing *r = calloc(1, sizeof *r);
    if (r == NULL)
        abort();
    *r = (struct replacing){
        .s = sandbox_ref(s), .shared = shared, .before = s->row.shared, .fn = fn, .data = data};
    s->replacing = true;
    int ok = lifecycle_check_shared(s->row.disk, shared, &err);
    // Whichever of the two a crash leaves, it may not hold more than its limit.
    if (ok == 0 && shared > s->row.shared) {
        s->row.shared = shared;
        ok = lifecycle_store(s, &err);
        if (ok < 0)
            s->row.shared = r->before;
    }
    if (ok < 0)
        replace_end(r, &err);
    else
        keeper_disk_move(s->fleet, disk_making(making), disk_kept((uint64_t)s->row.number),
                         on_moved, r);
}

// --- no disk here

struct archiving {
    struct sandbox *s;
    disk_fn fn;
    void *data;
};

static void on_archived(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct archiving *a = data;
    on_dropped(NULL, ev, err); // its row says where it is: what is left here is of no use
    a->fn(a->data, NULL);
    sandbox_unref(a->s);
    free(a);
}

void sandbox_archive_disk(struct sandbox *s, const char *backup, disk_fn fn, void *data)
{
    struct err err = {0};
    char *before = s->row.archive;
    s->row.archive = event_data("%s", backup);
    // Synced: after a power cut there must be one or the other.
    if (store_synced(s, &err) < 0) {
        struct err ignored;
        free(s->row.archive);
        s->row.archive = before;
        (void)lifecycle_store(s, &ignored); // it may be there, only not for sure
        fn(data, &err);
        return;
    }
    free(before);
    struct archiving *a = calloc(1, sizeof *a);
    if (a == NULL)
        abort();
    *a = (struct archiving){.s = sandbox_ref(s), .fn = fn, .data = data};
    keeper_disk_drop(s->fleet, disk_kept((uint64_t)s->row.number), on_archived, a);
}

void fleet_on_recall(struct fleet *fleet, recall_fn fn, void *data)
{
    fleet->recall_fn = fn;
    fleet->recall_data = data;
}

void fleet_on_slept(struct fleet *fleet, void (*fn)(void *data, struct sandbox *s), void *data)
{
    fleet->slept_fn = fn;
    fleet->slept_data = data;
}

// --- work on a disk

struct disk_working {
    struct fleet *fleet;
    uint32_t id;
    bool starting, ended; // ended before it was known to the caller
    disk_fn fn;
    void *data;
};

static void on_worked(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct disk_working *w = data;
    (void)ev;
    w->fn(w->data, err);
    if (w->starting)
        w->ended = true;
    else
        free(w);
}

struct disk_working *fleet_disk_work(struct fleet *fleet, const struct disk_job *job, disk_fn fn,
                                     void *data)
{
    struct disk_working *w = calloc(1, sizeof *w);
    if (w == NULL)
        abort();
    *w = (struct disk_working){.fleet = fleet, .starting = true, .fn = fn, .data = data};
    struct work_spec spec = {
        .disk = disk_making(job->making),
        .work = job->work,
        .image = job->image,
        .args = job->args,
        .fds = {job->fds[0], job->fds[1], job->fds[2]},
    };
    w->id = keeper_disk_work(fleet, &spec, on_worked, w);
    w->starting = false;
    if (!w->ended)
        return w;
    free(w);
    return NULL;
}

void disk_working_stop(struct disk_working *w)
{
    if (w != NULL)
        keeper_disk_cancel(w->fleet, w->id);
}

// --- room

struct asking {
    space_fn fn;
    void *data;
};

static void on_space(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct asking *a = data;
    a->fn(a->data, ev != NULL ? &ev->msg.space : NULL, err);
    free(a);
}

void fleet_space(struct fleet *fleet, space_fn fn, void *data)
{
    struct asking *a = calloc(1, sizeof *a);
    if (a == NULL)
        abort();
    *a = (struct asking){.fn = fn, .data = data};
    keeper_space(fleet, on_space, a);
}

struct asking_used {
    disks_used_fn fn;
    void *data;
};

static void on_disks_used(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct asking_used *a = data;
    a->fn(a->data, ev != NULL ? &ev->msg.disks_used : NULL, err);
    free(a);
}

void fleet_disks_used(struct fleet *fleet, const uint64_t *numbers, unsigned n, disks_used_fn fn,
                      void *data)
{
    struct asking_used *a = calloc(1, sizeof *a);
    if (a == NULL)
        abort();
    *a = (struct asking_used){.fn = fn, .data = data};
    keeper_disk_used(fleet, numbers, n, on_disks_used, a);
}
