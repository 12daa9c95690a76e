// SPDX-License-Identifier: Apache-2.0
// Contexts: how they begin, are found, and end.
#include "sandbox/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/context-internal.h"
#include "sandbox/exec.h"

// --- in memory

struct context *context_new(struct sandbox *s, const struct context_row *row, bool is_once)
{
    struct contexts *all = s->contexts;
    struct context *c = calloc(1, sizeof *c);
    if (c == NULL)
        abort();
    c->s = s;
    c->refs = 1;
    c->is_once = is_once;
    c->row = *row;
    c->language = language_find(row->language);
    c->number = (uint32_t)row->numbers;
    buf_init(&c->idle_out, CELL_IDLE_MAX);
    buf_init(&c->idle_err, CELL_IDLE_MAX);
    struct context **last = is_once ? &all->once : &all->first;
    while (*last != NULL)
        last = &(*last)->next;
    *last = c;
    *(is_once ? &all->n_once : &all->n) += 1;
    return c;
}

void context_ref(struct context *c)
{
    c->refs++;
}

void context_unref(struct context *c)
{
    if (--c->refs > 0)
        return;
    context_row_done(&c->row);
    buf_done(&c->idle_out);
    buf_done(&c->idle_err);
    free(c);
}

void context_unlist(struct context *c)
{
    struct contexts *all = c->s->contexts;
    if (c->is_gone)
        return;
    struct context **p = c->is_once ? &all->once : &all->first;
    while (*p != c)
        p = &(*p)->next;
    *p = c->next;
    c->next = NULL;
    *(c->is_once ? &all->n_once : &all->n) -= 1;
    c->is_gone = true;
    context_unref(c);
}

// --- beginning

static void stay_awake(struct context *c, bool on)
{
    if (c->starting_busy == on)
        return;
    c->starting_busy = on;
    if (on) {
        sandbox_busy(sandbox_ref(c->s));
    } else {
        sandbox_idle(c->s);
        sandbox_unref(c->s);
    }
}

int context_begin(struct context *c, bool ordinary, struct err *err)
{
    c->is_opened = c->is_half = false;
    c->count = 0;
    buf_reset(&c->idle_out);
    buf_reset(&c->idle_err);
    context_unsend(c);
    stay_awake(c, true);
    return kernel_link_start(c, ordinary, err);
}

static void tell_waiters(struct context *c, const struct err *err)
{
    while (c->waiters != NULL) {
        struct context_waiter *w = c->waiters;
        c->waiters = w->next;
        w->fn(w->data, err == NULL ? c : NULL, err);
        free(w);
    }
}

static void wait_for(struct context *c, context_fn fn, void *data)
{
    struct context_waiter *w = calloc(1, sizeof *w);
    if (w == NULL)
        abort();
    *w = (struct context_waiter){.fn = fn, .data = data, .next = c->waiters};
    c->waiters = w;
}

void context_failed(struct context *c, const struct err *err)
{
    struct err copy = *err;
    struct sandbox *s = sandbox_ref(c->s);
    context_ref(c);
    kernel_link_end(c->link);
    c->is_opened = false;
    c->row.box = c->row.exec = 0;
    if (c->is_new || c->is_once) {
        context_unlist(c);
    } else {
        if (c->row.end[0] == '\0')
            context_set_end(c, "failed");
        context_store_or_log(c);
    }
    context_fail_cells(c, &copy);
    tell_waiters(c, &copy);
    stay_awake(c, false);
    if (c->is_once)
        once_ended(s->contexts);
    context_unref(c);
    sandbox_unref(s);
}

