// SPDX-License-Identifier: Apache-2.0
// Idempotency keys. A key is taken by inserting its row: one statement, so that two requests cannot
// both have it, and a daemon that dies leaves a row without an answer.
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "db/db-internal.h"

static void put_key(struct call *call, const struct idem_row *row)
{
    put_int(call, row->tenant);
    put_text(call, row->key);
}

// 1 when the key was free.
static int insert(struct db *db, const struct idem_row *row, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_IDEM_TAKE,
                   "INSERT INTO idem (tenant, key, request, run, taken_ms) VALUES (?, ?, ?, ?, ?)"
                   " ON CONFLICT DO NOTHING",
                   err) < 0)
        return -1;
    put_key(&call, row);
    put_blob(&call, row->request, sizeof row->request);
    put_int(&call, row->run);
    put_int(&call, db_now_ms());
    return call_run(&call, err) < 0 ? -1 : sqlite3_changes(db->sql) == 1;
}

static int look(struct call *call, struct idem_row *row, enum idem_state *ret, struct err *err)
{
    size_t request_len, body_len;
    auto_free char *request = get_blob(call, &request_len);
    int64_t run = get_int(call), status = get_int(call);
    bool is_done = sqlite3_column_type(call->stmt, call->next_get - 1) != SQLITE_NULL;
    char *body = get_blob(call, &body_len);
    bool is_same = request != NULL && request_len == sizeof row->request &&
                   memcmp(request, row->request, sizeof row->request) == 0;
    if (call_check(call, err) < 0 || !is_same || !is_done) {
        free(body);
        if (call->rc != SQLITE_OK)
            return -1;
        *ret = !is_same ? IDEM_OTHER : run == row->run ? IDEM_RUNNING : IDEM_UNKNOWN;
        return 0;
    }
    row->status = (unsigned)status;
    row->body = body;
    row->body_len = body_len;
    *ret = IDEM_DONE;
    return 0;
}

int db_idem_take(struct db *db, struct idem_row *row, enum idem_state *ret, struct err *err)
{
    auto_call call = {0};
    int r = insert(db, row, err);
    if (r < 0)
        return -1;
    if (r > 0) {
        *ret = IDEM_NEW;
        return 0;
    }
    if (call_start(&call, db, STMT_IDEM_GET,
                   "SELECT request, run, status, body FROM idem WHERE tenant = ? AND key = ?",
                   err) < 0)
        return -1;
    put_key(&call, row);
    r = call_step(&call, err);
    if (r == 0) // only this thread deletes them
        return err_set(err, ERR_INTERNAL, "an idempotency key came and went");
    return r < 0 ? -1 : look(&call, row, ret, err);
}

int db_idem_done(struct db *db, const struct idem_row *row, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_IDEM_DONE,
                   "UPDATE idem SET status = ?, body = ?"
                   " WHERE tenant = ? AND key = ? AND request = ?",
                   err) < 0)
        return -1;
    put_int(&call, row->status);
    put_blob(&call, row->body, row->body_len);
    put_key(&call, row);
    put_blob(&call, row->request, sizeof row->request);
    return call_run(&call, err);
}

int db_idem_drop(struct db *db, const struct idem_row *row, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_IDEM_DROP,
                   "DELETE FROM idem WHERE tenant = ? AND key = ? AND request = ? AND run = ?"
                   " AND status IS NULL",
                   err) < 0)
        return -1;
    put_key(&call, row);
    put_blob(&call, row->request, sizeof row->request);
    put_int(&call, row->run);
    return call_run(&call, err);
}

int db_idem_expire(struct db *db, int64_t before_ms, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_IDEM_EXPIRE, "DELETE FROM idem WHERE taken_ms < ?", err) < 0)
        return -1;
    put_int(&call, before_ms);
    return call_run(&call, err);
}
