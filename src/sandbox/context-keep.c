// SPDX-License-Identifier: Apache-2.0
// What of contexts outlives their memory: rows, and kernels that are taken over after a restart of
// the daemon. Each is asked whether it runs something (`ping`), and until it has answered something
// does: a cell that was busy for a while is in its row, and what is left of it is collected under
// the same id; one that had only just begun has no id, and the time that its context gives to
// cells. A kernel that was sent half a cell cannot be spoken to any more.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "sandbox/context-internal.h"

// --- rows

struct context_row context_row_of(struct sandbox *s, const struct context_settings *settings,
                                  bool is_default)
{
    int64_t now = db_now_ms();
    return (struct context_row){
        .sandbox = s->row.number,
        .id = mem_copy_text(settings->id),
        .language = mem_copy_text(settings->language->name),
        .cwd = mem_copy_text(settings->cwd != NULL ? settings->cwd : "/workspace"),
        .env = mem_copy_text(settings->env != NULL ? settings->env : "{}"),
        .timeout_ms = settings->timeout_ms > 0 ? settings->timeout_ms : CELL_TIMEOUT_MS,
        .is_default = is_default,
        .end = mem_copy_text(""),
        .created_ms = now,
        .used_ms = now,
    };
}

void context_set_end(struct context *c, const char *end)
{
    if (strcmp(c->row.end, end) == 0)
        return;
    free(c->row.end);
    c->row.end = mem_copy_text(end);
}

int context_store(struct context *c, struct err *err)
{
    if (c->is_gone || c->is_once || c->s->destroy_wanted)
        return 0;
    if (db_context_put(fleet_db(c->s->fleet), &c->row, err) < 0)
        return -1;
    c->is_new = c->is_unsaved = false;
    return 0;
}

void context_store_or_log(struct context *c)
{
    struct err err = {0};
    if (context_store(c, &err) < 0)
        log_line(LOG_WARN, "cannot store a context, going on", "sandbox", c->s->row.id, "context",
                 c->row.id, "error", err.msg, NULL);
}

enum end_reason context_end_of(const char *detail)
{
    static const struct {
        const char *prefix;
        enum end_reason end;
    } known[] = {
        {"exit",     END_EXIT    },
        {"signal",   END_SIGNAL  },
        {"timeout",  END_TIMEOUT },
        {"oom",      END_OOM     },
        {"box_lost", END_BOX_LOST},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strncmp(detail, known[i].prefix, strlen(known[i].prefix)) == 0)
            return known[i].end;
    }
    return END_KILLED;
}

static struct context *load(struct sandbox *s, const struct context_row *row)
{
    struct context_row mine = *row;
    if (language_find(row->language) == NULL) // of a newer Cay
        return NULL;
    mine.id = mem_copy_text(row->id);
    mine.language = mem_copy_text(row->language);
    mine.cwd = mem_copy_text(row->cwd);
    mine.env = mem_copy_text(row->env);
    mine.end = mem_copy_text(row->end);
    return context_new(s, &mine, /* is_once */ false);
}

static struct contexts *contexts_new(struct sandbox *s)
{
    s->contexts = calloc(1, sizeof *s->contexts);
    if (s->contexts == NULL)
        abort();
    return s->contexts;
}

static int load_dead(void *data, const struct context_row *row)
{
    struct context *c = load(data, row);
    if (c != NULL && row->box != 0) {
        c->row.box = c->row.exec = c->row.cell = 0;
        context_set_end(c, "box_lost");
    }
    return 0;
}

struct contexts *contexts_of(struct sandbox *s)
{
    struct err err = {0};
    if (s->contexts != NULL)
        return s->contexts;
    contexts_new(s);
    if (db_context_each(fleet_db(s->fleet), s->row.number, load_dead, s, &err) < 0)
        log_line(LOG_ERROR, "cannot read contexts", "sandbox", s->row.id, "error", err.msg, NULL);
    return s->contexts;
}

// --- after a restart