void context_on_opened(struct context *c)
{
    struct err err = {0};
    struct sandbox *s = sandbox_ref(c->s);
    context_ref(c);
    c->is_opened = true;
    c->row.box = (int64_t)sandbox_box(s);
    c->row.exec = kernel_link_exec(c->link);
    context_set_end(c, "");
    // One that was asked for is there when that is answered; one that came by itself need not wait.
    if (c->waiters != NULL && context_store(c, &err) < 0) {
        context_failed(c, &err);
    } else {
        c->is_unsaved = c->is_unsaved || c->waiters == NULL;
        if (c->current == NULL && c->is_unsaved)
            context_store_or_log(c);
        context_begin_first(c);
        tell_waiters(c, NULL);
        stay_awake(c, false);
    }
    context_unref(c);
    sandbox_unref(s);
}

// --- ending

struct context_death context_death_of(const struct context *c, const struct job_end *end)
{
    struct context_death d = {.end = end->reason, .reason = end_reason_name(end->reason)};
    bool is_ending = c->s->state == STATE_QUIETING || c->s->state == STATE_STOPPING;
    if (is_ending && end->reason != END_OOM && end->reason != END_BOX_LOST) {
        d.end = END_KILLED;
        d.reason = "killed";
        (void)snprintf(d.detail, sizeof d.detail, "%s",
                       c->s->destroy_wanted ? "destroyed" : "sleep");
        (void)err_set(&d.err, ERR_UNAVAILABLE, "the sandbox %s",
                      c->s->destroy_wanted ? "was destroyed" : "fell asleep");
        return d;
    }
    if (end->reason == END_EXIT)
        (void)snprintf(d.detail, sizeof d.detail, "exit code %d", end->exit_code);
    else if (end->reason == END_SIGNAL)
        (void)snprintf(d.detail, sizeof d.detail, "signal %d", end->signal);
    else
        (void)snprintf(d.detail, sizeof d.detail, "%s", d.reason);
    if (end->reason == END_OOM)
        (void)err_set(&d.err, ERR_UNAVAILABLE,
                      "the interpreter ran out of memory; its state is lost");
    else
        (void)err_set(&d.err, ERR_UNAVAILABLE, "the interpreter ended (%s); its state is lost",
                      d.detail);
    return d;
}

void context_die(struct context *c, const struct context_death *death)
{
    struct sandbox *s = sandbox_ref(c->s);
    context_ref(c);
    kernel_link_end(c->link);
    c->is_opened = false;
    c->row.box = c->row.exec = c->row.cell = 0;
    context_set_end(c, death->detail);
    if (c->is_once)
        context_unlist(c);
    else
        context_store_or_log(c);
    context_end_cells(c, death);
    if (c->is_once)
        once_ended(s->contexts);
    context_unref(c);
    sandbox_unref(s);
}

// --- the door

static struct context *find(const struct contexts *all, const char *id)
{
    struct context *c = all->first;
    while (c != NULL && strcmp(c->row.id, id) != 0)
        c = c->next;
    return c;
}

struct context *context_find(struct sandbox *s, const char *id, struct err *err)
{
    struct context *c = find(contexts_of(s), id);
    if (c == NULL)
        (void)err_set(err, ERR_NOT_FOUND, "there is no context '%.100s'", id);
    return c;
}

void context_each(struct sandbox *s, void (*fn)(void *data, struct context *c), void *data)
{
    struct context *next;
    for (struct context *c = contexts_of(s)->first; c != NULL; c = next) {
        next = c->next;
        fn(data, c);
    }
}

static enum context_status status_of(const struct context *c)
{
    if (c->link == NULL)
        return CONTEXT_DEAD;
    if (!c->is_opened)
        return CONTEXT_STARTING;
    return c->current != NULL ? CONTEXT_BUSY : CONTEXT_IDLE;
}

void context_info(const struct context *c, struct context_info *ret)
{
    *ret = (struct context_info){
        .id = c->row.id,
        .language = c->language,
        .cwd = c->row.cwd,
        .status = status_of(c),
        .is_default = c->row.is_default,
        .timeout_ms = c->row.timeout_ms,
        .count = c->count,
        .queued = c->n_queue,
        .cell = c->current != NULL ? c->current->id : NULL,
        .created_ms = c->row.created_ms,
        .used_ms = c->row.used_ms,
        .pid = c->link != NULL ? kernel_link_pid(c->link) : 0,
    };
    if (ret->status != CONTEXT_DEAD)
        return;
    ret->end = context_end_of(c->row.end);
    ret->end_detail = c->row.end[0] != '\0' ? c->row.end : NULL;
}

