// SPDX-License-Identifier: Apache-2.0
// How a cell comes to its context: a named one, the default one of its language, or one of its own.
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "sandbox/context-internal.h"

static int check(struct sandbox *s, const struct cell_request *request, struct err *err)
{
    if (request->len > CELL_CODE_MAX)
        return err_set(err, ERR_INVALID, "code of more than %d bytes", CELL_CODE_MAX);
    if (memchr(request->code, '\0', request->len) != NULL ||
        !utf8_valid(request->code, request->len))
        return err_set(err, ERR_INVALID, "code is UTF-8 text without NUL characters");
    if (request->env != NULL && strlen(request->env) > FRAME_TO_MAX)
        return err_set(err, ERR_INVALID, "the environment is too large");
    // Also of those that run: a kernel need not read what it is sent.
    if (contexts_of(s)->asked + cell_asked(request) > CELLS_ASKED_MAX)
        return err_set(err, ERR_EXHAUSTED, "too much code waits in this sandbox");
    return 0;
}

// --- numbers

// Numbers are taken from the row in blocks, so that none is used twice, whoever dies.
static uint32_t next_number(struct context *c)
{
    if (c->number >= FRAME_NUMBER_MAX - 1)
        c->number = 0;
    c->number++;
    if ((int64_t)c->number > c->row.numbers || c->number == 1) {
        c->row.numbers = (int64_t)c->number + CELL_NUMBERS;
        if (!c->is_new && !c->is_once)
            context_store_or_log(c);
    }
    return c->number;
}

static struct cell *enqueue(struct context *c, const struct cell_request *request, struct err *err)
{
    if (c->n_queue >= CELL_QUEUE_MAX) {
        (void)err_set(err, ERR_EXHAUSTED, "%d cells wait for this context", CELL_QUEUE_MAX);
        return NULL;
    }
    struct cell *cell = cell_new(c, next_number(c), request, err);
    if (cell == NULL)
        return NULL;
    struct cell **last = &c->queue;
    while (*last != NULL)
        last = &(*last)->next;
    *last = cell;
    c->n_queue++;
    return cell;
}

// --- those with a context

static struct context *find_default(struct sandbox *s, const struct language *language,
                                    struct err *err)
{
    char id[64];
    struct err ignored;
    struct contexts *all = contexts_of(s);
    (void)snprintf(id, sizeof id, "default-%s", language->name);
    struct context *c = context_find(s, id, &ignored);
    if (c != NULL)
        return c;
    if (all->n >= CONTEXTS_MAX) {
        (void)err_set(err, ERR_EXHAUSTED, "a sandbox has at most %d contexts", CONTEXTS_MAX);
        return NULL;
    }
    const struct context_settings settings = {.id = id, .language = language};
    struct context_row row = context_row_of(s, &settings, /* is_default */ true);
    c = context_new(s, &row, /* is_once */ false);
    c->is_new = true;
    return c;
}

static struct context *find_context(struct sandbox *s, const struct cell_request *request,
                                    struct err *err)
{
    if (request->context == NULL)
        return find_default(s, request->language, err);
    struct context *c = context_find(s, request->context, err);
    if (c == NULL || c->link != NULL || c->row.is_default)
        return c;
    (void)err_set(err, ERR_CONFLICT,
                  "context '%.64s' has ended (%.40s) and its state is lost: restart it (POST "
                  ".../contexts/%.64s/restart), or make another",
                  c->row.id, c->row.end[0] != '\0' ? c->row.end : "ended", c->row.id);
    return NULL;
}

static void refuse(struct context *c, const struct err *err, cell_fn fn, void *data)
{
    if (c != NULL && c->is_new && c->link == NULL)
        context_unlist(c); // made for this cell
    fn(data, NULL, err);
}

static void run_in_context(struct sandbox *s, const struct cell_request *request, cell_fn fn,
                           void *data)
{
    struct err err = {0};
    struct context *c = find_context(s, request, &err);
    struct cell *cell = c != NULL ? enqueue(c, request, &err) : NULL;
    if (cell == NULL) {
        refuse(c, &err, fn, data);
        return;
    }
    if (c->is_opened) {
        cell_ref(cell);
        context_pump(c); // it runs while its client is told
        fn(data, cell, NULL);
        cell_unref(cell);
        return;
    }
    cell->fn = fn;
    cell->fn_data = data;
    if (c->link == NULL && context_begin(c, /* ordinary */ false, &err) < 0)
        context_failed(c, &err);
}

// --- those without

void once_ended(struct contexts *all)
{
    struct err err = {0};
    unsigned running = 0;
    struct context *waiting = NULL;
    if (all == NULL)
        return;
    for (struct context *c = all->once; c != NULL; c = c->next) {
        running += c->link != NULL;
        if (c->link == NULL && waiting == NULL && c->queue != NULL)
            waiting = c;
    }
    if (waiting == NULL || running >= ONCE_MAX)
        return;
    if (context_begin(waiting, /* ordinary */ false, &err) < 0)
        context_failed(waiting, &err); // which comes here again
}

static void run_once(struct sandbox *s, const struct cell_request *request, cell_fn fn, void *data)
{
    struct err err = {0};
    char id[40];
    struct contexts *all = contexts_of(s);
    if (all->n_once >= ONCE_MAX + CELL_QUEUE_MAX) {
        (void)err_set(&err, ERR_EXHAUSTED, "%d cells wait in this sandbox", CELL_QUEUE_MAX);
        fn(data, NULL, &err);
        return;
    }
    name_make(id, sizeof id, "cell-");
    const struct context_settings settings = {.id = id, .language = request->language};
    struct context_row row = context_row_of(s, &settings, /* is_default */ false);
    struct context *c = context_new(s, &row, /* is_once */ true);
    struct cell *cell = enqueue(c, request, &err);
    if (cell == NULL) {
        context_unlist(c);
        fn(data, NULL, &err);
        return;
    }
    cell->fn = fn;
    cell->fn_data = data;
    once_ended(all);
}

void cell_run(struct sandbox *s, const struct cell_request *request, cell_fn fn, void *data)
{
    struct err err = {0};
    if (check(s, request, &err) < 0)
        fn(data, NULL, &err);
    else if (request->context == NULL && request->language->kernel == KERNEL_ONCE)
        run_once(s, request, fn, data);
    else
        run_in_context(s, request, fn, data);
}