// The rest of what a daemon before us has begun; number 0: there may be none.
static void resume_cell(struct context *c)
{
    const struct cell_request request = {.code = "", .timeout_ms = c->row.timeout_ms};
    struct err ignored = {0};
    bool is_known = c->row.cell != 0;
    int64_t left = is_known ? c->row.deadline_ms - db_now_ms() : c->row.timeout_ms;
    struct cell *cell = cell_new(c, (uint32_t)c->row.cell, &request, &ignored);
    if (cell == NULL)
        return;
    cell->state = CELL_RUNNING;
    cell->begun_ns = clock_ns();
    cell->is_stored = is_known;
    cell->is_rest = cell->end.truncated = true;
    c->current = cell;
    kernel_link_set_deadline(c->link, left > 1 ? left : 1);
    // It may have shown something to a daemon that died before it could say so.
    (void)frame_put(kernel_link_outgoing(c->link), "ack", cell->number, "", 0);
    (void)frame_put(kernel_link_outgoing(c->link), "ping", context_ping(c), "", 0);
    kernel_link_flush(c->link);
}

static bool is_cut_off(const struct context_row *row)
{
    return row->cell != 0 && row->deadline_ms == CELL_HALF_SENT;
}

static int adopt_one(void *data, const struct context_row *row)
{
    struct sandbox *s = data;
    struct context *c = load(s, row);
    if (c == NULL || row->box == 0)
        return 0;
    const struct job *job =
        row->box == (int64_t)sandbox_box(s) ? box_link_find(s->box, (uint32_t)row->exec) : NULL;
    // Only a job with control pipes can be a kernel.
    if (job != NULL && job->streams.control_in >= 0 && job->streams.control_out >= 0 &&
        !is_cut_off(row) && kernel_link_adopt(c, (uint32_t)row->exec) != NULL) {
        c->is_opened = true;
        resume_cell(c);
        return 0;
    }
    c->row.box = c->row.exec = c->row.cell = 0;
    const char *end = is_cut_off(row) ? "cut off" : "exit"; // what is left of it goes with orphans
    context_set_end(c, row->box == (int64_t)sandbox_box(s) ? end : "box_lost");
    context_store_or_log(c);
    return 0;
}

void contexts_adopt(struct sandbox *s)
{
    struct err err = {0};
    if (s->contexts != NULL)
        return;
    contexts_new(s);
    if (db_context_each(fleet_db(s->fleet), s->row.number, adopt_one, s, &err) < 0)
        log_line(LOG_ERROR, "cannot read contexts", "sandbox", s->row.id, "error", err.msg, NULL);
}

// --- boxes that are gone

static int mark_lost(void *data, const struct context_row *row)
{
    struct fleet *fleet = data;
    struct context_row lost = *row;
    struct err err = {0};
    char why[] = "box_lost";
    if (row->box == 0)
        return 0;
    lost.box = lost.exec = lost.cell = 0;
    lost.end = why;
    if (db_context_put(fleet_db(fleet), &lost, &err) < 0)
        log_line(LOG_ERROR, "cannot store a context", "context", row->id, "error", err.msg, NULL);
    return 0;
}

void contexts_lost(struct fleet *fleet, int64_t sandbox)
{
    struct err err = {0};
    if (db_context_each(fleet_db(fleet), sandbox, mark_lost, fleet, &err) < 0)
        log_line(LOG_ERROR, "cannot read contexts", "error", err.msg, NULL);
}

// Their kernels have been told of already, when the box went (job_events.lost).
static void forget_list(struct context **first)
{
    static const struct context_death gone = {
        .end = END_BOX_LOST,
        .detail = "box_lost",
        .reason = "box_lost",
        .err = {.code = ERR_UNAVAILABLE, .msg = "the sandbox is not running"},
    };
    while (*first != NULL) {
        struct context *c = *first;
        context_ref(c);
        context_unlist(c);
        kernel_link_release(c->link);
        if (c->is_opened)
            context_end_cells(c, &gone);
        else
            context_fail_cells(c, &gone.err); // nobody has heard of them
        context_unref(c);
    }
}

void contexts_forget(struct sandbox *s)
{
    struct contexts *all = s->contexts;
    if (all == NULL)
        return;
    forget_list(&all->once);
    forget_list(&all->first);
    cells_forget(all, NULL);
    s->contexts = NULL;
    free(all);
}
