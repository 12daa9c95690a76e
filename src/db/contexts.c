// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "db/db-internal.h"

#define COLUMNS                                                                                    \
    "sandbox, id, language, cwd, env, timeout_ms, is_default, box, exec, ended, numbers, cell,"    \
    " deadline_ms, created_ms, used_ms"

void context_row_done(struct context_row *row)
{
    free(row->id);
    free(row->language);
    free(row->cwd);
    free(row->env);
    free(row->end);
    *row = (struct context_row){0};
}

static void read_row(struct call *call, void *ret_row)
{
    struct context_row *row = ret_row;
    row->sandbox = get_int(call);
    row->id = get_text(call);
    row->language = get_text(call);
    row->cwd = get_text(call);
    row->env = get_text(call);
    row->timeout_ms = get_int(call);
    row->is_default = get_int(call);
    row->box = get_int(call);
    row->exec = get_int(call);
    row->end = get_text(call);
    row->numbers = get_int(call);
    row->cell = get_int(call);
    row->deadline_ms = get_int(call);
    row->created_ms = get_int(call);
    row->used_ms = get_int(call);
}

static void row_done(void *row)
{
    context_row_done(row);
}

static const struct row_kind kind = {sizeof(struct context_row), read_row, row_done};

int db_context_put(struct db *db, const struct context_row *row, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_CONTEXT_PUT,
                   "REPLACE INTO contexts (" COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                   err) < 0)
        return -1;
    put_int(&call, row->sandbox);
    put_text(&call, row->id);
    put_text(&call, row->language);
    put_text(&call, row->cwd);
    put_text(&call, row->env != NULL ? row->env : "{}");
    put_int(&call, row->timeout_ms);
    put_int(&call, row->is_default);
    put_int(&call, row->box);
    put_int(&call, row->exec);
    put_text(&call, row->end != NULL ? row->end : "");
    put_int(&call, row->numbers);
    put_int(&call, row->cell);
    put_int(&call, row->deadline_ms);
    put_int(&call, row->created_ms);
    put_int(&call, row->used_ms);
    if (call_run(&call, err) == 0)
        return 0;
    return call_is_orphan(&call) ? err_set(err, ERR_NOT_FOUND, "this sandbox is gone") : -1;
}

int db_context_del(struct db *db, int64_t sandbox, const char *id, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_CONTEXT_DEL, "DELETE FROM contexts WHERE sandbox = ? AND id = ?",
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
    db_context_fn fn;
    void *data;
};

static int page(void *arg, const void *last, unsigned max, struct call *call, struct err *err)
{
    const struct list *list = arg;
    const struct context_row *row = last;
    if (call_start(call, list->db, STMT_CONTEXT_PAGE,
                   "SELECT " COLUMNS " FROM contexts WHERE sandbox = ? AND id > ?"
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

int db_context_each(struct db *db, int64_t sandbox, db_context_fn fn, void *data, struct err *err)
{
    static const struct walk walk = {&kind, page, visit};
    struct list list = {db, sandbox, fn, data};
    return db_walk(&walk, &list, 0, err);
}
