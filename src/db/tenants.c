// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "db/db-internal.h"

#define COLUMNS "number, name, sandboxes, running, memory, disk, created_ms"

void tenant_row_done(struct tenant_row *row)
{
    free(row->name);
    *row = (struct tenant_row){0};
}

static void read_row(struct call *call, void *ret_row)
{
    struct tenant_row *row = ret_row;
    row->number = get_int(call);
    row->name = get_text(call);
    row->sandboxes = get_int(call);
    row->running = get_int(call);
    row->memory = get_int(call);
    row->disk = get_int(call);
    row->created_ms = get_int(call);
}

static void row_done(void *row)
{
    tenant_row_done(row);
}

static const struct row_kind kind = {sizeof(struct tenant_row), read_row, row_done};

int db_tenant_get(struct db *db, const char *name, struct tenant_row *ret, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_TENANT_GET, "SELECT " COLUMNS " FROM tenants WHERE name = ?",
                   err) < 0)
        return -1;
    put_text(&call, name);
    return call_row(&call, &kind, ret, err);
}

int db_tenant_by_number(struct db *db, int64_t number, struct tenant_row *ret, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_TENANT_BY_NUMBER,
                   "SELECT " COLUMNS " FROM tenants WHERE number = ?", err) < 0)
        return -1;
    put_int(&call, number);
    return call_row(&call, &kind, ret, err);
}

int db_tenant_put(struct db *db, struct tenant_row *row, struct err *err)
{
    static const char text[] =
        "INSERT INTO tenants (name, sandboxes, running, memory, disk, created_ms)"
        " VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET sandboxes = excluded.sandboxes,"
        "  running = excluded.running, memory = excluded.memory, disk = excluded.disk"
        " RETURNING number";
    auto_call call;
    if (call_start(&call, db, STMT_TENANT_PUT, text, err) < 0)
        return -1;
    put_text(&call, row->name);
    put_int(&call, row->sandboxes);
    put_int(&call, row->running);
    put_int(&call, row->memory);
    put_int(&call, row->disk);
    put_int(&call, row->created_ms);
    if (call_step(&call, err) < 0)
        return -1;
    int64_t number = get_int(&call);
    if (call_run(&call, err) < 0)
        return -1;
    row->number = number;
    return 0;
}
