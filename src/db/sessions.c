// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "db/db-internal.h"

#define COLUMNS "sandbox, id, cwd, env, box, exec, timeout_ms, created_ms, used_ms"

void session_row_done(struct session_row *row)
{
    free(row->id);
    free(row->cwd);
    free(row->env);
    *row = (struct session_row){0};
}

static void read_row(struct call *call, void *ret_row)
{
    struct session_row *row = ret_row;
    row->sandbox = get_int(call);
    row->id = get_text(call);
    row->cwd = get_text(call);
    row->env = get_text(call);
    row->box = get_int(call);
    row->exec = get_int(call);
    row->timeout_ms = get_int(call);
    row->created_ms = get_int(call);
    row->used_ms = get_int(call);
}

static void row_done(void *row)
{
    session_row_done(row);
}

static const struct row_kind kind = {sizeof(struct session_row), read_row, row_done};

int db_session_put(struct db *db, const struct session_row *row, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SESSION_PUT,
                   "REPLACE INTO sessions (" COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?)", err) < 0)
        return -1;
    put_int(&call, row->sandbox);
    put_text(&call, row->id);
    put_text(&call, row->cwd);
    put_text(&call, row->env != NULL ? row->env : "{}");
    put_int(&call, row->box);
    put_int(&call, row->exec);
    put_int(&call, row->timeout_ms);
    put_int(&call, row->created_ms);
    put_int(&call, row->used_ms);
    if (call_run(&call, err) == 0)
        return 0;
    return call_is_orphan(&call) ? err_set(err, ERR_NOT_FOUND, "this sandbox is gone") : -1;
}

int db_session_get(struct db *db, int64_t sandbox, const char *id, struct session_row *ret,
                   struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SESSION_GET,
                   "SELECT " COLUMNS " FROM sessions WHERE sandbox = ? AND id = ?", err) < 0)
        return -1;
    put_int(&call, sandbox);
    put_text(&call, id);
    return call_row(&call, &kind, ret, err);
}

int db_session_del(struct db *db, int64_t sandbox, const char *id, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SESSION_DEL, "DELETE FROM sessions WHERE sandbox = ? AND id = ?",
                   err) < 0)
        return -1;
    put_int(&call, sandbox);
    put_text(&call, id);
    return call_run(&call, err) < 0 ? -1 : sqlite3_changes(db->sql) != 0;
}

// -- all of a sandbox, by id

struct list {
    struct db *db;
    int64_t sandbox;
    db_session_fn fn;
    void *data;
};

static int page(void *arg, const void *last, unsigned max, struct call *call, struct err *err)
{
    const struct list *list = arg;
    const struct session_row *row = last;
    if (call_start(call, list->db, STMT_SESSION_PAGE,
                   "SELECT " COLUMNS " FROM sessions WHERE sandbox = ? AND id > ?"
                   " ORDER BY id LIMIT ?",
                   err) < 0)
        return -1;
    put_int(call, list->sandbox);
    put_text(call, row != NULL ? row->id : "");
    put_int(call, max);
    return 0;
}

static int visit(void *arg, const void *row)
{
    const struct list *list = arg;
    return list->fn(list->data, row);
}

int db_session_each(struct db *db, int64_t sandbox, db_session_fn fn, void *data, struct err *err)
{
    static const struct walk walk = {&kind, page, visit};
    struct list list = {db, sandbox, fn, data};
    return db_walk(&walk, &list, 0, err);
}
