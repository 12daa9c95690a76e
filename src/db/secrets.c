// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "db/db-internal.h"

#define COLUMNS "tenant, name, upstream, header, format, sealed, created_ms, updated_ms"

void secret_row_done(struct secret_row *row)
{
    free(row->name);
    free(row->upstream);
    free(row->header);
    free(row->format);
    free(row->sealed);
    *row = (struct secret_row){0};
}

static void read_row(struct call *call, void *ret_row)
{
    struct secret_row *row = ret_row;
    row->tenant = get_int(call);
    row->name = get_text(call);
    row->upstream = get_text(call);
    row->header = get_text(call);
    row->format = get_text(call);
    row->sealed = (uint8_t *)get_blob(call, &row->sealed_len);
    row->created_ms = get_int(call);
    row->updated_ms = get_int(call);
}

static void row_done(void *row)
{
    secret_row_done(row);
}

static const struct row_kind kind = {sizeof(struct secret_row), read_row, row_done};

// -- one

int db_secret_put(struct db *db, const struct secret_row *row, struct err *err)
{
    static const char text[] =
        "INSERT INTO secrets (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (tenant, name) DO UPDATE SET upstream = excluded.upstream,"
        "  header = excluded.header, format = excluded.format, sealed = excluded.sealed,"
        "  updated_ms = excluded.updated_ms";
    struct secret_row old = {0};
    int was_there = db_secret_get(db, row->tenant, row->name, &old, err);
    secret_row_done(&old);
    auto_call call = {0};
    if (was_there < 0 || call_start(&call, db, STMT_SECRET_PUT, text, err) < 0)
        return -1;
    put_int(&call, row->tenant);
    put_text(&call, row->name);
    put_text(&call, row->upstream);
    put_text(&call, row->header);
    put_text(&call, row->format);
    put_blob(&call, row->sealed, row->sealed_len);
    put_int(&call, row->created_ms);
    put_int(&call, row->updated_ms);
    if (call_run(&call, err) < 0) {
        if (call_is_orphan(&call))
            return err_set(err, ERR_NOT_FOUND, "there is no such tenant");
        return -1;
    }
    return db_sync(db, err) < 0 ? -1 : !was_there;
}

int db_secret_get(struct db *db, int64_t tenant, const char *name, struct secret_row *ret,
                  struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SECRET_GET,
                   "SELECT " COLUMNS " FROM secrets WHERE tenant = ? AND name = ?", err) < 0)
        return -1;
    put_int(&call, tenant);
    put_text(&call, name);
    return call_row(&call, &kind, ret, err);
}

int db_secret_del(struct db *db, int64_t tenant, const char *name, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SECRET_DEL, "DELETE FROM secrets WHERE tenant = ? AND name = ?",
                   err) < 0)
        return -1;
    put_int(&call, tenant);
    put_text(&call, name);
    return call_delete(&call, err);
}

// -- many

struct list {
    struct db *db;
    int64_t tenant;
    db_secret_fn fn;
    void *data;
};

static int page(void *arg, const void *last, unsigned max, struct call *call, struct err *err)
{
    const struct list *list = arg;
    const struct secret_row *row = last;
    if (call_start(call, list->db, STMT_SECRET_PAGE,
                   "SELECT " COLUMNS " FROM secrets WHERE (tenant, name) > (?1, ?2)"
                   " AND (?3 = 0 OR tenant = ?3) ORDER BY tenant, name LIMIT ?4",
                   err) < 0)
        return -1;
    put_int(call, row != NULL ? row->tenant : list->tenant);
    put_text(call, row != NULL ? row->name : "");
    put_int(call, list->tenant);
    put_int(call, max);
    return 0;
}

static int visit(void *arg, const void *row)
{
    const struct list *list = arg;
    return list->fn(list->data, row);
}

int db_secret_each(struct db *db, int64_t tenant, db_secret_fn fn, void *data, struct err *err)
{
    static const struct walk walk = {&kind, page, visit};
    struct list list = {db, tenant, fn, data};
    return db_walk(&walk, &list, 0, err);
}
