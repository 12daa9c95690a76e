// SPDX-License-Identifier: Apache-2.0
// What is to go from the store, and what the rows say is in it.
#include <stdlib.h>

#include "db/db-internal.h"

void doomed_row_done(struct doomed_row *row)
{
    free(row->key);
    *row = (struct doomed_row){0};
}

static void read_row(struct call *call, void *ret_row)
{
    struct doomed_row *row = ret_row;
    row->seq = get_int(call);
    row->key = get_text(call);
}

static void row_done(void *row)
{
    doomed_row_done(row);
}

static const struct row_kind kind = {sizeof(struct doomed_row), read_row, row_done};

int db_doomed_add(struct db *db, const char *key, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_DOOMED_ADD, "INSERT INTO doomed (key) VALUES (?)", err) < 0)
        return -1;
    put_text(&call, key);
    return call_run(&call, err);
}

int db_doomed_next(struct db *db, int64_t after, struct doomed_row *ret, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_DOOMED_NEXT,
                   "SELECT seq, key FROM doomed WHERE seq > ? ORDER BY seq LIMIT 1", err) < 0)
        return -1;
    put_int(&call, after);
    return call_row(&call, &kind, ret, err);
}

int db_doomed_del(struct db *db, int64_t seq, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_DOOMED_DEL, "DELETE FROM doomed WHERE seq = ?", err) < 0)
        return -1;
    put_int(&call, seq);
    return call_run(&call, err);
}

// -- sums

int db_stored_sums(struct db *db, int64_t tenant, struct stored_sums *ret, struct err *err)
{
    static const char text[] =
        "SELECT"
        " (SELECT coalesce(sum(bytes), 0) FROM syncs WHERE ?1 = 0 OR tenant = ?1),"
        " coalesce(sum(size) FILTER (WHERE kind <> 'archive'), 0),"
        " coalesce(sum(size) FILTER (WHERE kind = 'archive'), 0),"
        " (SELECT coalesce(sum(size), 0) FROM results WHERE stored <> 0 AND (?1 = 0 OR tenant = ?1))"
        " FROM backups WHERE ?1 = 0 OR tenant = ?1";
    auto_call call;
    if (call_start(&call, db, STMT_STORED_SUMS, text, err) < 0)
        return -1;
    put_int(&call, tenant);
    if (call_step(&call, err) < 0)
        return -1;
    ret->workspaces = get_int(&call);
    ret->backups = get_int(&call);
    ret->archives = get_int(&call);
    ret->results = get_int(&call);
    return 0;
}
