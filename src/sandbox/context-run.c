// SPDX-License-Identifier: Apache-2.0
// The cells of a context: how they wait, run and end. One that runs quickly costs no row; one that
// lasts is put into its context's, so that a daemon after us knows of it and of its deadline.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sandbox/context-internal.h"
#include "sandbox/kernel-json.h"

// After a signal that may still be on its way: it must not hit the next cell.
enum { SETTLE_MS = 50, YOUNG_MS = 50, SIGNALS_MAX = 2 };

// --- sending

static struct cell *take_first(struct context *c)
{
    struct cell *cell = c->queue;
    c->queue = cell->next;
    cell->next = NULL;
    c->n_queue--;
    return cell;
}

static void put_cell(struct context *c, const struct cell *cell)
{
    struct buf *out = kernel_link_outgoing(c->link);
    if (cell->envp != NULL && cell->envp[0] != NULL) {
        auto_buf env;
        buf_init(&env, FRAME_TO_MAX);
        for (size_t i = 0; cell->envp[i] != NULL; i++)
            (void)buf_append(&env, cell->envp[i], strlen(cell->envp[i]) + 1);
        (void)frame_put(out, "env", cell->number, env.data, env.len);
    }
    (void)frame_put(out, "run", cell->number, cell->code, cell->len);
}

static void signal_cell(struct context *c)
{
    struct cell *cell = c->current;
    int64_t left = cell->timeout_ms - (clock_ns() - cell->begun_ns) / NS_PER_MS;
    cell->is_signal_due = false;
    cell->signalled = true;
    cell->signals++;
    kernel_link_interrupt(c->link);
    if (cell->stop != STOP_INTERRUPT)
        kernel_link_set_deadline(c->link, CELL_GRACE_MS / SIGNALS_MAX);
    else if (cell->timeout_ms > 0)
        kernel_link_set_deadline(c->link, left > 1 ? left : 1);
}

// A kernel does not heed an interrupt before it has taken up the cell, which it does not tell: a
// young one is given a moment, and one that is to end for certain is asked twice before it is
// killed.
static void stop_cell(struct context *c, enum cell_stop why)
{
    struct cell *cell = c->current;
    int64_t age = (clock_ns() - cell->begun_ns) / NS_PER_MS;
    cell->stop = why;
    cell->signals = 0;
    if (age >= YOUNG_MS) {
        signal_cell(c);
    } else if (!cell->is_signal_due) {
        cell->is_signal_due = true;
        kernel_link_set_deadline(c->link, YOUNG_MS - age);
    }
}

// The kernel has it, and nothing before it.
static void begin(struct context *c)
{
    struct cell *cell = c->current;
    cell->state = CELL_RUNNING;
    cell->begun_ns = clock_ns();
    if (c->idle_out.len > 0)
        cell_add(cell, CELL_STDOUT, c->idle_out.data, c->idle_out.len);
    if (c->idle_err.len > 0)
        cell_add(cell, CELL_STDERR, c->idle_err.data, c->idle_err.len);
    buf_done(&c->idle_out);
    buf_done(&c->idle_err);
    kernel_link_watch_long(c->link, true);
    kernel_link_set_deadline(c->link, cell->timeout_ms);
    if (cell->stop == STOP_CANCEL) // while its kernel started
        stop_cell(c, STOP_CANCEL);
}

void context_send_first(struct context *c)
{
    if (c->current != NULL || c->queue == NULL)
        return;
    c->current = take_first(c);
    c->current->state = CELL_SENT;
    put_cell(c, c->current);
}

// The kernel that it was sent to has not begun it.
void context_unsend(struct context *c)
{
    struct cell *cell = c->current;
    if (cell == NULL)
        return;
    c->current = NULL;
    cell->state = CELL_WAITING;
    cell->next = c->queue;
    c->queue = cell;
    c->n_queue++;
}

// A large one takes several writes. A daemon after us would go on in the middle of it with frames
// of its own, and the kernel would run the mixture: the row says that it must not.
static void note_half(struct context *c)
{
    if (c->is_once || kernel_link_outgoing(c->link)->len <= CELL_WHOLE_MAX)
        return;
    c->is_half = true;
    c->row.cell = c->current->number;
    c->row.deadline_ms = CELL_HALF_SENT;
    context_store_or_log(c);
}

static bool can_begin(const struct context *c)
{
    return c->link != NULL && kernel_link_is_free(c->link) && c->current == NULL &&
           c->queue != NULL;
}

void context_pump(struct context *c)
{
    if (can_begin(c))
        kernel_link_settle(c->link);
    if (!can_begin(c))
        return;
    c->current = take_first(c);
    put_cell(c, c->current);
    note_half(c);
    kernel_link_flush(c->link);
    begin(c);
}

static struct cell *find_untold(const struct context *c)
{
    if (c->current != NULL && c->current->fn != NULL)
        return c->current;
    struct cell *cell = c->queue;
    while (cell != NULL && cell->fn == NULL)
        cell = cell->next;
    return cell;
}

