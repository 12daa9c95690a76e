// SPDX-License-Identifier: Apache-2.0
#include "agents/run.h"

#include <assert.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/run-internal.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    GAP_MAX = 16,
    RUNS_MAX = 1024,              // that are worked on at once,
    TENANT_MAX = 768,             // of one tenant: there is room for others
    ENTRIES_MAX = 100 * 1000,     // events of a log
    LOGS_MAX = 256 * 1024 * 1024, // bytes of all logs together
};

struct run_follower {
    struct run *run;
    void (*fn)(void *data);
    void *data;
    struct run_follower *prev, *next;
};

void run_make_id(char ret[RUN_ID_MAX])
{
    uint8_t b[16];
    char hex[2 * sizeof b + 1];
    randombytes_buf(b, sizeof b);
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    (void)sodium_bin2hex(hex, sizeof hex, b, sizeof b);
    (void)snprintf(ret, RUN_ID_MAX, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
                   hex + 20);
}

// --- its life

void run_count_bytes(struct run *run)
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

static struct run *make(struct agents *agents, const char *id)
{
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL)
        abort();
    run->agents = agents;
    run->refs = 1;
    if (id != NULL && strlen(id) < RUN_ID_MAX)
        (void)snprintf(run->id, sizeof run->id, "%s", id);
    else
        run_make_id(run->id);
    buf_init(&run->text, RUN_LOG_MAX + GAP_MAX);
    buf_init(&run->body, RUN_BODY_MAX);
    return run;
}

bool run_is_task(const struct run *run)
{
    return strcmp(run->row.kind, "task") == 0;
}

static void count_begun(struct run *run)
{
    struct agents_stats *stats = &run->agents->stats;
    stats->runs++;
    stats->open++;
    stats->tasks += run_is_task(run);
    stats->tasks_open += run_is_task(run);
}

struct run *run_new(struct agents *agents, const struct run_start *start, struct err *err)
{
    if (is_too_much(agents, start->tenant)) {
        (void)err_set(err, ERR_UNAVAILABLE, "too much is asked at once: try again later");
        return NULL;
    }
    struct run *run = make(agents, start->id);
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
    count_begun(run);
    return run;
}

struct run *run_new_again(struct agents *agents, const struct result_row *row)
{
    struct run *run = make(agents, row->id);
    run->is_again = true;
    run->row = (struct result_row){
        .tenant = row->tenant,
        .id = run->id,
        .kind = mem_copy_text(row->kind),
        .state = RESULT_RUNNING,
        .run = agents->config.run,
        .title = mem_copy_text(row->title),
        .model = mem_copy_text(row->model),
        .created_ms = row->created_ms,
    };
    map_put(&agents->runs, run->id, run);
    count_begun(run);
    return run;
}

bool run_is_again(const struct run *run)
{
    return run->is_again;
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

void run_spent(struct run *run, const struct model_usage *usage, int64_t cost)
{
    model_usage_add(&run->usage, usage);
    run->row.cost = model_cost_add(run->row.cost, cost);
}

const struct model_usage *run_usage(const struct run *run)
{
    return &run->usage;
}

int64_t run_cost(const struct run *run)
{
    return run->row.cost;
}

// --- its log

void run_tell(struct run *run)
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
    run_count_bytes(run);
    run_tell(run);
}

bool run_takes_events(const struct run *run)
{
    return !run->is_closed && !run->has_gap;
}

void run_event(struct run *run, const char *type, const struct buf *json)
{
    size_t all = run->agents != NULL ? run->agents->log_bytes : LOGS_MAX;
    if (run->is_closed || run->has_gap || json->failed < 0 || json->len == 0)
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

// --- its answer

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
    if (run->is_closed || run->cancelled || run->cancel == NULL)
        return;
    run->cancelled = true;
    run->cancel(run->cancel_data);
}
