// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "db/db-internal.h"

#define COLUMNS "id, hash, tenant, admin, name, rate, created_ms"

void token_row_done(struct token_row *row)
{
    free(row->name);
    *row = (struct token_row){0};
}

static void read_row(struct call *call, void *ret_row)
{
    struct token_row *row = ret_row;
    size_t len;
    auto_free char *id = get_text(call);
    auto_free char *hash = get_blob(call, &len);
    (void)snprintf(row->id, sizeof row->id, "%s", id != NULL ? id : "");
    if (len == sizeof row->hash)
        memcpy(row->hash, hash, len);
    row->tenant = get_int(call);
    row->admin = get_bool(call);
    row->name = get_text(call);
    row->rate = get_int(call);
    row->created_ms = get_int(call);
}

static void row_done(void *row)
{
    token_row_done(row);
}

static const struct row_kind kind = {sizeof(struct token_row), read_row, row_done};

int db_token_add(struct db *db, const struct token_row *row, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_TOKEN_ADD,
                   "INSERT INTO tokens (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?)", err) < 0)
        return -1;
    put_text(&call, row->id);
    put_blob(&call, row->hash, sizeof row->hash);
    put_int(&call, row->tenant);
    put_int(&call, row->admin);
    put_text(&call, row->name != NULL ? row->name : "");
    put_int(&call, row->rate);
    put_int(&call, row->created_ms);
    if (call_run(&call, err) < 0) {
        if (call_is_orphan(&call))
            return err_set(err, ERR_NOT_FOUND, "there is no such tenant");
        if (call_is_conflict(&call))
            return err_set(err, ERR_CONFLICT, "this token exists already");
        return -1;
    }
    return db_sync(db, err);
}

int db_token_by_hash(struct db *db, const uint8_t *hash, struct token_row *ret, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_TOKEN_BY_HASH, "SELECT " COLUMNS " FROM tokens WHERE hash = ?",
                   err) < 0)
        return -1;
    put_blob(&call, hash, DB_TOKEN_HASH);
    return call_row(&call, &kind, ret, err);
}

int db_token_by_id(struct db *db, const char *id, struct token_row *ret, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_TOKEN_BY_ID, "SELECT " COLUMNS " FROM tokens WHERE id = ?",
                   err) < 0)
        return -1;
    put_text(&call, id);
    return call_row(&call, &kind, ret, err);
}

int db_token_revoke(struct db *db, const char *id, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_TOKEN_REVOKE, "DELETE FROM tokens WHERE id = ?", err) < 0)
        return -1;
    put_text(&call, id);
    return call_delete(&call, err);
}

// -- all of them, oldest first

struct list {
    struct db *db;
    db_token_fn fn;
    void *data;
};

static int page(void *arg, const void *last, unsigned max, struct call *call, struct err *err)
{
    const struct list *list = arg;
    const struct token_row *row = last;
    if (call_start(call, list->db, STMT_TOKEN_PAGE,
                   "SELECT " COLUMNS " FROM tokens WHERE (created_ms, id) > (?, ?)"
                   " ORDER BY created_ms, id LIMIT ?",
                   err) < 0)
        return -1;
    put_int(call, row != NULL ? row->created_ms : INT64_MIN);
    put_text(call, row != NULL ? row->id : "");
    put_int(call, max);
    return 0;
}

static int visit(void *arg, const void *row)
{
    const struct list *list = arg;
    return list->fn(list->data, row);
}

int db_token_each(struct db *db, db_token_fn fn, void *data, struct err *err)
{
    static const struct walk walk = {&kind, page, visit};
    struct list list = {db, fn, data};
    return db_walk(&walk, &list, 0, err);
}