void context_begin_first(struct context *c)
{
    struct cell *cell;
    if (c->current != NULL)
        begin(c);
    else
        context_pump(c);
    while ((cell = find_untold(c)) != NULL) {
        cell_fn fn = cell->fn;
        cell->fn = NULL;
        cell_ref(cell);
        fn(cell->fn_data, cell, NULL);
        cell_unref(cell);
    }
}

void context_fail_cells(struct context *c, const struct err *err)
{
    context_unsend(c);
    while (c->queue != NULL) {
        struct cell *cell = take_first(c);
        cell_fn fn = cell->fn;
        void *data = cell->fn_data;
        cell_drop(cell);
        if (fn != NULL)
            fn(data, NULL, err);
    }
}

// --- what the kernel says of it

static int on_shown(struct cell *cell, enum cell_event_type type, struct frame *frame)
{
    auto_buf rewritten;
    buf_init(&rewritten, FRAME_FROM_MAX);
    if (kernel_json_representation(frame->bytes, frame->len, &rewritten) < 0)
        return -1;
    if (rewritten.len > 0)
        cell_add(cell, type, rewritten.data, rewritten.len);
    else
        cell_add(cell, type, frame->bytes, frame->len);
    cell_tell(cell);
    return 0;
}

static int on_error(struct cell *cell, struct frame *frame)
{
    auto_buf rewritten;
    const struct kernel_timeout timeout = {.after_ms =
                                               cell->stop == STOP_TIMEOUT ? cell->timeout_ms : 0};
    buf_init(&rewritten, FRAME_FROM_MAX);
    if (cell->has_failed ||
        kernel_json_failure(frame->bytes, frame->len, &timeout, &rewritten, &cell->interrupted) < 0)
        return -1;
    cell->has_failed = true;
    cell_add(cell, CELL_ERROR, rewritten.data, rewritten.len);
    cell_tell(cell);
    return 0;
}

static const char *reason_of(const struct cell *cell)
{
    if (cell->stop == STOP_TIMEOUT)
        return "timeout";
    if (cell->stop != STOP_NONE && cell->interrupted)
        return "interrupted";
    return cell->has_failed ? "error" : "done";
}

static void end_once(struct context *c)
{
    struct contexts *all = c->s->contexts;
    context_unlist(c);
    kernel_link_end(c->link);
    once_ended(all);
}

// What is left to do when its client has been told.
static void after_done(struct context *c, const struct cell *cell)
{
    if (c->link == NULL || c->current != NULL) // whoever was told has done something
        return;
    if (c->is_once) {
        end_once(c);
        return;
    }
    if (cell->signalled && !cell->interrupted)
        kernel_link_hold(c->link, SETTLE_MS);
    context_pump(c);
    if (c->is_unsaved)
        context_store_or_log(c);
}

// The row first: a daemon that comes after us must not wait for what has been.
static void end_current(struct context *c, const struct cell_end *end)
{
    struct cell *cell = c->current;
    struct sandbox *s = sandbox_ref(c->s);
    kernel_link_set_deadline(c->link, 0);
    kernel_link_watch_long(c->link, false);
    c->current = NULL;
    c->is_half = false;
    c->row.cell = c->row.deadline_ms = 0;
    c->row.used_ms = db_now_ms();
    if (cell->is_stored)
        context_store_or_log(c);
    cell_ref(cell);
    context_ref(c);
    cell_finish(cell, end);
    after_done(c, cell);
    context_unref(c);
    cell_unref(cell);
    sandbox_unref(s);
}

uint32_t context_ping(const struct context *c)
{
    return c->s->fleet->welcome.restarts % FRAME_NUMBER_MAX;
}

void cell_on_rest_over(struct context *c)
{
    const struct cell_end end = {.success =
                                     !c->current->has_failed && c->current->stop != STOP_TIMEOUT,
                                 .reason = reason_of(c->current)};
    kernel_link_drain(c->link);
    end_current(c, &end);
}

static int on_done(struct context *c, struct frame *frame)
{
    struct kernel_object object;
    const struct cell *cell = c->current;
    if (kernel_json_scan(frame->bytes, frame->len, &object) != KERNEL_JSON_OK ||
        kernel_json_number(&object, "count") < 1)
        return -1;
    c->count = (uint64_t)kernel_json_number(&object, "count");
    struct cell_end end = {
        .success = !cell->has_failed && cell->stop != STOP_TIMEOUT,
        .reason = reason_of(cell),
        .count = c->count,
    };
    end_current(c, &end);
    return 0;
}

int cell_on_frame(struct context *c, struct frame *frame)
{
    struct cell *cell = c->current;
    if (cell->state != CELL_RUNNING)
        return -1;
    kernel_link_drain(c->link);
    switch (frame->type[0]) {
    case 'd':
        return frame->type[1] == 'o' ? on_done(c, frame) : on_shown(cell, CELL_DISPLAY, frame);
    case 'r':
        return on_shown(cell, CELL_RESULT, frame);
    default:
        return on_error(cell, frame);
    }
}

