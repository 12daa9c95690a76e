// SPDX-License-Identifier: Apache-2.0
// Forks: rows that say they are being made, which hold the names and count for the quotas; a copy
// of the disk for each; then rows that sleep, as one write. All or none: what fails, or what a
// crash leaves, is removed with its disks. Of a sandbox that runs the first child's disk is copied
// while it is frozen, and the others' are copies of that one: all of the same instant.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "sandbox/fork-internal.h"

struct fork {
    struct fleet *fleet;
    struct sandbox *source;   // NULL: a snapshot's settings are the caller's
    struct snapshot_row from; // id NULL: of the source as it is now
    struct sandbox_row *rows; // of the children
    unsigned n, n_added;      // those that have a row
    unsigned waiting;         // disks that the keeper was asked for
    int64_t shared;
    char *sessions;
    int64_t since_ns;
    struct err err;
    fork_fn fn;
    sandbox_fn create_fn; // instead
    void *data;
};

static struct fork *fork_new(struct fleet *fleet, unsigned n, void *data)
{
    struct fork *f = calloc(1, sizeof *f);
    if (f == NULL || (f->rows = calloc(n, sizeof *f->rows)) == NULL)
        abort();
    f->fleet = fleet;
    f->n = n;
    f->data = data;
    f->since_ns = clock_ns();
    fleet->forking++;
    return f;
}

static void fork_free(struct fork *f)
{
    struct fleet *fleet = f->fleet;
    for (unsigned i = 0; i < f->n; i++)
        sandbox_row_done(&f->rows[i]);
    free(f->rows);
    free(f->sessions);
    snapshot_row_done(&f->from);
    sandbox_unref(f->source);
    free(f);
    fleet->forking--;
    fleet_check_stopped(fleet);
}

static void tell_failed(struct fork *f)
{
    f->fleet->counted.refused += f->err.code == ERR_EXHAUSTED;
    if (f->create_fn != NULL)
        f->create_fn(f->data, NULL, false, &f->err);
    else
        f->fn(f->data, NULL, 0, &f->err);
    fork_free(f);
}

// --- undoing

static void count(struct fork *f, unsigned n, int by)
{
    struct err ignored;
    struct tenant *tenant = fleet_tenant(f->fleet, f->rows[0].tenant, &ignored);
    if (tenant == NULL)
        abort(); // it was there, and stays in memory
    tenant->sandboxes += by * (int64_t)n;
    tenant->disk += by * (int64_t)n * f->rows[0].disk;
}

static void remove_rows(struct fork *f)
{
    struct err err = {0};
    struct db *db = f->fleet->config.db;
    int r = db_begin(db, &err);
    for (unsigned i = 0; r == 0 && i < f->n_added; i++)
        r = db_sandbox_del(db, f->rows[i].number, &err);
    if (r == 0 && db_commit(db, &err) == 0)
        return;
    db_rollback(db);
    log_line(LOG_ERROR, "cannot remove the rows of a fork that failed; the next start does",
             "error", err.msg, NULL);
}

static void on_undone(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct fork *f = data;
    (void)ev;
    if (err != NULL)
        log_line(LOG_WARN, "cannot remove a disk; it is tried again at the next start", "error",
                 err->msg, NULL);
    if (--f->waiting > 0)
        return;
    remove_rows(f);
    count(f, f->n_added, -1);
    tell_failed(f);
}

// Nothing is under way any more.
static void undo(struct fork *f)
{
    f->waiting = f->n_added;
    for (unsigned i = 0, n = f->n_added; i < n; i++)
        keeper_disk_drop(f->fleet, disk_kept((uint64_t)f->rows[i].number), on_undone, f);
}

// --- the end

static int add_event(struct fork *f, const struct sandbox_row *row, struct err *err)
{
    char *text = f->source != NULL ? event_data("{\"from\":\"%s\"}", f->source->row.id)
                                   : event_data("{\"snapshot\":\"%s\"}", f->from.id);
    struct event_row event = {.sandbox = row->number,
                              .time_ms = db_now_ms(),
                              .type = mem_copy_text("forked"),
                              .data = text};
    int r = db_event_add(f->fleet->config.db, &event, err);
    free(event.type);
    free(text);
    return r;
}

static int finish_rows(struct fork *f, struct err *err)
{
    struct db *db = f->fleet->config.db;
    int r = db_begin(db, err);
    if (r < 0)
        return -1;
    for (unsigned i = 0; r == 0 && i < f->n; i++) {
        struct sandbox_row *row = &f->rows[i];
        row->status = SANDBOX_SLEEPING;
        row->shared = f->shared;
        row->disks = 1;
        row->slept_ms = db_now_ms();
        r = db_sandbox_update(db, row, err);
        if (r == 0 && strcmp(f->sessions, "[]") != 0)
            r = sessions_undump(f->fleet, row->number, f->sessions, err);
        if (r == 0)
            r = add_event(f, row, err);
    }
    if (r == 0 && db_commit(db, err) == 0)
        return 0;
    db_rollback(db);
    return -1;
}

