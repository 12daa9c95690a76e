// SPDX-License-Identifier: Apache-2.0
// Which processes a sandbox has: those in memory by their id, all others as rows.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "sandbox/process-internal.h"

static void *must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

static void free_process(struct process *p)
{
    for (enum log_stream i = 0; i < LOG_STREAMS; i++)
        bytelog_free(p->logs[i]);
    spool_free(p->spool);
    process_row_done(&p->row);
    free(p);
}

// --- all of a sandbox

static void sweep(struct processes *all)
{
    struct process *p;
    for (size_t at = 0; (p = map_next(&all->by_id, &at)) != NULL;) {
        if (p->refs == 0) {
            (void)map_del(&all->by_id, p->row.id);
            free_process(p);
        }
    }
    while ((p = all->gone) != NULL) {
        all->gone = p->next_gone;
        p->swept = false;
        if (p->refs == 0)
            free_process(p);
    }
}

static void on_sweep(uv_timer_t *timer)
{
    struct processes *all = timer->data;
    sweep(all);
    if (!all->trims)
        return;
    all->trims = false;
    processes_trim(all->s);
}

static void sweep_later(struct processes *all)
{
    (void)uv_timer_start(&all->sweeper, on_sweep, 0, 0);
}

static int count_ended(void *data, const struct process_row *row)
{
    struct processes *all = data;
    all->ended += row->reason != END_NONE;
    return 0;
}

struct processes *processes_of(struct sandbox *s)
{
    struct err err = {0};
    if (s->processes != NULL)
        return s->processes;
    struct processes *all = must(calloc(1, sizeof *all));
    all->s = s;
    (void)uv_timer_init(fleet_loop(s->fleet), &all->sweeper);
    all->sweeper.data = all;
    if (db_process_each(fleet_db(s->fleet), s->row.number, count_ended, all, &err) < 0)
        log_line(LOG_ERROR, "cannot count processes", "sandbox", s->row.id, "error", err.msg, NULL);
    s->processes = all;
    return all;
}

static void all_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void processes_forget(struct sandbox *s)
{
    struct processes *all = s->processes;
    struct process *p;
    size_t at;
    if (all == NULL)
        return;
    (void)sandbox_ref(s); // what is let go of here may be all that held it
    while (at = 0, (p = map_next(&all->by_id, &at)) != NULL) // those who are told may find others
        process_let_go(p);
    sweep(all);
    s->processes = NULL;
    map_done(&all->by_id);
    uv_close((uv_handle_t *)&all->sweeper, all_closed);
    s->refs--; // not sandbox_unref: whether it leaves memory is the caller's business
}

// --- one of them

struct process *process_new(struct sandbox *s, struct process_row *row)
{
    struct processes *all = processes_of(s);
    struct process *p = must(calloc(1, sizeof *p));
    p->s = s;
    p->row = *row;
    *row = (struct process_row){0};
    map_put(&all->by_id, p->row.id, p);
    sweep_later(all); // unless somebody takes a reference
    return p;
}

struct process *process_ref(struct process *p)
{
    if (p->refs++ == 0 && p->s != NULL)
        (void)sandbox_ref(p->s);
    return p;
}

void process_unref(struct process *p)
{
    if (p == NULL || --p->refs > 0)
        return;
    if (p->s != NULL) {
        sweep_later(processes_of(p->s));
        sandbox_unref(p->s); // may forget the sandbox, and this process with it
    } else if (!p->swept) {
        free_process(p);
    }
}

void process_let_go(struct process *p)
{
    struct sandbox *s = p->s;
    struct processes *all = s->processes;
    (void)process_ref(p);
    (void)map_del(&all->by_id, p->row.id);
    for (enum log_stream i = 0; i < LOG_STREAMS; i++)
        pump_close(p, i);
    feed_close(p);
    process_drop_job(p);
    p->s = NULL;
    process_tell(p, /*deleted=*/true);
    process_settle(p);
    p->swept = true; // whoever was lent it may still look at it
    p->next_gone = all->gone;
    all->gone = p;
    sweep_later(all);
    process_unref(p);
    sandbox_unref(s); // that of its references
}

const struct process_row *process_row(const struct process *p)
{
    return &p->row;
}

