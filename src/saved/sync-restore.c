// SPDX-License-Identifier: Apache-2.0
// What is stored becomes the workspace of a sandbox that is being made. It is written to a copy of
// its disk, which takes the disk's place when all of it is there. As long as that is not so, a row
// says so: a daemon that finds one from before removes the sandbox, which nobody was told of. (Or
// its next sync would find an empty workspace, and empty what is stored.)
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "saved/sync-restore-internal.h"

enum { KEYS_MAX = 128 * 1024 * 1024 };

// -- rows

static int mark(struct saved *saved, const struct sync_row *row, struct err *err)
{
    struct sync_row begun = *row; // lent
    begun.state = SYNC_RESTORING;
    begun.run = saved->config.run;
    return db_sync_put(saved->config.db, &begun, err);
}

// As it is, or as it would be. Of one that is marked already what it was before: whether it was
// there at all tells *ret_had.
static int read_before(struct saved *saved, int64_t tenant, const char *sandbox,
                       struct sync_row *ret, bool *ret_had, struct err *err)
{
    int found = db_sync_get(saved->config.db, tenant, sandbox, ret, err);
    if (found < 0)
        return -1;
    if (found == 0)
        *ret = (struct sync_row){.tenant = tenant, .sandbox = mem_copy_text(sandbox)};
    *ret_had = found > 0;
    if (ret->state == SYNC_RESTORING) {
        ret->state = ret->synced_ms > 0 ? SYNC_DONE : SYNC_NEVER;
        *ret_had = ret->started_ms > 0;
    }
    return 0;
}

// -- rows that could not be written: as long as one is there, the next start removes a sandbox of
// that id, whoever has made it meanwhile. They are tried again until they are.

struct left_row {
    LIST_ENTRY(left_row) all;
    int64_t tenant;
    char *sandbox;
};

static struct left_row *find_left(struct saved *saved, int64_t tenant, const char *sandbox)
{
    struct left_row *left;
    LIST_FOREACH(left, &saved->syncs->left, all)
    {
        if (left->tenant == tenant && strcmp(left->sandbox, sandbox) == 0)
            return left;
    }
    return NULL;
}

static void free_left(struct left_row *left)
{
    if (left == NULL)
        return;
    LIST_REMOVE(left, all);
    free(left->sandbox);
    free(left);
}

static void leave_row(struct saved *saved, int64_t tenant, const char *sandbox,
                      const struct err *why)
{
    log_line(LOG_WARN, "cannot write down how a restore ended, trying again", "sandbox", sandbox,
             "error", why->msg, NULL);
    if (saved->syncs == NULL || find_left(saved, tenant, sandbox) != NULL)
        return;
    struct left_row *left = calloc(1, sizeof *left);
    if (left == NULL)
        abort();
    left->tenant = tenant;
    left->sandbox = mem_copy_text(sandbox);
    LIST_INSERT_HEAD(&saved->syncs->left, left, all);
}

static int unmark(struct saved *saved, int64_t tenant, const char *sandbox, struct err *err)
{
    struct sync_row row = {0};
    bool had;
    int r = read_before(saved, tenant, sandbox, &row, &had, err);
    if (r == 0)
        r = db_sync_restored(saved->config.db, &row, had, err);
    sync_row_done(&row);
    return r;
}

void restorings_tick(struct saved *saved)
{
    struct left_row *left, *next;
    for (left = LIST_FIRST(&saved->syncs->left); left != NULL; left = next) {
        struct err ignored = {0};
        next = LIST_NEXT(left, all);
        if (unmark(saved, left->tenant, left->sandbox, &ignored) == 0)
            free_left(left);
    }
}

void restorings_close(struct saved *saved)
{
    while (!LIST_EMPTY(&saved->syncs->left))
        free_left(LIST_FIRST(&saved->syncs->left));
}

// -- a restore begins and ends

int sync_restore_mark(struct saved *saved, int64_t tenant, const char *sandbox, struct err *err)
{
    struct sync_row row = {0};
    bool had;
    int r = read_before(saved, tenant, sandbox, &row, &had, err);
    if (r == 0)
        r = mark(saved, &row, err);
    if (r == 0)
        free_left(find_left(saved, tenant, sandbox)); // it is of this one now
    sync_row_done(&row);
    return r;
}

