// SPDX-License-Identifier: Apache-2.0
// Cells: what was run, its events, and who follows them. What all cells of a sandbox hold together
// is bounded (struct contexts): the oldest that have ended go first, then what runs is cut.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sandbox/context-internal.h"
#include "sandbox/exec.h"

struct cell_follower {
    struct cell *cell;
    struct cell_follower *next;
    void (*fn)(void *data); // NULL: it has gone while others were being told
    void *data;
};

// --- what they hold

static void account(struct cell *cell, uint64_t bytes, uint64_t memory)
{
    if (cell->all == NULL)
        return;
    cell->all->bytes += bytes - cell->counted;
    cell->all->memory += memory - cell->counted_memory;
    cell->counted = bytes;
    cell->counted_memory = memory;
}

static void count(struct cell *cell)
{
    account(cell, cell->len + cell_log_size(&cell->log), cell->len + cell_log_memory(&cell->log));
}

static void uncount(struct cell *cell)
{
    account(cell, 0, 0);
    cell->all = NULL;
}

static void evict(struct cell **p)
{
    struct cell *cell = *p;
    *p = cell->next;
    cell->next = NULL;
    uncount(cell);
    cell_unref(cell);
}

void cells_forget(struct contexts *all, const char *context_id)
{
    for (struct cell **p = &all->ended; *p != NULL;) {
        if (context_id == NULL || strcmp((*p)->context_id, context_id) == 0)
            evict(p);
        else
            p = &(*p)->next;
    }
}

static void evict_above(struct contexts *all, const char *context_id, unsigned kept)
{
    unsigned n = 0;
    for (const struct cell *cell = all->ended; cell != NULL; cell = cell->next)
        n += strcmp(cell->context_id, context_id) == 0;
    for (struct cell **p = &all->ended; n > kept;) {
        if (strcmp((*p)->context_id, context_id) != 0) {
            p = &(*p)->next;
            continue;
        }
        evict(p);
        n--;
    }
}

static bool is_crowded(const struct contexts *all)
{
    return all->memory > CELLS_MEMORY_MAX;
}

// Whether so much more may be held; others go for it.
static bool make_room(struct contexts *all, uint64_t more)
{
    while ((all->bytes + more > CELLS_BYTES_MAX || is_crowded(all)) && all->ended != NULL)
        evict(&all->ended);
    return all->bytes + more <= CELLS_BYTES_MAX;
}

// --- life

uint64_t cell_asked(const struct cell_request *request)
{
    return request->len + (request->env != NULL ? strlen(request->env) : 0);
}

struct cell *cell_new(struct context *c, uint32_t number, const struct cell_request *request,
                      struct err *err)
{
    char **envp = NULL;
    if (request->env != NULL && (envp = env_parse(request->env, err)) == NULL)
        return NULL;
    struct cell *cell = calloc(1, sizeof *cell);
    if (cell == NULL || (cell->code = malloc(request->len + 1)) == NULL)
        abort(); // bounded by CELL_CODE_MAX, and the request itself is there
    if (request->len > 0)
        memcpy(cell->code, request->code, request->len);
    cell->code[request->len] = '\0';
    cell->len = request->len;
    cell->refs = 1;
    cell->s = sandbox_ref(c->s);
    sandbox_busy(c->s);
    cell->all = c->s->contexts;
    cell->asked = cell_asked(request);
    cell->all->asked += cell->asked;
    cell->context = c;
    context_ref(c);
    cell->number = number;
    cell->language = c->language;
    cell->envp = envp;
    cell->timeout_ms = request->timeout_ms > 0 ? request->timeout_ms : c->row.timeout_ms;
    cell->context_id = mem_copy_text(c->is_once ? "" : c->row.id);
    cell->id = c->is_once ? mem_copy_text(c->row.id) : event_data("%s-%u", c->row.id, number);
    cell_log_init(&cell->log, fleet_logs_fd(c->s->fleet));
    count(cell);
    return cell;
}

struct cell *cell_ref(struct cell *cell)
{
    cell->refs++;
    return cell;
}

void cell_unref(struct cell *cell)
{
    if (cell == NULL || --cell->refs > 0)
        return;
    uncount(cell);
    cell_log_done(&cell->log);
    exec_env_free(cell->envp);
    free(cell->id);
    free(cell->context_id);
    free(cell->code);
    free(cell);
}

static void let_go(struct cell *cell)
{
    struct sandbox *s = cell->s;
    struct context *c = cell->context;
    cell->s = NULL;
    cell->context = NULL;
    if (c != NULL)
        context_unref(c);
    if (s != NULL) {
        s->contexts->asked -= cell->asked;
        sandbox_idle(s);
        sandbox_unref(s);
    }
}

void cell_drop(struct cell *cell)
{
    cell->state = CELL_ENDED;
    uncount(cell);
    let_go(cell);
    cell_unref(cell);
}