int64_t process_duration_ms(const struct process *p)
{
    int64_t end = p->row.reason == END_NONE ? db_now_ms() : p->row.ended_ms;
    return end > p->row.started_ms ? end - p->row.started_ms : 0;
}

struct bytelog *process_log(struct process *p, enum log_stream stream)
{
    struct err err = {0};
    if (p->logs[stream] != NULL || p->s == NULL)
        return p->logs[stream];
    const struct fleet *fleet = p->s->fleet;
    if (bytelog_open(fleet_logs_fd(fleet), p->row.log, stream, fleet_process_log(fleet),
                     /*make=*/false, &p->logs[stream], &err) < 0 &&
        err.code != ERR_NOT_FOUND)
        log_line(LOG_ERROR, "cannot open a process's log", "sandbox", p->s->row.id, "process",
                 p->row.id, "error", err.msg, NULL);
    return p->logs[stream];
}

// --- rows

static void copy_row(const struct process_row *row, struct process_row *ret)
{
    *ret = *row;
    ret->id = must(strdup(row->id));
    ret->command = row->command != NULL ? must(strdup(row->command)) : NULL;
    ret->cwd = row->cwd != NULL ? must(strdup(row->cwd)) : NULL;
    ret->tty = row->tty != NULL ? must(strdup(row->tty)) : NULL;
    ret->note = row->note != NULL ? must(strdup(row->note)) : NULL;
}

struct collecting {
    struct process_list *list;
    bool running_only;
};

static int collect(void *data, const struct process_row *row)
{
    struct collecting *c = data;
    struct process_list *list = c->list;
    if (c->running_only && row->reason != END_NONE)
        return 0;
    if (list->n == list->cap) {
        list->cap = list->cap == 0 ? 16 : list->cap * 2;
        list->rows = must(reallocarray(list->rows, list->cap, sizeof *list->rows));
    }
    copy_row(row, &list->rows[list->n++]);
    return 0;
}

int process_list_read(struct db *db, int64_t sandbox, bool running_only, struct process_list *ret,
                      struct err *err)
{
    struct process_list list = {0};
    struct collecting c = {.list = &list, .running_only = running_only};
    if (db_process_each(db, sandbox, collect, &c, err) < 0) {
        process_list_done(&list);
        return -1;
    }
    *ret = list;
    return 0;
}

void process_list_done(struct process_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        process_row_done(&list->rows[i]);
    free(list->rows);
    *list = (struct process_list){0};
}

struct process *process_find(struct sandbox *s, const char *id, struct err *err)
{
    struct process_row row = {0};
    struct process *p = map_get(&processes_of(s)->by_id, id);
    if (p != NULL)
        return p;
    int r = db_process_get(fleet_db(s->fleet), s->row.number, id, &row, err);
    if (r == 0)
        (void)err_set(err, ERR_NOT_FOUND, "there is no process '%.128s'", id);
    return r == 1 ? process_new(s, &row) : NULL;
}

// All are found before the first is shown: who is shown one may change the rows.
int process_each(struct sandbox *s, void (*fn)(void *data, struct process *p), void *data,
                 struct err *err)
{
    struct process_list list = {0};
    if (process_list_read(fleet_db(s->fleet), s->row.number, /*running_only=*/false, &list, err) <
        0)
        return -1;
    struct process **found = must(calloc(list.n + 1, sizeof *found));
    for (size_t i = 0; i < list.n; i++) {
        struct process *p = map_get(&processes_of(s)->by_id, list.rows[i].id);
        found[i] = process_ref(p != NULL ? p : process_new(s, &list.rows[i]));
    }
    for (size_t i = 0; i < list.n; i++) {
        if (found[i]->s != NULL)
            fn(data, found[i]);
        process_unref(found[i]);
    }
    free(found);
    process_list_done(&list);
    return 0;
}

// --- the end of rows

// The files first: a row without files can be removed again, files without a row are never found.
static int erase_row(struct sandbox *s, const struct process_row *row, struct err *err)
{
    bytelog_remove(fleet_logs_fd(s->fleet), row->log);
    if (db_process_del(fleet_db(s->fleet), s->row.number, row->id, err) < 0)
        return err_wrap(err, "remove process %.64s", row->id);
    if (row->reason != END_NONE && s->processes != NULL && s->processes->ended > 0)
        s->processes->ended--;
    return 0;
}

