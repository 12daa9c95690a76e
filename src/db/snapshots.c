// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "db/db-internal.h"

#define COLUMNS                                                                                    \
    "snapshots.number, snapshots.sandbox, snapshots.id, snapshots.name, snapshots.state,"          \
    " snapshots.bytes, snapshots.disk, snapshots.own, snapshots.env, snapshots.sessions, snapshots.created_ms"

void snapshot_row_done(struct snapshot_row *row)
{
    free(row->id);
    free(row->name);
    free(row->env);
    free(row->sessions);
    *row = (struct snapshot_row){0};
}

static void read_row(struct call *call, void *ret_row)
{
    struct snapshot_row *row = ret_row;
    row->number = get_int(call);
    row->sandbox = get_int(call);
    row->id = get_text(call);
    row->name = get_text(call);
    row->state = (enum snapshot_state)get_int(call);
    row->bytes = get_int(call);
    row->disk = get_int(call);
    row->own = get_int(call);
    row->env = get_text(call);
    row->sessions = get_text(call);
    row->created_ms = get_int(call);
}

static void row_done(void *row)
{
    snapshot_row_done(row);
}

static const struct row_kind kind = {sizeof(struct snapshot_row), read_row, row_done};

// -- one

int db_snapshot_add(struct db *db, struct snapshot_row *row, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SNAPSHOT_ADD,
                   "INSERT INTO snapshots (sandbox, id, name, state, bytes, disk, own, env,"
                   " sessions, created_ms) VALUES (?,?,?,?,?,?,?,?,?,?)",
                   err) < 0)
        return -1;
    put_int(&call, row->sandbox);
    put_text(&call, row->id);
    put_text(&call, row->name);
    put_int(&call, row->state);
    put_int(&call, row->bytes);
    put_int(&call, row->disk);
    put_int(&call, row->own);
    put_text(&call, row->env != NULL ? row->env : "{}");
    put_text(&call, row->sessions != NULL ? row->sessions : "[]");
    put_int(&call, row->created_ms);
    if (call_run(&call, err) < 0)
        return call_is_orphan(&call) ? err_set(err, ERR_NOT_FOUND, "this sandbox is gone") : -1;
    row->number = sqlite3_last_insert_rowid(db->sql);
    return 0;
}

int db_snapshot_ready(struct db *db, const struct snapshot_row *row, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SNAPSHOT_READY,
                   "UPDATE snapshots SET state = ?, bytes = ?, disk = ?, own = ? WHERE number = ?",
                   err) < 0)
        return -1;
    put_int(&call, SNAPSHOT_READY);
    put_int(&call, row->bytes);
    put_int(&call, row->disk);
    put_int(&call, row->own);
    put_int(&call, row->number);
    return call_run_one(&call, "snapshot", err);
}

int db_snapshot_get(struct db *db, int64_t sandbox, const char *id, struct snapshot_row *ret,
                    struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SNAPSHOT_GET,
                   "SELECT " COLUMNS " FROM snapshots WHERE id = ? AND sandbox = ?", err) < 0)
        return -1;
    put_text(&call, id);
    put_int(&call, sandbox);
    return call_row(&call, &kind, ret, err);
}

int db_snapshot_find(struct db *db, int64_t tenant, const char *id, struct snapshot_row *ret,
                     struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SNAPSHOT_FIND,
                   "SELECT " COLUMNS " FROM snapshots"
                   " JOIN sandboxes ON sandboxes.number = snapshots.sandbox"
                   " WHERE snapshots.id = ? AND snapshots.state = ? AND sandboxes.tenant = ?",
                   err) < 0)
        return -1;
    put_text(&call, id);
    put_int(&call, SNAPSHOT_READY);
    put_int(&call, tenant);
    return call_row(&call, &kind, ret, err);
}

int db_snapshot_del(struct db *db, int64_t number, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SNAPSHOT_DEL, "DELETE FROM snapshots WHERE number = ?", err) < 0)
        return -1;
    put_int(&call, number);
    return call_delete(&call, err);
}

// -- many

struct list {
    struct db *db;
    int64_t sandbox;
    db_snapshot_fn fn;
    void *data;
};

static int page(void *arg, const void *last, unsigned max, struct call *call, struct err *err)
{
    const struct list *list = arg;
    const struct snapshot_row *row = last;
    bool is_all = list->sandbox == 0;
    if (call_start(call, list->db, is_all ? STMT_SNAPSHOT_PAGE_ALL : STMT_SNAPSHOT_PAGE,
                   is_all ? "SELECT " COLUMNS " FROM snapshots WHERE number > ?1"
                            " ORDER BY number LIMIT ?2"
                          : "SELECT " COLUMNS " FROM snapshots WHERE number > ?1"
                            " AND sandbox = ?3 ORDER BY number LIMIT ?2",
                   err) < 0)
        return -1;
    put_int(call, row != NULL ? row->number : 0);
    put_int(call, max);
    if (!is_all)
        put_int(call, list->sandbox);
    return 0;
}

static int visit(void *arg, const void *row)
{
    const struct list *list = arg;
    return list->fn(list->data, row);
}

int db_snapshot_each(struct db *db, int64_t sandbox, db_snapshot_fn fn, void *data, struct err *err)
{
    static const struct walk walk = {&kind, page, visit};
    struct list list = {db, sandbox, fn, data};
    return db_walk(&walk, &list, 0, err);
}

int db_snapshot_count(struct db *db, int64_t sandbox, int64_t *ret, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SNAPSHOT_COUNT,
                   "SELECT count(*) FROM snapshots WHERE sandbox = ?", err) < 0)
        return -1;
    put_int(&call, sandbox);
    if (call_step(&call, err) < 0)
        return -1;
    *ret = get_int(&call);
    return call_check(&call, err);
}

int db_snapshot_held(struct db *db, int64_t sandbox, int64_t *ret, struct err *err)
{
    auto_call call;
    // Those of one disk share what it has written: the one that has most of it has all.
    if (call_start(&call, db, STMT_SNAPSHOT_HELD,
                   "SELECT coalesce(sum(own), 0) FROM (SELECT max(own) AS own FROM snapshots"
                   " WHERE sandbox = ? GROUP BY disk)",
                   err) < 0)
        return -1;
    put_int(&call, sandbox);
    if (call_step(&call, err) < 0)
        return -1;
    *ret = get_int(&call);
    return call_check(&call, err);
}

int db_snapshot_forget_making(struct db *db, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SNAPSHOT_FORGET, "DELETE FROM snapshots WHERE state = ?", err) <
        0)
        return -1;
    put_int(&call, SNAPSHOT_MAKING);
    return call_run(&call, err);
}