// --- other ends

void context_end_cells(struct context *c, const struct context_death *death)
{
    struct sandbox *s = sandbox_ref(c->s);
    struct cell *cell = c->current;
    context_ref(c);
    if (cell != NULL) {
        struct cell_end end = {
            .reason = death->reason, .context_died = !c->is_once, .err = death->err};
        end.count = c->count + 1;
        c->current = NULL;
        fleet_count_end(s->fleet, death->end);
        cell_finish(cell, &end);
    }
    while (c->queue != NULL) {
        const struct cell_end end = {.reason = "killed", .context_died = true, .err = death->err};
        cell_finish(take_first(c), &end);
    }
    context_unref(c);
    sandbox_unref(s);
}

void cell_on_deadline(struct context *c)
{
    struct cell *cell = c->current;
    struct context_death death = {.end = END_KILLED, .detail = "killed", .reason = "killed"};
    if (cell == NULL)
        return;
    if (cell->is_signal_due) {
        signal_cell(c);
        return;
    }
    if (cell->stop != STOP_TIMEOUT && cell->stop != STOP_CANCEL) {
        stop_cell(c, STOP_TIMEOUT);
        return;
    }
    if (cell->signals < SIGNALS_MAX) {
        signal_cell(c);
        return;
    }
    if (cell->stop == STOP_TIMEOUT) {
        death.end = END_TIMEOUT;
        death.reason = "timeout";
        (void)snprintf(death.detail, sizeof death.detail, "timeout");
    }
    (void)err_set(&death.err, ERR_UNAVAILABLE,
                  "the cell %s, did not end when it was interrupted, and was killed with its "
                  "context; its state is lost",
                  cell->stop == STOP_TIMEOUT ? "ran out of time" : "was cancelled");
    kernel_link_drain(c->link);
    context_die(c, &death);
}

static void store_current(struct context *c)
{
    struct cell *cell = c->current;
    int64_t past = cell->begun_ns != 0 ? (clock_ns() - cell->begun_ns) / NS_PER_MS : 0;
    int64_t left = cell->timeout_ms - past;
    cell->is_stored = true;
    c->row.cell = cell->number;
    c->row.deadline_ms = db_now_ms() + (left > 1 ? left : 1);
    context_store_or_log(c);
}

void cell_on_long(struct context *c)
{
    if (!c->is_once && !c->is_half)
        store_current(c);
}

void cell_on_sent(struct context *c)
{
    c->is_half = false;
    store_current(c);
}

int context_interrupt(struct context *c, struct err *err)
{
    if (c->current == NULL || c->current->state != CELL_RUNNING)
        return err_set(err, ERR_CONFLICT, "the context runs nothing");
    stop_cell(c, c->current->stop != STOP_NONE ? c->current->stop : STOP_INTERRUPT);
    return 0;
}

static void take_out(struct cell *cell)
{
    struct context *c = cell->context;
    struct cell **p = &c->queue;
    while (*p != cell)
        p = &(*p)->next;
    *p = cell->next;
    cell->next = NULL;
    c->n_queue--;
}

// Whoever ran it may not have heard of it yet, and hears of its end then.
static void cancel_waiting(struct cell *cell)
{
    struct cell_end end = {.reason = "killed"};
    struct context *c = cell->context;
    cell_fn fn = cell->fn;
    (void)err_set(&end.err, ERR_UNAVAILABLE, "it was cancelled before it began");
    cell_ref(cell);
    take_out(cell);
    cell->fn = NULL;
    if (c->is_once && c->link == NULL) // there for this cell alone
        context_unlist(c);
    cell_finish(cell, &end);
    if (fn != NULL)
        fn(cell->fn_data, cell, NULL);
    cell_unref(cell);
}

void cell_cancel(struct cell *cell)
{
    struct context *c = cell->context;
    if (cell->state == CELL_RUNNING && cell->stop != STOP_TIMEOUT && cell->stop != STOP_CANCEL) {
        stop_cell(c, STOP_CANCEL);
    } else if (cell->state == CELL_SENT) {
        cell->stop = STOP_CANCEL;
    } else if (cell->state == CELL_WAITING) {
        cancel_waiting(cell);
    }
}

struct cell *cell_find(struct sandbox *s, const char *id, struct err *err)
{
    struct contexts *all = contexts_of(s);
    struct context *lists[] = {all->first, all->once};
    for (struct cell *cell = all->ended; cell != NULL; cell = cell->next) {
        if (strcmp(cell->id, id) == 0)
            return cell;
    }
    for (size_t i = 0; i < 2; i++) {
        for (struct context *c = lists[i]; c != NULL; c = c->next) {
            if (c->current != NULL && strcmp(c->current->id, id) == 0)
                return c->current;
            for (struct cell *cell = c->queue; cell != NULL; cell = cell->next) {
                if (strcmp(cell->id, id) == 0)
                    return cell;
            }
        }
    }
    (void)err_set(err, ERR_NOT_FOUND, "there is no cell '%.100s', or none any more", id);
    return NULL;
}
