// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "db/db-internal.h"

#define COLUMNS "id, hash, sandbox, token, rate, created_ms, expires_ms"

static void read_row(struct call *call, void *ret_row)
{
    struct url_row *row = ret_row;
    size_t len;
    auto_free char *id = get_text(call);
    auto_free char *hash = get_blob(call, &len);
    (void)snprintf(row->id, sizeof row->id, "%s", id != NULL ? id : "");
    if (len == sizeof row->hash)
        memcpy(row->hash, hash, len);
    row->sandbox = get_int(call);
    auto_free char *token = get_text(call);
    (void)snprintf(row->token, sizeof row->token, "%s", token != NULL ? token : "");
    row->rate = get_int(call);
    row->created_ms = get_int(call);
    row->expires_ms = get_int(call);
}

static void row_done(void *row)
{
    (void)row;
}

static const struct row_kind kind = {sizeof(struct url_row), read_row, row_done};

int db_url_add(struct db *db, const struct url_row *row, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_URL_ADD,
                   "INSERT INTO urls (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?)", err) < 0)
        return -1;
    put_text(&call, row->id);
    put_blob(&call, row->hash, sizeof row->hash);
    put_int(&call, row->sandbox);
    put_text(&call, row->token[0] != '\0' ? row->token : NULL);
    put_int(&call, row->rate);
    put_int(&call, row->created_ms);
    put_int(&call, row->expires_ms);
    if (call_run(&call, err) < 0)
        return call_is_orphan(&call) ? err_set(err, ERR_NOT_FOUND, "this sandbox is gone") : -1;
    return db_sync(db, err);
}

int db_url_by_hash(struct db *db, const uint8_t *hash, struct url_row *ret, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_URL_BY_HASH, "SELECT " COLUMNS " FROM urls WHERE hash = ?",
                   err) < 0)
        return -1;
    put_blob(&call, hash, DB_TOKEN_HASH);
    return call_row(&call, &kind, ret, err);
}

int db_url_del(struct db *db, int64_t sandbox, const char *id, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_URL_DEL, "DELETE FROM urls WHERE sandbox = ? AND id = ?", err) <
        0)
        return -1;
    put_int(&call, sandbox);
    put_text(&call, id);
    return call_delete(&call, err);
}

int db_url_expire(struct db *db, int64_t now_ms, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_URL_EXPIRE,
                   "DELETE FROM urls WHERE expires_ms > 0 AND expires_ms <= ?", err) < 0)
        return -1;
    put_int(&call, now_ms);
    return call_run(&call, err);
}

int db_url_forget_nobodys(struct db *db, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_URL_FORGET_NOBODYS, "DELETE FROM urls WHERE token IS NULL",
                   err) < 0)
        return -1;
    return call_run(&call, err) < 0 ? -1 : db_sync(db, err);
}

// -- many

struct list {
    struct db *db;
    int64_t sandbox;
    db_url_fn fn;
    void *data;
};

static int page(void *arg, const void *last, unsigned max, struct call *call, struct err *err)
{
    const struct list *list = arg;
    const struct url_row *row = last;
    if (call_start(call, list->db, STMT_URL_PAGE,
                   "SELECT " COLUMNS " FROM urls WHERE sandbox = ? AND (created_ms, id) > (?, ?)"
                   " ORDER BY created_ms, id LIMIT ?",
                   err) < 0)
        return -1;
    put_int(call, list->sandbox);
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

int db_url_each(struct db *db, int64_t sandbox, db_url_fn fn, void *data, struct err *err)
{
    static const struct walk walk = {&kind, page, visit};
    struct list list = {db, sandbox, fn, data};
    return db_walk(&walk, &list, 0, err);
}