static void tell_source(struct fork *f)
{
    if (f->source == NULL || f->source->destroy_wanted || f->source->state == STATE_GONE)
        return;
    char *text = event_data("{\"children\":%u,\"first\":\"%s\"}", f->n, f->rows[0].id);
    sandbox_event(f->source, "forks", text);
    free(text);
}

static void finish(struct fork *f)
{
    if (finish_rows(f, &f->err) < 0) {
        undo(f);
        return;
    }
    tell_source(f);
    struct sandbox **children = calloc(f->n, sizeof(struct sandbox *));
    if (children == NULL)
        abort();
    for (unsigned i = 0; i < f->n; i++) {
        children[i] = sandbox_ref(fleet_add(f->fleet, &f->rows[i]));
        log_line(LOG_INFO, "sandbox forked", "sandbox", children[i]->row.id, NULL);
    }
    f->fleet->counted.created += f->create_fn == NULL ? f->n : 0;
    if (f->create_fn != NULL) {
        children[0]->created_now = true; // as of any new one: its first box decides
        lifecycle_start(children[0], f->create_fn, f->data, /* created */ true, f->since_ns);
    } else {
        f->fn(f->data, children, f->n, NULL);
    }
    for (unsigned i = 0; i < f->n; i++)
        sandbox_unref(children[i]);
    free(children);
    fork_free(f);
}

// --- disks

static void on_disk(void *data, const struct keeper_event *ev, const struct err *err)
{
    struct fork *f = data;
    (void)ev;
    if (err != NULL && f->err.code == ERR_NONE)
        f->err = lifecycle_told(err);
    if (--f->waiting > 0)
        return;
    if (f->err.code != ERR_NONE)
        undo(f);
    else
        finish(f);
}

// All from the `first` on, at once.
static void copy_rest(struct fork *f, struct disk_ref from, unsigned first)
{
    struct copy_spec spec = {.from = from, .bytes = (uint64_t)(f->rows[0].disk - f->shared)};
    unsigned n = f->n;
    if (first == n) {
        finish(f);
        return;
    }
    f->waiting = n - first;
    for (unsigned i = first; i < n; i++) {
        spec.to = disk_kept((uint64_t)f->rows[i].number);
        keeper_disk_copy(f->fleet, &spec, on_disk, f);
    }
}

static void on_first_counted(void *data, int64_t shared)
{
    struct fork *f = data;
    f->shared = shared;
    if (lifecycle_check_shared(f->rows[0].disk, shared, &f->err) < 0)
        undo(f);
    else
        copy_rest(f, disk_kept((uint64_t)f->rows[0].number), 1);
}

static void on_first(void *data, const struct disk_copied *copied, const struct err *err)
{
    struct fork *f = data;
    struct err ignored;
    if (err != NULL) {
        f->err = *err;
        undo(f);
    } else if (lifecycle_check_shared(f->rows[0].disk, copied->shared, &ignored) == 0) {
        on_first_counted(f, copied->shared);
    } else { // maybe not all of that is there any more
        disk_recount(f->fleet, disk_kept((uint64_t)f->rows[0].number), copied->shared,
                     on_first_counted, f);
    }
}

static void copy_disks(struct fork *f)
{
    if (f->from.id != NULL)
        copy_rest(f, disk_snapshot((uint64_t)f->from.number), 0);
    else
        disk_copy(f->source, disk_kept((uint64_t)f->rows[0].number),
                  lifecycle_limits(f->source).disk, on_first, f);
}

// --- rows

static int add_rows(struct fork *f, struct err *err)
{
    struct db *db = f->fleet->config.db;
    if (db_begin(db, err) < 0)
        return -1;
    for (unsigned i = 0; i < f->n; i++) {
        f->rows[i].status = SANDBOX_MAKING;
        if (db_sandbox_add(db, &f->rows[i], err) < 0) {
            db_rollback(db);
            return -1;
        }
    }
    if (db_commit(db, err) < 0) {
        db_rollback(db);
        return -1;
    }
    f->n_added = f->n;
    return 0;
}

// Each counts for the next.
static int admit_all(struct fork *f, struct err *err)
{
    unsigned n = 0;
    struct tenant *tenant = fleet_tenant(f->fleet, f->rows[0].tenant, err);
    if (tenant == NULL)
        return -1;
    if (f->fleet->stopping)
        return err_set(err, ERR_UNAVAILABLE, "the server is stopping");
    while (n < f->n && admit_sandbox(f->fleet, tenant, (uint64_t)f->rows[0].disk, err) == 0) {
        count(f, 1, 1);
        n++;
    }
    if (n == f->n)
        return 0;
    count(f, n, -1);
    return -1;
}

