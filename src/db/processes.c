// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "db/db-internal.h"

#define COLUMNS                                                                                    \
    "sandbox, id, command, cwd, box, exec, pid, log, keep_awake, deadline_ms, reason, exit_code,"  \
    " signal, limits, cpu_usec, memory_peak, started_ms, ended_ms, tty, note"

const char *end_reason_name(enum end_reason reason)
{
    static const char *const names[END_REASON_MAX] = {
        [END_NONE] = "",
        [END_EXIT] = "exit",
        [END_SIGNAL] = "signal",
        [END_TIMEOUT] = "timeout",
        [END_KILLED] = "killed",
        [END_OOM] = "oom",
        [END_BOX_LOST] = "box_lost",
    };
    return (unsigned)reason < END_REASON_MAX ? names[reason] : "";
}

void process_row_done(struct process_row *row)
{
    free(row->id);
    free(row->command);
    free(row->cwd);
    free(row->tty);
    free(row->note);
    *row = (struct process_row){0};
}

static void read_row(struct call *call, void *ret_row)
{
    struct process_row *row = ret_row;
    row->sandbox = get_int(call);
    row->id = get_text(call);
    row->command = get_text(call);
    row->cwd = get_text(call);
    row->box = get_int(call);
    row->exec = get_int(call);
    row->pid = get_int(call);
    row->log = get_int(call);
    row->keep_awake = get_bool(call);
    row->deadline_ms = get_int(call);
    row->reason = (enum end_reason)get_int(call);
    row->exit_code = get_int(call);
    row->signal = get_int(call);
    row->limits = get_int(call);
    row->cpu_usec = get_int(call);
    row->memory_peak = get_int(call);
    row->started_ms = get_int(call);
    row->ended_ms = get_int(call);
    row->tty = get_text(call);
    row->note = get_text(call);
}

static void row_done(void *row)
{
    process_row_done(row);
}

static const struct row_kind kind = {sizeof(struct process_row), read_row, row_done};

// Box, exec, pid, in the order of the columns.
static void put_place(struct call *call, const struct process_row *row)
{
    put_int(call, row->box);
    put_int(call, row->exec);
    put_int(call, row->pid);
}

// How it ended, from the reason on.
static void put_end(struct call *call, const struct process_row *row)
{
    put_int(call, row->reason);
    put_int(call, row->exit_code);
    put_int(call, row->signal);
    put_int(call, row->limits);
    put_int(call, row->cpu_usec);
    put_int(call, row->memory_peak);
}

int db_process_add(struct db *db, struct process_row *row, struct err *err)
{
    static const char text[] =
        "INSERT INTO processes (" COLUMNS ") VALUES (?,?,?,?,?,?,?,NULL,?,?,?,?,?,?,?,?,?,?,?,?)";
    auto_call call;
    if (call_start(&call, db, STMT_PROCESS_ADD, text, err) < 0)
        return -1;
    put_int(&call, row->sandbox);
    put_text(&call, row->id);
    put_text(&call, row->command);
    put_text(&call, row->cwd);
    put_place(&call, row);
    put_int(&call, row->keep_awake);
    put_int(&call, row->deadline_ms);
    put_end(&call, row);
    put_int(&call, row->started_ms);
    put_int(&call, row->ended_ms);
    put_text(&call, row->tty);
    put_text(&call, row->note);
    if (call_run(&call, err) < 0) {
        if (call_is_orphan(&call))
            return err_set(err, ERR_NOT_FOUND, "this sandbox is gone");
        if (call_is_conflict(&call))
            return err_set(err, ERR_CONFLICT, "there is a process with this id already");
        return -1;
    }
    row->log = sqlite3_last_insert_rowid(db->sql);
    return 0;
}

int db_process_get(struct db *db, int64_t sandbox, const char *id, struct process_row *ret,
                   struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_PROCESS_GET,
                   "SELECT " COLUMNS " FROM processes WHERE sandbox = ? AND id = ?", err) < 0)
        return -1;
    put_int(&call, sandbox);
    put_text(&call, id);
    return call_row(&call, &kind, ret, err);
}

int db_process_started(struct db *db, const struct process_row *row, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_PROCESS_STARTED,
                   "UPDATE processes SET box = ?, exec = ?, pid = ?, started_ms = ?"
                   " WHERE sandbox = ? AND id = ?",
                   err) < 0)
        return -1;
    put_place(&call, row);
    put_int(&call, row->started_ms);
    put_int(&call, row->sandbox);
    put_text(&call, row->id);
    return call_run_one(&call, "process", err);
}

int db_process_end(struct db *db, const struct process_row *row, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_PROCESS_END,
                   "UPDATE processes SET reason = ?, exit_code = ?, signal = ?, limits = ?,"
                   " cpu_usec = ?, memory_peak = ?, ended_ms = ? WHERE sandbox = ? AND id = ?",
                   err) < 0)
        return -1;
    put_end(&call, row);
    put_int(&call, row->ended_ms);
    put_int(&call, row->sandbox);
    put_text(&call, row->id);
    return call_run_one(&call, "process", err);
}

int db_process_del(struct db *db, int64_t sandbox, const char *id, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_PROCESS_DEL,
                   "DELETE FROM processes WHERE sandbox = ? AND id = ?", err) < 0)
        return -1;
    put_int(&call, sandbox);
    put_text(&call, id);
    return call_run(&call, err);
}

// -- all of a sandbox; their logs are numbered in the order in which they came

struct list {
    struct db *db;
    int64_t sandbox;
    db_process_fn fn;
    void *data;
};

static int page(void *arg, const void *last, unsigned max, struct call *call, struct err *err)
{
    const struct list *list = arg;
    const struct process_row *row = last;
    if (call_start(call, list->db, STMT_PROCESS_PAGE,
                   "SELECT " COLUMNS " FROM processes WHERE sandbox = ? AND log > ?"
                   " ORDER BY log LIMIT ?",
                   err) < 0)
        return -1;
    put_int(call, list->sandbox);
    put_int(call, row != NULL ? row->log : 0);
    put_int(call, max);
    return 0;
}

static int visit(void *arg, const void *row)
{
    const struct list *list = arg;
    return list->fn(list->data, row);
}

int db_process_each(struct db *db, int64_t sandbox, db_process_fn fn, void *data, struct err *err)
{
    static const struct walk walk = {&kind, page, visit};
    struct list list = {db, sandbox, fn, data};
    return db_walk(&walk, &list, 0, err);
}