void process_erase(struct process *p)
{
    struct err err = {0};
    if (erase_row(p->s, &p->row, &err) < 0)
        log_line(LOG_ERROR, "cannot remove a process", "sandbox", p->s->row.id, "error", err.msg,
                 NULL);
    process_let_go(p);
}

int process_delete(struct process *p, struct err *err)
{
    if (p->s == NULL)
        return err_set(err, ERR_NOT_FOUND, "the process was deleted");
    if (p->job != NULL) {
        job_kill(p->job);
        return 0;
    }
    if (erase_row(p->s, &p->row, err) < 0)
        return -1;
    process_let_go(p);
    return 0;
}

static const struct process_row *first_ended(const struct process_list *list)
{
    const struct process_row *first = NULL;
    for (size_t i = 0; i < list->n; i++) {
        const struct process_row *row = &list->rows[i];
        if (row->reason != END_NONE && (first == NULL || row->ended_ms < first->ended_ms))
            first = row;
    }
    return first;
}

// False when there is nothing (more) to remove.
static bool trim_one(struct sandbox *s)
{
    struct process_list list = {0};
    struct err err = {0};
    bool done = false;
    if (process_list_read(fleet_db(s->fleet), s->row.number, /*running_only=*/false, &list, &err) <
        0)
        return false;
    const struct process_row *row = first_ended(&list);
    struct process *p = row != NULL ? map_get(&s->processes->by_id, row->id) : NULL;
    if (row != NULL && erase_row(s, row, &err) == 0) {
        done = true;
        if (p != NULL)
            process_let_go(p);
    }
    process_list_done(&list);
    return done;
}

void processes_trim(struct sandbox *s)
{
    while (s->processes != NULL && s->processes->ended > PROCESS_KEPT && trim_one(s))
        ;
}

void processes_trim_later(struct sandbox *s)
{
    s->processes->trims = true;
    sweep_later(s->processes);
}

bool process_row_end(struct sandbox *s, struct process_row *row, const struct job_end *end)
{
    struct err err = {0};
    row->reason = end->reason;
    row->exit_code = end->exit_code;
    row->signal = end->signal;
    row->limits = end->limits;
    row->cpu_usec = (int64_t)end->cpu_usec;
    row->memory_peak = (int64_t)end->memory_peak;
    row->ended_ms = db_now_ms();
    if (row->ended_ms < row->started_ms) // the clock was set back
        row->ended_ms = row->started_ms;
    if (db_process_end(fleet_db(s->fleet), row, &err) == 0)
        return true;
    log_line(LOG_ERROR, "cannot store the end of a process", "sandbox", s->row.id, "process",
             row->id, "error", err.msg, NULL);
    return false;
}

void processes_lost(struct fleet *fleet, int64_t sandbox)
{
    struct process_list list = {0};
    struct err err = {0};
    if (process_list_read(fleet_db(fleet), sandbox, /*running_only=*/true, &list, &err) < 0)
        log_line(LOG_ERROR, "cannot read processes", "error", err.msg, NULL);
    for (size_t i = 0; i < list.n; i++) {
        struct process_row *row = &list.rows[i];
        row->reason = END_BOX_LOST;
        row->exit_code = -1;
        row->ended_ms = db_now_ms();
        fleet_count_end(fleet, END_BOX_LOST);
        if (db_process_end(fleet_db(fleet), row, &err) < 0)
            log_line(LOG_ERROR, "cannot store the end of a process", "process", row->id, "error",
                     err.msg, NULL);
    }
    process_list_done(&list);
}

void processes_destroy(struct sandbox *s)
{
    struct process_list list = {0};
    struct err err = {0};
    processes_forget(s);
    if (process_list_read(fleet_db(s->fleet), s->row.number, /*running_only=*/false, &list, &err) <
        0)
        log_line(LOG_ERROR, "cannot read processes", "sandbox", s->row.id, "error", err.msg, NULL);
    for (size_t i = 0; i < list.n; i++) {
        if (erase_row(s, &list.rows[i], &err) < 0)
            log_line(LOG_ERROR, "cannot remove a process", "sandbox", s->row.id, "error", err.msg,
                     NULL);
    }
    process_list_done(&list);
}
