// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "db/db-internal.h"

#define COLUMNS                                                                                    \
    "tenant, id, sandbox, number, kind, name, dir, image, state, run, size, raw, entries, sha256," \
    " created_ms, expires_ms"

void backup_row_done(struct backup_row *row)
{
    free(row->id);
    free(row->sandbox);
    free(row->kind);
    free(row->name);
    free(row->dir);
    free(row->image);
    *row = (struct backup_row){0};
}

static void read_sha256(struct call *call, struct backup_row *row)
{
    size_t len;
    char *hash = get_blob(call, &len);
    if (hash != NULL && len == sizeof row->sha256)
        memcpy(row->sha256, hash, len);
    free(hash);
}

static void read_row(struct call *call, void *ret_row)
{
    struct backup_row *row = ret_row;
    row->tenant = get_int(call);
    row->id = get_text(call);
    row->sandbox = get_text(call);
    row->number = get_int(call);
    row->kind = get_text(call);
    row->name = get_text(call);
    row->dir = get_text(call);
    row->image = get_text(call);
    row->state = (enum backup_state)get_int(call);
    row->run = get_int(call);
    row->size = get_int(call);
    row->raw = get_int(call);
    row->entries = get_int(call);
    read_sha256(call, row);
    row->created_ms = get_int(call);
    row->expires_ms = get_int(call);
}

static void row_done(void *row)
{
    backup_row_done(row);
}

static const struct row_kind kind = {sizeof(struct backup_row), read_row, row_done};

// -- one

int db_backup_add(struct db *db, const struct backup_row *row, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_BACKUP_ADD,
                   "INSERT INTO backups (" COLUMNS
                   ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                   err) < 0)
        return -1;
    put_int(&call, row->tenant);
    put_text(&call, row->id);
    put_text(&call, row->sandbox);
    put_int(&call, row->number);
    put_text(&call, row->kind);
    put_text(&call, row->name);
    put_text(&call, row->dir);
    put_text(&call, row->image);
    put_int(&call, row->state);
    put_int(&call, row->run);
    put_int(&call, row->size);
    put_int(&call, row->raw);
    put_int(&call, row->entries);
    put_blob(&call, row->sha256, sizeof row->sha256);
    put_int(&call, row->created_ms);
    put_int(&call, row->expires_ms);
    if (call_run(&call, err) == 0)
        return 0;
    if (call_is_conflict(&call))
        return err_set(err, ERR_CONFLICT, "there is a backup '%s' already", row->id);
    if (call_is_orphan(&call))
        return err_set(err, ERR_NOT_FOUND, "there is no such tenant");
    return -1;
}

int db_backup_ready(struct db *db, const struct backup_row *row, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_BACKUP_READY,
                   "UPDATE backups SET state = ?, size = ?, raw = ?, entries = ?, sha256 = ?"
                   " WHERE tenant = ? AND id = ?",
                   err) < 0)
        return -1;
    put_int(&call, BACKUP_READY);
    put_int(&call, row->size);
    put_int(&call, row->raw);
    put_int(&call, row->entries);
    put_blob(&call, row->sha256, sizeof row->sha256);
    put_int(&call, row->tenant);
    put_text(&call, row->id);
    return call_run_one(&call, "backup", err) < 0 ? -1 : db_sync(db, err);
}

int db_backup_get(struct db *db, int64_t tenant, const char *id, struct backup_row *ret,
                  struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_BACKUP_GET,
                   "SELECT " COLUMNS " FROM backups WHERE id = ? AND tenant = ?", err) < 0)
        return -1;
    put_text(&call, id);
    put_int(&call, tenant);
    return call_row(&call, &kind, ret, err);
}

int db_backup_del(struct db *db, int64_t tenant, const char *id, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_BACKUP_DEL, "DELETE FROM backups WHERE id = ? AND tenant = ?",
                   err) < 0)
        return -1;
    put_text(&call, id);
    put_int(&call, tenant);
    return call_delete(&call, err);
}

