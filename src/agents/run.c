// SPDX-License-Identifier: Apache-2.0
#include "agents/run.h"

#include <assert.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agents-internal.h"
#include "agents/failure.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    GAP_MAX = 16,
    RUNS_MAX = 1024,                   // that are worked on at once,
    TENANT_MAX = 768,                  // of one tenant: there is room for others
    ENTRIES_MAX = 100 * 1000,          // events of a log
    LOGS_MAX = 256 * 1024 * 1024,      // bytes of all logs together
    KEPT_BYTES_MAX = 64 * 1024 * 1024, // of those that have ended
};

struct entry {
    const char *type; // a literal
    size_t at, len;   // in the log's text
};

struct run {
    struct agents *agents; // NULL: it was closed
    unsigned refs;
    char id[RUN_ID_MAX];
    struct result_row row;
    struct entry *entries;
    size_t n_entries, cap_entries;
    struct buf text;
    size_t counted; // bytes in agents->log_bytes
    bool ended, has_gap;
    unsigned status;
    int64_t retry_after_ms;
    struct buf body;
    void (*cancel)(void *data);
    void *cancel_data;
    bool cancelled;
    struct run_follower *followers, *telling; // the one that is told next
    struct run *next_kept;
};

struct run_follower {
    struct run *run;
    void (*fn)(void *data);
    void *data;
    struct run_follower *prev, *next;
};

// A UUID of random bits (version 4).
static void make_id(char ret[RUN_ID_MAX])
{
    uint8_t b[16];
    randombytes_buf(b, sizeof b);
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    (void)snprintf(ret, RUN_ID_MAX,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                   b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                   b[14], b[15]);
}

// --- its life

static void count_bytes(struct run *run)
{
    size_t now = run->text.cap + run->body.cap + run->cap_entries * sizeof *run->entries;
    if (run->agents != NULL)
        run->agents->log_bytes += now - run->counted;
    run->counted = now;
}

static void free_run(struct run *run)
{
    assert(run->followers == NULL);
    if (run->agents != NULL) {
        (void)map_del(&run->agents->runs, run->id);
        run->agents->log_bytes -= run->counted;
    }
    run->row.id = NULL; // is in `id`
    result_row_done(&run->row);
    free(run->entries);
    buf_done(&run->text);
    buf_done(&run->body);
    free(run);
}

struct run *run_ref(struct run *run)
{
    run->refs++;
    return run;
}

void run_unref(struct run *run)
{
    if (run != NULL && --run->refs == 0)
        free_run(run);
}

// A text of at most RUN_TITLE_MAX bytes, not cut inside a character.
static char *cut_title(const char *text)
{
    size_t len = strnlen(text, RUN_TITLE_MAX + 1);
    if (len > RUN_TITLE_MAX)
        len = RUN_TITLE_MAX;
    while (len > 0 && len == RUN_TITLE_MAX && ((unsigned char)text[len] & 0xc0) == 0x80)
        len--;
    char *copy = strndup(text, len);
    if (copy == NULL)
        abort();
    return copy;
}

static unsigned count_open(const struct agents *agents, int64_t tenant)
{
    const struct run *run;
    unsigned n = 0;
    for (size_t at = 0; (run = map_next(&agents->runs, &at)) != NULL;)
        n += !run->ended && run->row.tenant == tenant;
    return n;
}

static bool is_too_much(const struct agents *agents, int64_t tenant)
{
    return agents->closing || agents->stats.open >= RUNS_MAX ||
           (agents->stats.open >= TENANT_MAX && count_open(agents, tenant) >= TENANT_MAX);
}