static int check_new(struct sandbox *s, const struct context_settings *settings, const char *id,
                     struct err *err)
{
    struct contexts *all = contexts_of(s);
    if (settings->language->kernel == KERNEL_ONCE)
        return err_set(err, ERR_INVALID,
                       "%s has no contexts: each piece of code is compiled and run by itself",
                       settings->language->name);
    if (!sandbox_id_valid(id) || strncmp(id, "default-", 8) == 0)
        return err_set(err, ERR_INVALID, "'%.100s' is not a name for a context", id);
    if (settings->cwd != NULL && settings->cwd[0] != '/')
        return err_set(err, ERR_INVALID, "cwd is an absolute path");
    if (find(all, id) != NULL)
        return err_set(err, ERR_CONFLICT, "there is a context '%.100s' already", id);
    if (all->n >= CONTEXTS_MAX)
        return err_set(err, ERR_EXHAUSTED, "a sandbox has at most %d contexts", CONTEXTS_MAX);
    char **parsed = env_parse(settings->env, err);
    exec_env_free(parsed);
    return parsed == NULL ? -1 : 0;
}

void context_create(struct sandbox *s, const struct context_settings *settings, context_fn fn,
                    void *data)
{
    struct err err = {0};
    char made_up[40];
    struct context_settings mine = *settings;
    name_make(made_up, sizeof made_up, "context-");
    if (mine.id == NULL)
        mine.id = made_up;
    if (check_new(s, &mine, mine.id, &err) < 0) {
        fn(data, NULL, &err);
        return;
    }
    struct context_row row = context_row_of(s, &mine, /* is_default */ false);
    struct context *c = context_new(s, &row, /* is_once */ false);
    c->is_new = true;
    wait_for(c, fn, data);
    if (context_begin(c, /* ordinary */ false, &err) < 0)
        context_failed(c, &err);
}

static const struct context_death deleted = {
    .end = END_KILLED,
    .detail = "killed",
    .reason = "killed",
    .err = {.code = ERR_UNAVAILABLE, .msg = "its context was deleted"},
};

int context_delete(struct context *c, struct err *err)
{
    struct sandbox *s = c->s;
    struct db *db = fleet_db(s->fleet);
    if (!c->is_new && db_context_del(db, s->row.number, c->row.id, err) < 0)
        return -1;
    context_ref(c);
    if (c->link != NULL && !c->is_opened) {
        c->is_new = true; // its row is gone
        context_failed(c, &deleted.err);
    } else {
        context_unlist(c);
        kernel_link_end(c->link);
        context_end_cells(c, &deleted);
    }
    cells_forget(s->contexts, c->row.id);
    context_unref(c);
    return 0;
}

void context_restart(struct context *c, context_fn fn, void *data)
{
    struct err err = {0};
    struct context_death death = deleted;
    if (c->link != NULL && !c->is_opened) {
        (void)err_set(&err, ERR_CONFLICT, "the context is being started");
        fn(data, NULL, &err);
        return;
    }
    (void)err_set(&death.err, ERR_UNAVAILABLE, "its context was restarted");
    context_ref(c);
    if (c->link != NULL)
        context_die(c, &death);
    if (c->is_gone || c->link != NULL) { // whoever was told has done something
        (void)err_set(&err, ERR_CONFLICT, "the context was changed meanwhile");
        fn(data, NULL, &err);
    } else {
        wait_for(c, fn, data);
        if (context_begin(c, /* ordinary */ false, &err) < 0)
            context_failed(c, &err);
    }
    context_unref(c);
}