void sync_restore_unmark(struct saved *saved, int64_t tenant, const char *sandbox)
{
    struct err err = {0};
    if (unmark(saved, tenant, sandbox, &err) < 0)
        leave_row(saved, tenant, sandbox, &err);
}

static int write_begun(struct restoring *r, struct err *err)
{
    struct place *place = r->place;
    if (read_before(place->saved, place->tenant, place->sandbox, &r->row, &r->had_row, err) < 0)
        return -1;
    return mark(place->saved, &r->row, err);
}

// Before anybody is told that there is a sandbox: as long as the row is there, the next start
// removes that.
static void write_ended(struct restoring *r, struct err *why)
{
    struct place *place = r->place;
    struct db *db = place->saved->config.db;
    struct err err = {0};
    if (db_sync_restored(db, &r->row, r->had_row, &err) == 0)
        return;
    leave_row(place->saved, place->tenant, place->sandbox, &err);
    if (why->code == ERR_NONE)
        *why = err;
}

static void forgotten(void *data, struct sandbox *s, bool created, const struct err *err)
{
    (void)data;
    (void)s;
    (void)created;
    if (err != NULL && err->code != ERR_NONE)
        log_line(LOG_WARN, "cannot remove a sandbox that was not restored", "error", err->msg,
                 NULL);
}

void restoring_forget(struct saved *saved, const struct sync_row *row)
{
    struct err err = {0};
    struct sandbox *s = fleet_find(saved->config.fleet, row->tenant, row->sandbox, &err);
    if (s == NULL)
        return;
    log_line(LOG_WARN, "a sandbox was not restored to its end: it is removed", "sandbox",
             row->sandbox, NULL);
    sandbox_destroy(s, forgotten, NULL);
}

// -- the end

static void free_restoring(struct restoring *r)
{
    if (r->making != 0)
        fleet_drop_making(r->place->saved->config.fleet, r->making);
    fd_close(r->to);
    fd_close(r->verdict);
    free(r->index);
    map_done(&r->objects);
    buf_done(&r->keys);
    sync_row_done(&r->row);
    sandbox_unref(r->sandbox);
    free(r);
}

static void finish(struct restoring *r, const struct err *err)
{
    struct place *place = r->place;
    struct saved *saved = place->saved;
    struct err why = {0};
    if (err != NULL)
        why = *err;
    // One that the daemon's end cuts off is found by the next one.
    if (r->has_begun && (why.code == ERR_NONE || !saved->closing))
        write_ended(r, &why);
    else if (!r->has_begun && !saved->closing) // whoever asked has marked it
        sync_restore_unmark(saved, place->tenant, place->sandbox);
    TAILQ_REMOVE(&place->restores, r, all);
    if (r->is_held)
        sandbox_let_go(r->sandbox);
    if (why.code != ERR_NONE)
        (void)err_wrap(&why, "restore the stored files");
    else
        saved->stats.restores++;
    r->fn(r->data, why.code == ERR_NONE ? NULL : &why);
    turn_over(saved, &r->turn);
    free_restoring(r);
    place_go_on(place);
    place_unref(place);
}

static bool is_closing(struct restoring *r)
{
    struct err err;
    if (!r->place->saved->closing)
        return false;
    (void)err_set(&err, ERR_UNAVAILABLE, "the server ends");
    finish(r, &err);
    return true;
}

// -- its steps, the last first

static void on_replaced(void *data, const struct err *err)
{
    struct restoring *r = data;
    if (err == NULL)
        r->making = 0;
    finish(r, err);
}

static void part_over(struct restoring *r)
{
    if (--r->left > 0)
        return;
    bool is_vague =
        r->err.code == ERR_NONE || (r->err.code == ERR_UNAVAILABLE && r->err.sys_errno == 0);
    const struct err *err = r->err.code != ERR_NONE ? &r->err : NULL;
    if (is_vague && r->process_err.code != ERR_NONE) // it said nothing, but the keeper knows why
        err = &r->process_err;
    if (err != NULL)
        finish(r, err);
    else if (!is_closing(r))
        sandbox_replace_disk(r->sandbox, r->making, r->shared, on_replaced, r);
}