struct run *run_new(struct agents *agents, const struct run_start *start, struct err *err)
{
    if (is_too_much(agents, start->tenant)) {
        (void)err_set(err, ERR_UNAVAILABLE, "too much is asked at once: try again later");
        return NULL;
    }
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL)
        abort();
    run->agents = agents;
    run->refs = 1;
    if (start->id != NULL && strlen(start->id) < RUN_ID_MAX)
        (void)snprintf(run->id, sizeof run->id, "%s", start->id);
    else
        make_id(run->id);
    buf_init(&run->text, RUN_LOG_MAX + GAP_MAX);
    buf_init(&run->body, RUN_BODY_MAX);
    run->row = (struct result_row){
        .tenant = start->tenant,
        .id = run->id,
        .kind = mem_copy_text(start->kind),
        .state = RESULT_RUNNING,
        .run = agents->config.run,
        .title = cut_title(start->title),
        .model = mem_copy_text(start->model),
        .created_ms = db_now_ms(),
    };
    map_put(&agents->runs, run->id, run);
    if (db_result_add(agents->config.db, &run->row, err) < 0) {
        run_unref(run);
        return NULL;
    }
    agents->stats.runs++;
    agents->stats.open++;
    return run;
}

const char *run_id(const struct run *run)
{
    return run->id;
}

int64_t run_tenant(const struct run *run)
{
    return run->row.tenant;
}

int64_t run_created_ms(const struct run *run)
{
    return run->row.created_ms;
}

struct run *run_find(struct agents *agents, int64_t tenant, const char *id)
{
    struct run *run = map_get(&agents->runs, id);
    return run != NULL && run->row.tenant == tenant ? run : NULL;
}

// --- its log

static void tell(struct run *run)
{
    run_ref(run);
    for (struct run_follower *f = run->followers; f != NULL; f = run->telling) {
        run->telling = f->next;
        f->fn(f->data);
    }
    run_unref(run);
}

static void add_entry(struct run *run, struct entry entry)
{
    if (run->n_entries == run->cap_entries) {
        size_t cap = run->cap_entries > 0 ? 2 * run->cap_entries : 16;
        struct entry *more = reallocarray(run->entries, cap, sizeof *more);
        if (more == NULL)
            abort();
        run->entries = more;
        run->cap_entries = cap;
    }
    run->entries[run->n_entries++] = entry;
}

static void add(struct run *run, const char *type, const char *json, size_t len)
{
    struct entry entry = {.type = type, .at = run->text.len, .len = len};
    if (buf_append(&run->text, json, len) < 0)
        return;
    add_entry(run, entry);
    count_bytes(run);
    tell(run);
}

void run_event(struct run *run, const char *type, const struct buf *json)
{
    size_t all = run->agents != NULL ? run->agents->log_bytes : LOGS_MAX;
    if (run->ended || run->has_gap || json->failed < 0 || json->len == 0)
        return;
    if (all + json->len <= LOGS_MAX && run->text.len + json->len <= RUN_LOG_MAX) {
        add(run, type, json->data, json->len);
        return;
    }
    run->has_gap = true; // the answer tells all
    add(run, "gap", "{}", 2);
}

int run_event_at(const struct run *run, uint64_t n, struct run_event *ret)
{
    if (n < run->n_entries) {
        const struct entry *e = &run->entries[n];
        *ret =
            (struct run_event){.type = e->type, .json = buf_str(&run->text) + e->at, .len = e->len};
        return 1;
    }
    if (!run->ended)
        return 0;
    *ret = (struct run_event){.type = "done", .json = buf_str(&run->body), .len = run->body.len};
    return n == run->n_entries ? 1 : -1;
}

struct run_follower *run_follow(struct run *run, void (*fn)(void *data), void *data)
{
    struct run_follower *f = calloc(1, sizeof *f);
    if (f == NULL)
        abort();
    *f = (struct run_follower){.run = run_ref(run), .fn = fn, .data = data, .next = run->followers};
    if (f->next != NULL)
        f->next->prev = f;
    run->followers = f;
    return f;
}

void run_follower_free(struct run_follower *f)
{
    if (f == NULL)
        return;
    struct run *run = f->run;
    if (run->telling == f)
        run->telling = f->next;
    if (f->next != NULL)
        f->next->prev = f->prev;
    if (f->prev != NULL)
        f->prev->next = f->next;
    else
        run->followers = f->next;
    free(f);
    run_unref(run);
}

