// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "db/db-internal.h"

#define COLUMNS "ports.sandbox, ports.port, ports.name, ports.token, ports.created_ms"

void port_row_done(struct port_row *row)
{
    free(row->name);
    free(row->token);
    *row = (struct port_row){0};
}

static void read_row(struct call *call, void *ret_row)
{
    struct port_row *row = ret_row;
    row->sandbox = get_int(call);
    row->port = get_int(call);
    row->name = get_text(call);
    row->token = get_text(call);
    row->created_ms = get_int(call);
}

static void row_done(void *row)
{
    port_row_done(row);
}

static const struct row_kind kind = {sizeof(struct port_row), read_row, row_done};

// -- one

int db_port_put(struct db *db, const struct port_row *row, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_PORT_PUT,
                   "INSERT INTO ports (sandbox, port, name, token, created_ms)"
                   " VALUES (?, ?, ?, ?, ?) ON CONFLICT (sandbox, port)"
                   " DO UPDATE SET name = excluded.name, token = excluded.token",
                   err) < 0)
        return -1;
    put_int(&call, row->sandbox);
    put_int(&call, row->port);
    put_text(&call, row->name);
    put_text(&call, row->token);
    put_int(&call, row->created_ms);
    if (call_run(&call, err) < 0)
        return call_is_orphan(&call) ? err_set(err, ERR_NOT_FOUND, "this sandbox is gone") : -1;
    return db_sync(db, err);
}

int db_port_get(struct db *db, int64_t sandbox, int64_t port, struct port_row *ret, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_PORT_GET,
                   "SELECT " COLUMNS " FROM ports WHERE sandbox = ? AND port = ?", err) < 0)
        return -1;
    put_int(&call, sandbox);
    put_int(&call, port);
    return call_row(&call, &kind, ret, err);
}

int db_port_del(struct db *db, int64_t sandbox, int64_t port, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_PORT_DEL, "DELETE FROM ports WHERE sandbox = ? AND port = ?",
                   err) < 0)
        return -1;
    put_int(&call, sandbox);
    put_int(&call, port);
    return call_delete(&call, err);
}

// -- many

struct list {
    struct db *db;
    int64_t sandbox;
    db_port_fn fn;
    void *data;
};

static int page(void *arg, const void *last, unsigned max, struct call *call, struct err *err)
{
    const struct list *list = arg;
    const struct port_row *row = last;
    if (call_start(call, list->db, STMT_PORT_PAGE,
                   "SELECT " COLUMNS " FROM ports WHERE sandbox = ? AND port > ?"
                   " ORDER BY port LIMIT ?",
                   err) < 0)
        return -1;
    put_int(call, list->sandbox);
    put_int(call, row != NULL ? row->port : 0);
    put_int(call, max);
    return 0;
}

static int visit(void *arg, const void *row)
{
    const struct list *list = arg;
    return list->fn(list->data, row);
}

int db_port_each(struct db *db, int64_t sandbox, db_port_fn fn, void *data, struct err *err)
{
    static const struct walk walk = {&kind, page, visit};
    struct list list = {db, sandbox, fn, data};
    return db_walk(&walk, &list, 0, err);
}