// -- many

struct list {
    struct db *db;
    const struct backup_query *query;
    db_backup_fn fn;
    void *data;
};

// The subquery of a page's beginning that is gone meanwhile is NULL, and ends the list.
#define AFTER " AND (?1 IS NULL OR seq < (SELECT seq FROM backups WHERE id = ?1))"

static int start(const struct list *list, struct call *call, struct err *err)
{
    const struct backup_query *q = list->query;
    if (q->tenant != 0 && q->sandbox != NULL)
        return call_start(call, list->db, STMT_BACKUP_PAGE_OF,
                          "SELECT " COLUMNS " FROM backups WHERE tenant = ?3 AND sandbox = ?4"
                          " AND (?5 = 0 OR expires_ms BETWEEN 1 AND ?5)"
                          " AND (?6 = 0 OR (state = 1 AND run <> ?6))" AFTER
                          " ORDER BY seq DESC LIMIT ?2",
                          err);
    if (q->tenant != 0 && q->expired_ms == 0)
        return call_start(call, list->db, STMT_BACKUP_PAGE_ALL,
                          "SELECT " COLUMNS " FROM backups WHERE tenant = ?3"
                          " AND (?4 IS NULL OR sandbox = ?4) AND ?5 = 0"
                          " AND (?6 = 0 OR (state = 1 AND run <> ?6))" AFTER
                          " ORDER BY seq DESC LIMIT ?2",
                          err);
    if (q->orphans)
        return call_start(call, list->db, STMT_BACKUP_PAGE_ORPHANS,
                          "SELECT " COLUMNS " FROM backups WHERE kind = 'archive'"
                          " AND NOT EXISTS (SELECT 1 FROM sandboxes AS s"
                          "  WHERE s.tenant = backups.tenant AND s.id = backups.sandbox"
                          "  AND s.archive = backups.id)" AFTER " ORDER BY seq DESC LIMIT ?2",
                          err);
    if (q->expired_ms != 0)
        return call_start(call, list->db, STMT_BACKUP_PAGE_EXPIRED,
                          "SELECT " COLUMNS " FROM backups INDEXED BY backups_age"
                          " WHERE expires_ms > 0 AND expires_ms <= ?5"
                          " AND (?3 = 0 OR tenant = ?3) AND (?4 IS NULL OR sandbox = ?4)"
                          " AND (?6 = 0 OR (state = 1 AND run <> ?6))" AFTER
                          " ORDER BY seq DESC LIMIT ?2",
                          err);
    return call_start(call, list->db, STMT_BACKUP_PAGE,
                      "SELECT " COLUMNS " FROM backups WHERE (?3 = 0 OR tenant = ?3)"
                      " AND (?4 IS NULL OR sandbox = ?4)"
                      " AND (?5 = 0 OR expires_ms BETWEEN 1 AND ?5)"
                      " AND (?6 = 0 OR (state = 1 AND run <> ?6))" AFTER
                      " ORDER BY seq DESC LIMIT ?2",
                      err);
}

static int page(void *arg, const void *last, unsigned max, struct call *call, struct err *err)
{
    const struct list *list = arg;
    const struct backup_query *q = list->query;
    const struct backup_row *row = last;
    if (start(list, call, err) < 0)
        return -1;
    put_text(call, row != NULL ? row->id : q->before);
    put_int(call, max);
    if (q->orphans)
        return 0;
    put_int(call, q->tenant);
    put_text(call, q->sandbox);
    put_int(call, q->expired_ms);
    put_int(call, q->not_run);
    return 0;
}

static int visit(void *arg, const void *row)
{
    const struct list *list = arg;
    return list->fn(list->data, row);
}

int db_backup_each(struct db *db, const struct backup_query *query, db_backup_fn fn, void *data,
                   struct err *err)
{
    static const struct walk walk = {&kind, page, visit};
    struct list list = {db, query, fn, data};
    return db_walk(&walk, &list, query->max, err);
}