static void begin(struct fork *f)
{
    if (admit_all(f, &f->err) < 0) {
        tell_failed(f);
    } else if (add_rows(f, &f->err) < 0) {
        count(f, f->n, -1);
        tell_failed(f);
    } else {
        copy_disks(f);
    }
}

// --- from a sandbox

static void on_saved(void *data)
{
    struct fork *f = data;
    if (disk_check(f->source, &f->err) < 0 ||
        (f->sessions = sessions_dump(f->source, &f->err)) == NULL)
        tell_failed(f);
    else
        begin(f);
}

static int prepare(struct fork *f, const struct fork_request *request, struct err *err)
{
    struct sandbox *s = f->source;
    if (request->snapshot == NULL && disk_check(s, err) < 0)
        return -1;
    if (request->snapshot != NULL &&
        (sandbox_has_disk(s, err) < 0 || snapshot_get(s, request->snapshot, &f->from, err) < 0))
        return -1;
    return fork_fill_rows(s, request, f->from.id != NULL ? f->from.env : s->row.env, f->rows, err);
}

static void on_from_counted(void *data, int64_t shared)
{
    struct fork *f = data;
    f->shared = shared;
    f->sessions = mem_copy_text(f->from.sessions);
    if (lifecycle_check_shared(f->source->row.disk, shared, &f->err) < 0)
        tell_failed(f);
    else
        begin(f);
}

void fleet_fork(struct sandbox *s, const struct fork_request *request, fork_fn fn, void *data)
{
    struct err err = {0};
    if (request->count < 1 || request->count > FORKS_MAX) {
        (void)err_set(&err, ERR_INVALID, "count: must be 1 to %d", FORKS_MAX);
        fn(data, NULL, 0, &err);
        return;
    }
    struct fork *f = fork_new(s->fleet, request->count, data);
    f->source = sandbox_ref(s);
    f->fn = fn;
    if (prepare(f, request, &f->err) < 0) {
        tell_failed(f);
    } else if (f->from.id != NULL) {
        snapshot_count(s, &f->from, on_from_counted, f);
    } else {
        snapshot_save_sessions(s, on_saved, f);
    }
}

// --- from a snapshot, with settings of its own

int fork_fill_settings(struct fleet *fleet, int64_t tenant, struct sandbox_settings *settings,
                       struct snapshot_row *ret, struct sandbox_row *ret_source, struct err *err)
{
    struct db *db = fleet->config.db;
    int r = db_snapshot_find(db, tenant, settings->snapshot, ret, err);
    if (r > 0)
        r = db_sandbox_by_number(db, ret->sandbox, ret_source, err);
    if (r < 0)
        return -1;
    if (r == 0 || ret_source->status == SANDBOX_DESTROYING)
        return err_set(err, ERR_NOT_FOUND, "there is no snapshot '%.64s'", settings->snapshot);
    if (settings->ephemeral)
        return err_set(err, ERR_INVALID, "snapshot: an ephemeral sandbox begins with nothing");
    if (settings->image != NULL && strcmp(settings->image, ret_source->image) != 0)
        return err_set(err, ERR_INVALID, "image: the snapshot is of image '%s'", ret_source->image);
    settings->image = ret_source->image;
    if (settings->env == NULL)
        settings->env = ret->env;
    if (settings->limits.disk == 0)
        settings->limits.disk = (uint64_t)ret_source->disk;
    return lifecycle_check_shared((int64_t)settings->limits.disk, ret->bytes, err);
}

void fork_create(struct fleet *fleet, struct sandbox_row *row, struct snapshot_row *from,
                 sandbox_fn fn, void *data)
{
    struct fork *f = fork_new(fleet, 1, data);
    f->create_fn = fn;
    f->rows[0] = *row;
    f->from = *from;
    *row = (struct sandbox_row){0};
    *from = (struct snapshot_row){0};
    f->shared = f->from.bytes;
    f->sessions = mem_copy_text(f->from.sessions);
    begin(f);
}

// --- at the start

static int forget_one(void *data, const struct sandbox_row *row)
{
    struct fleet *fleet = data;
    struct err err = {0};
    log_line(LOG_INFO, "forgetting a fork that was not finished", "sandbox", row->id, NULL);
    keeper_disk_drop(fleet, disk_kept((uint64_t)row->number), NULL, NULL);
    if (db_sandbox_del(fleet->config.db, row->number, &err) < 0)
        log_line(LOG_ERROR, "cannot remove a sandbox's row", "sandbox", row->id, "error", err.msg,
                 NULL);
    return 0;
}

void fork_forget_making(struct fleet *fleet)
{
    struct err err = {0};
    struct sandbox_query query = {.status = SANDBOX_MAKING};
    if (db_snapshot_forget_making(fleet->config.db, &err) < 0 ||
        db_sandbox_each(fleet->config.db, &query, forget_one, fleet, &err) < 0)
        log_line(LOG_ERROR, "cannot remove what was not finished", "error", err.msg, NULL);
}
