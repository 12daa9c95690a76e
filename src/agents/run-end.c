// SPDX-License-Identifier: Apache-2.0
// How a run ends. Its answer is written to the database's log on the loop, and synced on a thread,
// for all that have ended meanwhile at once; then it is told.
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents/failure.h"
#include "agents/run-internal.h"
#include "base/log.h"
#include "base/mem.h"

enum { KEPT_BYTES_MAX = 64 * 1024 * 1024 }; // of those that have ended

static void forget(struct run **list)
{
    struct run *run = *list;
    *list = NULL;
    while (run != NULL) {
        struct run *next = run->next;
        run_unref(run);
        run = next;
    }
}

// The newest are kept for whoever comes back to a stream, within bounds.
static void keep(struct run *run)
{
    struct agents *a = run->agents;
    struct run **last = &a->kept;
    unsigned n = 0;
    size_t bytes = 0;
    run->next = a->kept;
    a->kept = run_ref(run);
    while (*last != NULL && n < RUNS_KEPT &&
           (n == 0 || bytes + (*last)->counted <= KEPT_BYTES_MAX)) {
        bytes += (*last)->counted;
        last = &(*last)->next;
        n++;
    }
    forget(last);
}

static void set_text(char **at, const char *text)
{
    free(*at);
    *at = mem_copy_text(text);
}

static void fill_row(struct run *run, const struct run_end *end)
{
    struct result_row *row = &run->row;
    row->state = RESULT_DONE;
    row->success = end->success;
    row->status = end->status;
    set_text(&row->error, end->error_code);
    set_text(&row->sandbox, end->sandbox);
    if (end->model != NULL && end->model != row->model)
        set_text(&row->model, end->model);
    row->input_tokens = model_usage_prompt(&run->usage);
    row->output_tokens = run->usage.output;
    row->generation_ms = end->generation_ms;
    row->sandbox_ms = end->sandbox_ms;
    row->total_ms = end->total_ms;
    row->ended_ms = db_now_ms();
}

static int store(struct run *run, struct err *err)
{
    struct result_row row = run->row; // the body is lent
    row.body = (char *)(uintptr_t)buf_str(&run->body);
    row.body_len = run->body.len;
    return db_result_end(run->agents->config.db, &row, err);
}

// What cannot be stored must not be answered as if it were.
static void answer_unstored(struct run *run, const char *why)
{
    struct failure failure;
    failure_set(&failure, 507, "NO_SPACE", "the answer cannot be stored: %s", why);
    log_line(LOG_ERROR, "a result cannot be stored", "id", run->id, "error", why, NULL);
    buf_reset(&run->body);
    failure_write(&failure, run->id, &run->body);
    run->status = failure.status;
    run->row.success = false;
    run->row.status = failure.status;
    set_text(&run->row.error, failure.error_code);
}

static void store_or_fail(struct run *run)
{
    struct err err = {0};
    if (run->body.failed == 0 && store(run, &err) == 0)
        return;
    answer_unstored(run, run->body.failed != 0 ? "it is too large" : err.msg);
    (void)store(run, &err);
}

// --- until it is on the disk

struct syncing {
    uv_work_t work;
    struct agents *agents; // NULL: it was closed
    int fd;
    int failed;       // 0 or -errno
    struct run *runs; // a reference each
};

static void sync_begin(struct agents *a);

static void finish(struct run *run)
{
    struct agents *a = run->agents;
    run->ended = true;
    a->stats.open--;
    a->stats.failed += !run->row.success;
    a->stats.tasks_open -= run_is_task(run);
    a->stats.tasks_failed += run_is_task(run) && !run->row.success;
    run_count_bytes(run);
    keep(run);
    run_tell(run);
}

static void sync_work(uv_work_t *work)
{
    struct syncing *s = work->data;
    s->failed = fdatasync(s->fd) < 0 ? -errno : 0;
}

// `failed`: 0, or -errno: they are not on the disk.
static void finish_all(struct run *run, int failed)
{
    struct err ignored;
    while (run != NULL) {
        struct run *next = run->next;
        if (failed < 0) {
            answer_unstored(run, strerrordesc_np(-failed));
            (void)store(run, &ignored); // so that nobody is told another story later
        }
        finish(run);
        run_unref(run);
        run = next;
    }
}

static void sync_done(uv_work_t *work, int status)
{
    struct syncing *s = work->data;
    struct agents *a = s->agents;
    (void)status;
    if (a != NULL) {
        a->syncing = NULL;
        sync_begin(a); // those that have come meanwhile
    }
    finish_all(s->runs, s->failed);
    free(s);
}

static void sync_begin(struct agents *a)
{
    if (a->syncing != NULL || a->unsynced == NULL)
        return;
    struct syncing *s = calloc(1, sizeof *s);
    if (s == NULL)
        abort();
    *s = (struct syncing){.agents = a, .fd = db_log_fd(a->config.db), .runs = a->unsynced};
    s->work.data = s;
    a->unsynced = NULL;
    a->syncing = s;
    if (uv_queue_work(a->config.loop, &s->work, sync_work, sync_done) != 0)
        abort();
}

void run_end(struct run *run, const struct run_end *end, const struct buf *body)
{
    struct agents *a = run->agents;
    assert(!run->is_closed);
    run->is_closed = true;
    run->cancel = NULL;
    if (a == NULL) { // the server is ending: the next one finds it lost
        run->ended = true;
        return;
    }
    run->status = end->status;
    run->retry_after_ms = end->retry_after_ms;
    (void)buf_append(&run->body, body->data, body->len);
    if (body->failed != 0)
        run->body.failed = body->failed;
    fill_row(run, end);
    store_or_fail(run);
    run->next = a->unsynced;
    a->unsynced = run_ref(run);
    sync_begin(a);
}

void runs_cancel(struct agents *agents)
{
    struct run *run;
    for (size_t at = 0; (run = map_next(&agents->runs, &at)) != NULL;)
        run_cancel(run);
}

// The loop will not hear of the thread any more: those who follow are told here. Among them are
// requests whose clients have gone, which keep the answer under their keys.
static void finish_now(struct agents *a)
{
    struct run **last = &a->unsynced;
    while (*last != NULL)
        last = &(*last)->next;
    if (a->syncing != NULL) {
        *last = a->syncing->runs;
        a->syncing->runs = NULL;
        a->syncing->agents = NULL; // its thread is at work
        a->syncing = NULL;
    }
    struct run *all = a->unsynced;
    a->unsynced = NULL;
    if (all != NULL)
        finish_all(all, fdatasync(db_log_fd(a->config.db)) < 0 ? -errno : 0);
}

// Those that are worked on end, those that have ended go; who still holds one has it to himself.
void runs_close(struct agents *agents)
{
    struct run *run;
    for (size_t at = 0; (run = map_next(&agents->runs, &at)) != NULL;)
        run_ref(run);
    runs_cancel(agents);
    finish_now(agents);
    forget(&agents->kept);
    for (size_t at = 0; (run = map_next(&agents->runs, &at)) != NULL;) {
        (void)map_del(&agents->runs, run->id);
        run->agents = NULL;
        run_unref(run);
    }
    map_done(&agents->runs);
}