static void keep(struct cell *cell)
{
    struct contexts *all = cell->all;
    struct cell **last = &all->ended;
    while (*last != NULL)
        last = &(*last)->next;
    *last = cell; // the reference of whoever ran it
    cell->next = NULL;
    // Those without a context are not of one, and may end all at once.
    evict_above(all, cell->context_id, cell->context_id[0] != '\0' ? CELLS_KEPT : 2 * ONCE_MAX);
    (void)make_room(all, 0);
}

void cell_finish(struct cell *cell, const struct cell_end *end)
{
    struct sandbox *s = cell->s;
    bool truncated = cell->end.truncated;
    cell_ref(cell);
    cell->end = *end;
    cell->end.truncated = truncated;
    cell->state = CELL_ENDED;
    if (cell->begun_ns != 0) {
        cell->end.duration_ns = clock_ns() - cell->begun_ns;
        fleet_time(s->fleet, TIMING_CELL, cell->end.duration_ns);
    }
    if (cell_log_close(&cell->log, false) == 0)
        buf_done(&cell->log.open);
    count(cell);
    if (cell->all != NULL)
        keep(cell);
    else
        cell_unref(cell);
    cell_tell(cell);
    let_go(cell);
    cell_unref(cell);
}

// --- events

static bool may_grow(struct cell *cell, size_t by)
{
    const uint64_t errors = 1024 * 1024; // what went wrong is told also when all the rest is cut
    uint64_t most = cell->has_failed ? CELL_OUTPUT_MAX + errors : CELL_OUTPUT_MAX;
    return cell_log_size(&cell->log) + by <= most && cell->all != NULL && make_room(cell->all, by);
}

void cell_write(struct cell *cell, enum cell_event_type type, const char *bytes, size_t len)
{
    if (!may_grow(cell, len + CELL_LOG_RECORD) ||
        cell_log_grow(&cell->log, type, is_crowded(cell->all), bytes, len) < 0)
        cell->end.truncated = true;
    count(cell);
}

void cell_add(struct cell *cell, enum cell_event_type type, const void *bytes, size_t len)
{
    bool is_shown = type == CELL_RESULT || type == CELL_DISPLAY;
    cell->shown += is_shown ? 1 : 0;
    if ((is_shown && cell->shown > CELL_SHOWN_MAX) || !may_grow(cell, len + CELL_LOG_RECORD) ||
        cell_log_add(&cell->log, type, is_crowded(cell->all), bytes, len) < 0)
        cell->end.truncated = true;
    count(cell);
}

int cell_event(struct cell *cell, uint64_t n, struct cell_event *ret, struct err *err)
{
    return cell_event_part(cell, n, 0, SIZE_MAX, ret, err);
}

int cell_event_part(struct cell *cell, uint64_t n, size_t at, size_t max, struct cell_event *ret,
                    struct err *err)
{
    int r = cell_log_part(&cell->log, n, at, max, ret);
    if (r < 0)
        return err_sys(err, -r, "read what cell '%.100s' has written", cell->id);
    if (r > 0 || cell->state != CELL_ENDED || n > cell_log_count(&cell->log))
        return r;
    *ret = (struct cell_event){.type = CELL_END, .bytes = ""};
    return 1;
}

// --- followers

static void sweep(struct cell *cell)
{
    for (struct cell_follower **p = &cell->followers; *p != NULL;) {
        struct cell_follower *f = *p;
        if (f->fn == NULL) {
            *p = f->next;
            free(f);
            cell_unref(cell); // whoever sweeps has another reference
        } else {
            p = &f->next;
        }
    }
}

void cell_tell(struct cell *cell)
{
    if (cell->followers == NULL)
        return;
    cell_ref(cell);
    cell->telling++;
    for (struct cell_follower *f = cell->followers; f != NULL; f = f->next) {
        if (f->fn != NULL)
            f->fn(f->data);
    }
    if (--cell->telling == 0)
        sweep(cell);
    cell_unref(cell);
}

struct cell_follower *cell_follow(struct cell *cell, void (*fn)(void *data), void *data)
{
    struct cell_follower *f = calloc(1, sizeof *f);
    if (f == NULL)
        abort();
    *f = (struct cell_follower){.cell = cell_ref(cell), .next = cell->followers, .fn = fn, data};
    cell->followers = f;
    return f;
}

void cell_follower_free(struct cell_follower *f)
{
    if (f == NULL)
        return;
    struct cell *cell = cell_ref(f->cell);
    f->fn = NULL;
    if (cell->telling == 0)
        sweep(cell);
    cell_unref(cell);
}

// --- what it is

const char *cell_id(const struct cell *cell)
{
    return cell->id;
}

const char *cell_context(const struct cell *cell)
{
    return cell->context_id[0] != '\0' ? cell->context_id : NULL;
}

const struct language *cell_language(const struct cell *cell)
{
    return cell->language;
}

void cell_code(const struct cell *cell, const char **ret, size_t *ret_len)
{
    *ret = cell->code;
    *ret_len = cell->len;
}

bool cell_is_rest(const struct cell *cell)
{
    return cell->is_rest;
}

bool cell_has_ended(const struct cell *cell)
{
    return cell->state == CELL_ENDED;
}

const struct cell_end *cell_end(const struct cell *cell)
{
    return &cell->end;
}
