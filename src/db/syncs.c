// SPDX-License-Identifier: Apache-2.0
// What of a workspace is in the store. A row is of a tenant and the id of a sandbox, and outlives
// the sandbox: so does what is stored.
#include <stdlib.h>

#include "db/db-internal.h"

#define COLUMNS                                                                                    \
    "tenant, sandbox, state, run, options, files, bytes, put, put_bytes, deleted, error, tries,"   \
    " again_ms, started_ms, ended_ms, synced_ms, seen"

void sync_row_done(struct sync_row *row)
{
    free(row->sandbox);
    free(row->options);
    free(row->error);
    free(row->seen);
    *row = (struct sync_row){0};
}

static void read_row(struct call *call, void *ret_row)
{
    struct sync_row *row = ret_row;
    row->tenant = get_int(call);
    row->sandbox = get_text(call);
    row->state = (enum sync_state)get_int(call);
    row->run = get_int(call);
    row->options = get_text(call);
    row->files = get_int(call);
    row->bytes = get_int(call);
    row->put = get_int(call);
    row->put_bytes = get_int(call);
    row->deleted = get_int(call);
    row->error = get_text(call);
    row->tries = get_int(call);
    row->again_ms = get_int(call);
    row->started_ms = get_int(call);
    row->ended_ms = get_int(call);
    row->synced_ms = get_int(call);
    row->seen = get_text(call);
}

static void put_row(struct call *call, const struct sync_row *row)
{
    put_int(call, row->tenant);
    put_text(call, row->sandbox);
    put_int(call, row->state);
    put_int(call, row->run);
    put_text(call, row->options != NULL ? row->options : "{}");
    put_int(call, row->files);
    put_int(call, row->bytes);
    put_int(call, row->put);
    put_int(call, row->put_bytes);
    put_int(call, row->deleted);
    put_text(call, row->error);
    put_int(call, row->tries);
    put_int(call, row->again_ms);
    put_int(call, row->started_ms);
    put_int(call, row->ended_ms);
    put_int(call, row->synced_ms);
    put_text(call, row->seen);
}

static void row_done(void *row)
{
    sync_row_done(row);
}

static const struct row_kind kind = {sizeof(struct sync_row), read_row, row_done};

// -- one

int db_sync_put(struct db *db, const struct sync_row *row, struct err *err)
{
    static const char text[] = "INSERT OR REPLACE INTO syncs (" COLUMNS ") VALUES"
                               " (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
    auto_call call;
    if (call_start(&call, db, STMT_SYNC_PUT, text, err) < 0)
        return -1;
    put_row(&call, row);
    if (call_run(&call, err) == 0)
        return 0;
    if (call_is_orphan(&call))
        return err_set(err, ERR_NOT_FOUND, "there is no such tenant");
    return -1;
}

int db_sync_get(struct db *db, int64_t tenant, const char *sandbox, struct sync_row *ret,
                struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SYNC_GET,
                   "SELECT " COLUMNS " FROM syncs WHERE tenant = ? AND sandbox = ?", err) < 0)
        return -1;
    put_int(&call, tenant);
    put_text(&call, sandbox);
    return call_row(&call, &kind, ret, err);
}

int db_sync_del(struct db *db, int64_t tenant, const char *sandbox, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SYNC_DEL, "DELETE FROM syncs WHERE tenant = ? AND sandbox = ?",
                   err) < 0)
        return -1;
    put_int(&call, tenant);
    put_text(&call, sandbox);
    return call_delete(&call, err);
}

int db_sync_restored(struct db *db, const struct sync_row *row, bool was_there, struct err *err)
{
    int r = was_there ? db_sync_put(db, row, err) : db_sync_del(db, row->tenant, row->sandbox, err);
    return r < 0 ? -1 : db_sync(db, err);
}

// -- many

struct list {
    struct db *db;
    const struct sync_query *query;
    db_sync_fn fn;
    void *data;
};

// Two statements: those that are due are found by their index, whatever else there is.
#define FILTER                                                                                     \
    " (tenant, sandbox) > (?1, ?2) AND (?3 = 0 OR tenant = ?3)"                                    \
    " AND (?4 = 0 OR (state IN (1, 4) AND run <> ?4))"

static int page(void *arg, const void *last, unsigned max, struct call *call, struct err *err)
{
    static const char all[] =
        "SELECT " COLUMNS " FROM syncs WHERE" FILTER " ORDER BY tenant, sandbox LIMIT ?5";
    static const char due[] =
        "SELECT " COLUMNS " FROM syncs INDEXED BY syncs_again"
        " WHERE again_ms > 0 AND again_ms <= ?6 AND" FILTER " ORDER BY tenant, sandbox LIMIT ?5";
    const struct list *list = arg;
    const struct sync_row *row = last;
    bool is_due = list->query->again_ms != 0;
    if (call_start(call, list->db, is_due ? STMT_SYNC_PAGE_DUE : STMT_SYNC_PAGE, is_due ? due : all,
                   err) < 0)
        return -1;
    put_int(call, row != NULL ? row->tenant : list->query->tenant);
    put_text(call, row != NULL ? row->sandbox : "");
    put_int(call, list->query->tenant);
    put_int(call, list->query->not_run);
    put_int(call, max);
    if (is_due)
        put_int(call, list->query->again_ms);
    return 0;
}

static int visit(void *arg, const void *row)
{
    const struct list *list = arg;
    return list->fn(list->data, row);
}

int db_sync_each(struct db *db, const struct sync_query *query, db_sync_fn fn, void *data,
                 struct err *err)
{
    static const struct walk walk = {&kind, page, visit};
    struct list list = {db, query, fn, data};
    return db_walk(&walk, &list, query->max, err);
}
