// SPDX-License-Identifier: Apache-2.0
#include "saved/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "saved/sync-internal.h"
#include "saved/sync-options.h"

enum {
    PROGRESS_MS = 250,
    AGAIN_AT_ONCE = 16,
    DELETES_MAX = 64 * 1024 * 1024,
    // Hard links and files with holes count for what they show, the disk's limit for what they
    // take: so some more is fine, but not whatever a box says.
    SIZE_FACTOR = 4,
};
#define SIZE_SPARE (INT64_C(1) << 30)

struct syncing {
    sync_progress_fn progress;
    sync_fn fn;
    void *data;
    bool *is_over;           // for whoever has not got it yet
    LIST_ENTRY(syncing) all; // of a job, or of those who wait for the next
};

static void begin(struct place *place);

// -- rows

static int put_row(struct sync_job *job, struct err *err)
{
    return db_sync_put(job->place->saved->config.db, &job->row, err);
}

static int64_t again_after_ms(int64_t tries)
{
    static const int64_t after_s[] = {30, 120, 600, 3600};
    size_t n = sizeof after_s / sizeof *after_s;
    return after_s[tries < (int64_t)n ? tries : (int64_t)n - 1] * 1000;
}

// What nobody else will have changed in a while is not tried again. ERR_CONFLICT: it was archived
// meanwhile, and comes back some time.
static bool may_work_later(const struct err *err)
{
    return err->code == ERR_UNAVAILABLE || err->code == ERR_EXHAUSTED || err->code == ERR_DENIED ||
           err->code == ERR_INTERNAL || err->code == ERR_CONFLICT;
}

static void fail_row(struct sync_row *row, const struct err *err)
{
    free(row->error);
    row->error = mem_copy_text(err->msg);
    row->state = SYNC_FAILED;
    row->again_ms = may_work_later(err) ? db_now_ms() + again_after_ms(row->tries) : 0;
    row->tries++;
}

static void note_counts(struct sync_job *job)
{
    struct sync_row *row = &job->row;
    row->put = (int64_t)atomic_load(&job->put);
    row->put_bytes = (int64_t)atomic_load(&job->put_bytes);
    row->deleted = (int64_t)atomic_load(&job->deleted);
    row->ended_ms = db_now_ms();
}

static void done_row(struct sync_job *job)
{
    struct sync_row *row = &job->row;
    row->state = SYNC_DONE;
    row->files = (int64_t)job->sums.files;
    row->bytes = (int64_t)job->sums.bytes;
    row->tries = 0;
    row->again_ms = 0;
    row->synced_ms = row->started_ms;
    row->seen = job->seen_text[0] != '\0' ? mem_copy_text(job->seen_text) : NULL;
    if (job->skipped > 0 &&
        asprintf(&row->error, "%llu files were left out: their names are too long to be stored",
                 (unsigned long long)job->skipped) < 0)
        abort();
}

// -- the end

static void on_timer_closed(uv_handle_t *handle)
{
    struct sync_job *job = handle->data;
    free(job);
}

static void free_job(struct sync_job *job)
{
    struct saved *saved = job->place->saved;
    if (job->making != 0)
        fleet_drop_making(saved->config.fleet, job->making);
    fd_close(job->in);
    fd_close(job->out);
    fd_close(job->verdict);
    free(job->last_seen);
    free(job->old);
    free(job->index);
    buf_done(&job->deletes);
    sync_row_done(&job->row);
    sandbox_unref(job->sandbox);
    uv_close((uv_handle_t *)&job->timer, on_timer_closed);
}

static void tell_one(struct syncing *w, const struct sync_row *row, const struct err *err)
{
    if (w->is_over != NULL)
        *w->is_over = true;
    w->fn(w->data, row, row != NULL ? NULL : err);
    free(w);
}

static void tell(struct sync_job *job, const struct err *err)
{
    while (!LIST_EMPTY(&job->waiting)) {
        struct syncing *w = LIST_FIRST(&job->waiting);
        LIST_REMOVE(w, all);
        tell_one(w, err->code == ERR_NONE ? &job->row : NULL, err);
    }
}

static void write_end(struct sync_job *job, const struct err *err)
{
    struct saved *saved = job->place->saved;
    struct err ignored = {0};
    note_counts(job);
    if (err->code == ERR_NONE) {
        done_row(job);
        timing_add(&saved->stats.sync, clock_ns() - job->start_ns);
        saved->stats.syncs++;
    } else {
        fail_row(&job->row, err);
        saved->stats.syncs_failed++;
        log_line(LOG_WARN, "a workspace could not be synced", "sandbox", job->row.sandbox, "error",
                 err->msg, NULL);
    }
    if (put_row(job, &ignored) < 0)
        log_line(LOG_WARN, "cannot write down how a sync ended, ignoring", "sandbox",
                 job->row.sandbox, "error", ignored.msg, NULL);
}