// --- its end

// The newest are kept for whoever comes back to a stream, within bounds.
static void keep(struct run *run)
{
    struct agents *a = run->agents;
    struct run **last = &a->kept;
    unsigned n = 0;
    size_t bytes = 0;
    run->next_kept = a->kept;
    a->kept = run_ref(run);
    while (*last != NULL && n < RUNS_KEPT &&
           (n == 0 || bytes + (*last)->counted <= KEPT_BYTES_MAX)) {
        bytes += (*last)->counted;
        last = &(*last)->next_kept;
        n++;
    }
    struct run *old = *last;
    *last = NULL;
    while (old != NULL) {
        struct run *next = old->next_kept;
        run_unref(old);
        old = next;
    }
}

static void runs_forget(struct agents *agents)
{
    struct run *run = agents->kept;
    agents->kept = NULL;
    while (run != NULL) {
        struct run *next = run->next_kept;
        run_unref(run);
        run = next;
    }
}

// Those that are worked on end, those that have ended go; who still holds one has it to himself.
void runs_close(struct agents *agents)
{
    struct run *run;
    for (size_t at = 0; (run = map_next(&agents->runs, &at)) != NULL;)
        run_ref(run);
    for (size_t at = 0; (run = map_next(&agents->runs, &at)) != NULL;)
        run_cancel(run);
    runs_forget(agents);
    for (size_t at = 0; (run = map_next(&agents->runs, &at)) != NULL;) {
        (void)map_del(&agents->runs, run->id);
        run->agents = NULL;
        run_unref(run);
    }
    map_done(&agents->runs);
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
    row->cost = end->cost;
    row->input_tokens = end->usage.input + end->usage.cache_write + end->usage.cache_write_1h +
                        end->usage.cache_read;
    row->output_tokens = end->usage.output;
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
static void store_or_fail(struct run *run)
{
    struct err err = {0};
    struct failure failure;
    if (run->body.failed == 0 && store(run, &err) == 0)
        return;
    if (run->body.failed != 0)
        failure_set(&failure, 507, "NO_SPACE", "the answer is too large to be stored");
    else
        failure_set(&failure, 507, "NO_SPACE", "the answer cannot be stored: %s", err.msg);
    log_line(LOG_ERROR, "a result cannot be stored", "id", run->id, "error", failure.message, NULL);
    buf_reset(&run->body);
    failure_write(&failure, run->id, &run->body);
    run->status = failure.status;
    run->row.success = false;
    run->row.status = failure.status;
    set_text(&run->row.error, failure.error_code);
    (void)store(run, &err);
}

void run_end(struct run *run, const struct run_end *end, const struct buf *body)
{
    struct agents *a = run->agents;
    assert(!run->ended);
    if (a == NULL) { // the server is ending: the next one finds it lost
        run->ended = true;
        return;
    }
    run->status = end->status;
    run->retry_after_ms = end->retry_after_ms;
    run->cancel = NULL;
    (void)buf_append(&run->body, body->data, body->len);
    if (body->failed != 0)
        run->body.failed = body->failed;
    fill_row(run, end);
    store_or_fail(run);
    run->ended = true;
    a->stats.open--;
    a->stats.failed += !run->row.success;
    count_bytes(run);
    keep(run);
    tell(run);
}

bool run_has_ended(const struct run *run)
{
    return run->ended;
}

void run_answer(const struct run *run, unsigned *ret_status, const char **ret_body, size_t *ret_len,
                int64_t *ret_retry_after_ms)
{
    *ret_status = run->status;
    *ret_body = buf_str(&run->body);
    *ret_len = run->body.len;
    *ret_retry_after_ms = run->retry_after_ms;
}

void run_on_cancel(struct run *run, void (*fn)(void *data), void *data)
{
    run->cancel = fn;
    run->cancel_data = data;
}

void run_cancel(struct run *run)
{
    if (run->ended || run->cancelled || run->cancel == NULL)
        return;
    run->cancelled = true;
    run->cancel(run->cancel_data);
}