static void on_fed(void *data)
{
    struct restoring *r = data;
    if (r->err.code != ERR_NONE && r->working != NULL)
        disk_working_stop(r->working);
    part_over(r);
}

static void on_process_end(void *data, const struct err *err)
{
    struct restoring *r = data;
    r->working = NULL;
    if (err != NULL)
        r->process_err = *err;
    part_over(r);
}

static int start_work(struct restoring *r, struct err *err)
{
    struct saved *saved = r->place->saved;
    int in[2], verdict[2];
    const char *const args[] = {SYNC_DIR, NULL};
    if (pipe2(in, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    if (pipe2(verdict, O_CLOEXEC) < 0) {
        (void)err_sys(err, errno, "make a pipe");
        fd_close(in[0]);
        fd_close(in[1]);
        return -1;
    }
    const struct disk_job work = {
        .making = r->making,
        .work = WORK_UNSYNC,
        .image = sandbox_row(r->sandbox)->image,
        .args = args,
        .fds = {in[0], -1, verdict[1]},
    };
    r->to = in[1];
    r->verdict = verdict[0];
    (void)fd_set_nonblock(r->to, 1); // or a large write would not look whether it is to stop
    r->left = 2;
    r->working = fleet_disk_work(saved->config.fleet, &work, on_process_end, r);
    fd_close(in[0]);
    fd_close(verdict[1]);
    store_pool_run(saved->pool, restoring_feed, on_fed, r);
    return 0;
}

static void on_copied(void *data, const struct disk_made *made, const struct err *err)
{
    struct restoring *r = data;
    struct err failed = {0};
    if (err == NULL) {
        r->making = made->making;
        r->shared = made->shared;
    }
    if (err != NULL)
        finish(r, err);
    else if (!is_closing(r) && start_work(r, &failed) < 0)
        finish(r, &failed);
}

static void on_held(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct restoring *r = data;
    (void)created;
    if (err != NULL && err->code != ERR_NONE) {
        finish(r, err);
        return;
    }
    r->is_held = true;
    if (!is_closing(r))
        sandbox_copy_disk(s, on_copied, r);
}

static void on_looked(void *data)
{
    struct restoring *r = data;
    if (r->err.code != ERR_NONE) {
        finish(r, &r->err);
    } else if (is_closing(r)) {
        // Nobody may have looked.
    } else if (r->n_objects == 0 && r->index_len == 0) {
        finish(r, NULL); // nothing is stored
    } else {
        sandbox_hold(r->sandbox, "restored", on_held, r);
    }
}

static void on_turn(void *data)
{
    struct restoring *r = data;
    if (!is_closing(r))
        store_pool_run(r->place->saved->pool, restoring_look, on_looked, r);
}

void restoring_begin(struct restoring *r)
{
    struct err err = {0};
    if (r->has_begun)
        return;
    if (sandbox_has_disk(r->sandbox, &err) < 0 || write_begun(r, &err) < 0) {
        finish(r, &err);
        return;
    }
    const struct turn_config config = {
        .lane = LANE_IN, .tenant = r->place->tenant, .run = on_turn, .data = r};
    r->has_begun = true;
    if (turn_take(r->place->saved, &r->turn, &config, &err) < 0)
        finish(r, &err);
}

void restoring_stop(struct restoring *r)
{
    atomic_store(&r->stop, true);
    if (r->working != NULL)
        disk_working_stop(r->working);
}

void sync_restore(struct saved *saved, struct sandbox *s, disk_fn fn, void *data)
{
    const struct sandbox_row *row = sandbox_row(s);
    struct err err = {0};
    struct place *place = place_get(saved, row->tenant, row->id, &err);
    if (place == NULL) {
        sync_restore_unmark(saved, row->tenant, row->id);
        fn(data, &err);
        return;
    }
    struct restoring *r = calloc(1, sizeof *r);
    if (r == NULL)
        abort();
    r->place = place; // counted already
    r->sandbox = sandbox_ref(s);
    r->fn = fn;
    r->data = data;
    r->store = saved->config.store;
    r->to = r->verdict = -1;
    buf_init(&r->keys, KEYS_MAX);
    TAILQ_INSERT_TAIL(&place->restores, r, all);
    place_go_on(place);
}