static void finish(struct sync_job *job, const struct err *err)
{
    struct place *place = job->place;
    struct saved *saved = place->saved;
    struct err why = *err;
    // A daemon that ends leaves the row as it is: the next one goes on with it.
    if (!saved->closing)
        write_end(job, &why);
    (void)uv_timer_stop(&job->timer);
    LIST_REMOVE(job, all);
    place->job = NULL;
    place_set_job(place, false);
    tell(job, &why);
    free_job(job);
    turn_over(saved, &job->turn);
    place_go_on(place);
    place_unref(place);
}

// Of several reasons: cay-pack's own words are in the thread's, which read its verdict. Where it
// said nothing, the keeper knows why.
static void part_over(struct sync_job *job)
{
    bool is_vague = job->err.code == ERR_UNAVAILABLE && job->err.sys_errno == 0;
    if (--job->left > 0)
        return;
    if (job->err.code == ERR_NONE || (is_vague && job->process_err.code != ERR_NONE))
        finish(job, &job->process_err);
    else
        finish(job, &job->err);
}

// -- the work

static void on_worked(void *data)
{
    struct sync_job *job = data;
    if (job->err.code != ERR_NONE && job->working != NULL)
        disk_working_stop(job->working);
    part_over(job);
}

static void on_process_end(void *data, const struct err *err)
{
    struct sync_job *job = data;
    job->working = NULL;
    if (err != NULL)
        job->process_err = *err;
    part_over(job);
}

static void on_timer(uv_timer_t *timer)
{
    struct sync_job *job = timer->data;
    struct syncing *w, *next;
    const struct sync_progress progress = {
        .seen = atomic_load(&job->seen),
        .bytes = atomic_load(&job->bytes),
        .put = atomic_load(&job->put),
        .put_bytes = atomic_load(&job->put_bytes),
        .deleted = atomic_load(&job->deleted),
    };
    for (w = LIST_FIRST(&job->waiting); w != NULL; w = next) {
        next = LIST_NEXT(w, all); // it may leave
        if (w->progress != NULL)
            w->progress(w->data, &progress);
    }
}

static int open_pipes(int out[2], int verdict[2], struct err *err)
{
    if (pipe2(out, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    if (pipe2(verdict, O_CLOEXEC) == 0)
        return 0;
    (void)err_sys(err, errno, "make a pipe");
    fd_close(out[0]);
    fd_close(out[1]);
    return -1;
}

static int start_work(struct sync_job *job, struct err *err)
{
    struct saved *saved = job->place->saved;
    int out[2], verdict[2];
    auto_free const char **args = NULL;
    auto_json_doc *doc = NULL;
    char max_bytes[24];
    (void)snprintf(max_bytes, sizeof max_bytes, "%" PRIu64, job->bytes_max);
    if (sync_options_args(job->row.options, max_bytes, &doc, &args, err) < 0 ||
        open_pipes(out, verdict, err) < 0)
        return -1;
    const struct disk_job work = {
        .making = job->making,
        .work = WORK_SYNC,
        .image = sandbox_row(job->sandbox)->image,
        .args = args,
        .fds = {job->in, out[1], verdict[1]},
    };
    job->out = out[0];
    job->verdict = verdict[0];
    job->left = 2;
    job->working = fleet_disk_work(saved->config.fleet, &work, on_process_end, job);
    fd_close(out[1]);
    fd_close(verdict[1]);
    fd_close(TAKE_FD(job->in));
    (void)uv_timer_start(&job->timer, on_timer, PROGRESS_MS, PROGRESS_MS);
    store_pool_run(saved->pool, sync_run_work, on_worked, job);
    return 0;
}

static void on_prepared(void *data)
{
    struct sync_job *job = data;
    struct err err = job->err;
    if (err.code == ERR_NONE && job->place->saved->closing)
        (void)err_set(&err, ERR_UNAVAILABLE, "the server ends");
    if (err.code == ERR_NONE && job->old_damaged)
        log_line(LOG_WARN, "the index of a stored workspace is damaged: all of it is stored anew",
                 "sandbox", job->row.sandbox, NULL);
    if (err.code != ERR_NONE || job->is_same || start_work(job, &err) < 0)
        finish(job, &err);
}

static void on_copied(void *data, const struct disk_made *made, const struct err *err)
{
    struct sync_job *job = data;
    struct err ended = {0};
    if (err == NULL) {
        job->making = made->making;
        job->version = made->version;
    }
    if (err == NULL && job->place->saved->closing) {
        (void)err_set(&ended, ERR_UNAVAILABLE, "the server ends");
        err = &ended;
    }
    if (err != NULL)
        finish(job, err);
    else
        store_pool_run(job->place->saved->pool, sync_run_prepare, on_prepared, job);
}

static void on_turn(void *data)
{
    struct sync_job *job = data;
    struct err err = {0};
    if (!job->place->saved->closing) {
        sandbox_copy_disk(job->sandbox, on_copied, job);
        return;
    }
    (void)err_set(&err, ERR_UNAVAILABLE, "the server ends");
    finish(job, &err);
}

// -- beginning

static struct sync_job *make_job(struct place *place)
{
    struct saved *saved = place->saved;
    struct sync_job *job = calloc(1, sizeof *job);
    if (job == NULL)
        abort();
    job->place = place_ref(place);
    job->sandbox = place->next_sandbox;
    place->next_sandbox = NULL;
    job->store = saved->config.store;
    job->in = job->out = job->verdict = -1;
    job->start_ns = clock_ns();
    job->bytes_max = (uint64_t)(sandbox_row(job->sandbox)->disk * SIZE_FACTOR + SIZE_SPARE);
    buf_init(&job->deletes, DELETES_MAX);
    LIST_INIT(&job->waiting);
    (void)uv_timer_init(saved->config.loop, &job->timer);
    job->timer.data = job;
    place->job = job;
    LIST_INSERT_HEAD(&saved->syncs->jobs, job, all);
    struct syncing *w;
    while ((w = LIST_FIRST(&place->next)) != NULL) {
        LIST_REMOVE(w, all);
        LIST_INSERT_HEAD(&job->waiting, w, all);
    }
    return job;
}

static int begin_row(struct sync_job *job, char *options, struct err *err)
{
    struct place *place = job->place;
    struct sync_row *row = &job->row;
    int r = db_sync_get(place->saved->config.db, place->tenant, place->sandbox, row, err);
    if (r < 0) {
        free(options);
        return -1;
    }
    if (r == 0)
        *row = (struct sync_row){.tenant = place->tenant, .sandbox = mem_copy_text(place->sandbox)};
    if (options != NULL) {
        free(row->options);
        row->options = options;
    }
    if (row->options == NULL)
        row->options = mem_copy_text("{}");
    job->last_seen = row->seen; // of one that was done; none is, until this one is
    row->seen = NULL;
    row->state = SYNC_RUNNING;
    row->run = place->saved->config.run;
    row->again_ms = 0;
    row->started_ms = db_now_ms();
    free(row->error);
    row->error = NULL;
    return put_row(job, err);
}

static void begin(struct place *place)
{
    struct err err = {0};
    struct sync_job *job = make_job(place);
    char *options = place->next_options;
    const struct turn_config config = {
        .lane = LANE_OUT, .tenant = place->tenant, .run = on_turn, .data = job};
    place->next_options = NULL;
    if (begin_row(job, options, &err) < 0 || turn_take(place->saved, &job->turn, &config, &err) < 0)
        finish(job, &err);
}

void place_go_on(struct place *place)
{
    struct restoring *r = TAILQ_FIRST(&place->restores);
    if (place->job != NULL)
        return;
    if (r != NULL)
        restoring_begin(r);
    else if (place->next_sandbox != NULL && !place->saved->closing)
        begin(place);
}

// -- asking

static struct syncing *wait_for(struct place *place, sync_progress_fn progress, sync_fn fn,
                                void *data, bool *is_over)
{
    struct syncing *w = calloc(1, sizeof *w);
    if (w == NULL)
        abort();
    *w = (struct syncing){.progress = progress, .fn = fn, .data = data, .is_over = is_over};
    LIST_INSERT_HEAD(&place->next, w, all);
    return w;
}

struct syncing *sync_start(struct saved *saved, struct sandbox *s,
                           const struct sync_options *options, sync_progress_fn progress,
                           sync_fn fn, void *data)
{
    const struct sandbox_row *row = sandbox_row(s);
    struct err err = {0};
    char *text = NULL;
    struct place *place = NULL;
    if (sandbox_has_disk(s, &err) == 0 &&
        (options == NULL || sync_options_write(options, &text, &err) == 0))
        place = place_get(saved, row->tenant, row->id, &err);
    if (place == NULL) {
        free(text);
        if (fn != NULL)
            fn(data, NULL, &err);
        return NULL;
    }
    bool is_over = false;
    struct syncing *w = fn != NULL ? wait_for(place, progress, fn, data, &is_over) : NULL;
    if (text != NULL) {
        free(place->next_options);
        place->next_options = text;
    }
    struct sandbox *before = place->next_sandbox; // maybe one of that id that is gone
    place->next_sandbox = sandbox_ref(s);
    sandbox_unref(before);
    place_go_on(place);
    place_unref(place);
    if (w == NULL || is_over)
        return NULL;
    w->is_over = NULL;
    return w;
}

void sync_leave(struct syncing *syncing)
{
    LIST_REMOVE(syncing, all);
    free(syncing);
}

// -- life

int syncs_open(struct saved *saved, struct err *err)
{
    saved->syncs = calloc(1, sizeof *saved->syncs);
    if (saved->syncs == NULL)
        abort();
    LIST_INIT(&saved->syncs->jobs);
    LIST_INIT(&saved->syncs->left);
    return store_pool_open(saved->config.loop, SYNC_STREAM_THREADS, &saved->syncs->streams, err);
}

static int give_up(void *data, const struct sync_row *row)
{
    struct saved *saved = data;
    struct err err = {0};
    char ended[] = "the server ended meanwhile";
    struct sync_row changed = *row; // lent
    bool was_restoring = row->state == SYNC_RESTORING;
    changed.state = was_restoring ? SYNC_DONE : SYNC_FAILED;
    changed.again_ms = was_restoring ? 0 : db_now_ms();
    if (was_restoring)
        restoring_forget(saved, row);
    else
        changed.error = ended;
    if (db_sync_put(saved->config.db, &changed, &err) < 0)
        log_line(LOG_WARN, "cannot take up a sync, ignoring", "sandbox", row->sandbox, "error",
                 err.msg, NULL);
    return 0;
}

void syncs_start(struct saved *saved)
{
    struct err err = {0};
    const struct sync_query query = {.not_run = saved->config.run};
    if (db_sync_each(saved->config.db, &query, give_up, saved, &err) < 0)
        log_line(LOG_WARN, "cannot look for syncs that were begun, ignoring", "error", err.msg,
                 NULL);
}

static int try_again(void *data, const struct sync_row *row)
{
    struct saved *saved = data;
    struct err err = {0};
    struct sandbox *s = fleet_find(saved->config.fleet, row->tenant, row->sandbox, &err);
    bool has_disk = s != NULL && sandbox_has_disk(s, &err) == 0;
    bool is_away = has_disk && sandbox_row(s)->archive != NULL;
    if (has_disk && !is_away) {
        (void)sync_start(saved, s, NULL, NULL, NULL, NULL);
        return 0;
    }
    struct sync_row changed = *row; // lent
    changed.again_ms = is_away ? db_now_ms() + again_after_ms(row->tries) : 0;
    (void)db_sync_put(saved->config.db, &changed, &err);
    return 0;
}

void syncs_tick(struct saved *saved)
{
    struct err err = {0};
    restorings_tick(saved);
    const struct sync_query query = {.again_ms = db_now_ms(), .max = AGAIN_AT_ONCE};
    if (db_sync_each(saved->config.db, &query, try_again, saved, &err) < 0)
        log_line(LOG_WARN, "cannot look for syncs that are due, ignoring", "error", err.msg, NULL);
}

void syncs_slept(void *data, struct sandbox *s)
{
    struct saved *saved = data;
    if (sandbox_row(s)->sync && !saved->closing)
        (void)sync_start(saved, s, NULL, NULL, NULL, NULL);
}

// Those who wait for a sync that will not begin any more.
static void drop_next(struct place *place)
{
    struct err err = {0};
    struct syncing *w;
    (void)err_set(&err, ERR_UNAVAILABLE, "the server ends");
    while ((w = LIST_FIRST(&place->next)) != NULL) {
        LIST_REMOVE(w, all);
        tell_one(w, NULL, &err);
    }
    if (place->next_sandbox != NULL)
        sandbox_unref(place->next_sandbox);
    place->next_sandbox = NULL;
}

void syncs_stop(struct saved *saved)
{
    struct sync_job *job;
    struct place *place;
    size_t at = 0;
    if (saved->syncs == NULL)
        return;
    atomic_store(&saved->syncs->ending, true);
    LIST_FOREACH(job, &saved->syncs->jobs, all)
    {
        atomic_store(&job->stop, true);
        if (job->working != NULL)
            disk_working_stop(job->working);
    }
    while ((place = map_next(&saved->syncs->places, &at)) != NULL) {
        drop_next(place);
        if (!TAILQ_EMPTY(&place->restores))
            restoring_stop(TAILQ_FIRST(&place->restores));
    }
    if (saved->syncs->streams != NULL)
        store_pool_close(saved->syncs->streams);
    saved->syncs->streams = NULL;
}

// Places of those whose callbacks of the fleet are still to come stay: they hold the saved.
void syncs_close(struct saved *saved)
{
    if (saved->syncs == NULL)
        return;
    map_done(&saved->syncs->places);
    restorings_close(saved);
    free(saved->syncs);
    saved->syncs = NULL;
}

struct store_pool *saved_streams(struct saved *saved)
{
    return saved->syncs->streams;
}

const atomic_bool *saved_ending(const struct saved *saved)
{
    return &saved->syncs->ending;
}
