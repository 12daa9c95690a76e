// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>

#include "db/db-internal.h"

// Identity first, then what an update writes, in this order everywhere.
#define SETTINGS                                                                                   \
    "status, image, memory, disk, pids, cpu_milli, sleep_after_ms, keep_alive, ephemeral, env,"    \
    " labels, user_id, network, secrets, languages, shared_zygote, box, run, boxes, created_ms,"   \
    " updated_ms, active_ms, destroy_after_ms, budget_cost, budget_tokens, sync, durable,"         \
    " archive_after_ms, shared, archive, slept_ms, disks"
// What is spent is counted by a trigger (spend.c): a copy in memory never overwrites it.
#define COLUMNS "number, tenant, id, slug, " SETTINGS ", spent_cost, spent_tokens"

void sandbox_row_done(struct sandbox_row *row)
{
    free(row->id);
    free(row->slug);
    free(row->image);
    free(row->env);
    free(row->labels);
    free(row->user_id);
    free(row->network);
    free(row->secrets);
    free(row->languages);
    free(row->archive);
    *row = (struct sandbox_row){0};
}

static void read_settings(struct call *call, struct sandbox_row *row)
{
    row->status = (enum sandbox_status)get_int(call);
    row->image = get_text(call);
    row->memory = get_int(call);
    row->disk = get_int(call);
    row->pids = get_int(call);
    row->cpu_milli = get_int(call);
    row->sleep_after_ms = get_int(call);
    row->keep_alive = get_bool(call);
    row->ephemeral = get_bool(call);
    row->env = get_text(call);
    row->labels = get_text(call);
    row->user_id = get_text(call);
    row->network = get_text(call);
    row->secrets = get_text(call);
    row->languages = get_text(call);
    row->shared_zygote = get_bool(call);
    row->box = get_int(call);
    row->run = get_int(call);
    row->boxes = get_int(call);
    row->created_ms = get_int(call);
    row->updated_ms = get_int(call);
    row->active_ms = get_int(call);
    row->destroy_after_ms = get_int(call);
    row->budget_cost = get_int(call);
    row->budget_tokens = get_int(call);
    row->sync = get_bool(call);
    row->durable = get_bool(call);
    row->archive_after_ms = get_int(call);
    row->shared = get_int(call);
    row->archive = get_text(call);
    row->slept_ms = get_int(call);
    row->disks = get_int(call);
}

static void put_settings(struct call *call, const struct sandbox_row *row)
{
    put_int(call, row->status);
    put_text(call, row->image);
    put_int(call, row->memory);
    put_int(call, row->disk);
    put_int(call, row->pids);
    put_int(call, row->cpu_milli);
    put_int(call, row->sleep_after_ms);
    put_int(call, row->keep_alive);
    put_int(call, row->ephemeral);
    put_text(call, row->env != NULL ? row->env : "{}");
    put_text(call, row->labels != NULL ? row->labels : "{}");
    put_text(call, row->user_id);
    put_text(call, row->network);
    put_text(call, row->secrets);
    put_text(call, row->languages);
    put_int(call, row->shared_zygote);
    put_int(call, row->box);
    put_int(call, row->run);
    put_int(call, row->boxes);
    put_int(call, row->created_ms);
    put_int(call, row->updated_ms);
    put_int(call, row->active_ms);
    put_int(call, row->destroy_after_ms);
    put_int(call, row->budget_cost);
    put_int(call, row->budget_tokens);
    put_int(call, row->sync);
    put_int(call, row->durable);
    put_int(call, row->archive_after_ms);
    put_int(call, row->shared);
    put_text(call, row->archive);
    put_int(call, row->slept_ms);
    put_int(call, row->disks);
}

static void read_row(struct call *call, void *ret_row)
{
    struct sandbox_row *row = ret_row;
    row->number = get_int(call);
    row->tenant = get_int(call);
    row->id = get_text(call);
    row->slug = get_text(call);
    read_settings(call, row);
    row->spent_cost = get_int(call);
    row->spent_tokens = get_int(call);
}

static void row_done(void *row)
{
    sandbox_row_done(row);
}

static const struct row_kind kind = {sizeof(struct sandbox_row), read_row, row_done};

// -- one

static int refuse(struct db *db, const struct sandbox_row *row, struct err *err)
{
    struct sandbox_row other = {0};
    int r = db_sandbox_get(db, row->tenant, row->id, &other, err);
    sandbox_row_done(&other);
    if (r < 0)
        return -1;
    (void)err_set(err, ERR_CONFLICT, "there is a sandbox with this %s already",
                  r > 0 ? "id" : "slug");
    err->sys_errno = r > 0 ? EEXIST : EADDRINUSE;
    return -1;
}

int db_sandbox_add(struct db *db, struct sandbox_row *row, struct err *err)
{
    static const char text[] = "INSERT INTO sandboxes (tenant, id, slug, " SETTINGS ") VALUES"
                               " (?,?,?, ?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"
                               " ?,?,?,?,?,?,?)";
    auto_call call;
    if (call_start(&call, db, STMT_SANDBOX_ADD, text, err) < 0)
        return -1;
    put_int(&call, row->tenant);
    put_text(&call, row->id);
    put_text(&call, row->slug);
    put_settings(&call, row);
    if (call_run(&call, err) < 0) {
        if (call_is_orphan(&call))
            return err_set(err, ERR_NOT_FOUND, "there is no such tenant");
        return call_is_conflict(&call) ? refuse(db, row, err) : -1;
    }
    row->number = sqlite3_last_insert_rowid(db->sql);
    return 0;
}

int db_sandbox_get(struct db *db, int64_t tenant, const char *id, struct sandbox_row *ret,
                   struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SANDBOX_GET,
                   "SELECT " COLUMNS " FROM sandboxes WHERE tenant = ? AND id = ?", err) < 0)
        return -1;
    put_int(&call, tenant);
    put_text(&call, id);
    return call_row(&call, &kind, ret, err);
}

int db_sandbox_by_number(struct db *db, int64_t number, struct sandbox_row *ret, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SANDBOX_BY_NUMBER,
                   "SELECT " COLUMNS " FROM sandboxes WHERE number = ?", err) < 0)
        return -1;
    put_int(&call, number);
    return call_row(&call, &kind, ret, err);
}

int db_sandbox_by_slug(struct db *db, const char *slug, struct sandbox_row *ret, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SANDBOX_BY_SLUG,
                   "SELECT " COLUMNS " FROM sandboxes WHERE slug = ?", err) < 0)
        return -1;
    put_text(&call, slug);
    return call_row(&call, &kind, ret, err);
}

int db_sandbox_update(struct db *db, const struct sandbox_row *row, struct err *err)
{
    static const char text[] =
        "UPDATE sandboxes SET (" SETTINGS ") ="
        " (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) WHERE number = ?";
    auto_call call;
    if (call_start(&call, db, STMT_SANDBOX_UPDATE, text, err) < 0)
        return -1;
    put_settings(&call, row);
    put_int(&call, row->number);
    return call_run_one(&call, "sandbox", err);
}

int db_sandbox_update_synced(struct db *db, const struct sandbox_row *row, struct err *err)
{
    return db_sandbox_update(db, row, err) < 0 ? -1 : db_sync(db, err);
}

int db_sandbox_touch(struct db *db, int64_t number, int64_t active_ms, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SANDBOX_TOUCH,
                   "UPDATE sandboxes SET active_ms = ? WHERE number = ?", err) < 0)
        return -1;
    put_int(&call, active_ms);
    put_int(&call, number);
    return call_run_one(&call, "sandbox", err);
}

int db_sandbox_del(struct db *db, int64_t number, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SANDBOX_DEL, "DELETE FROM sandboxes WHERE number = ?", err) < 0)
        return -1;
    put_int(&call, number);
    return call_run(&call, err);
}

// -- many

struct list {
    struct db *db;
    const struct sandbox_query *query;
    db_sandbox_fn fn;
    void *data;
};

// Two statements, because "this tenant, or any" would not use the index.
// What is being made is nobody's business but of whoever asks for it.
#define FILTER                                                                                     \
    " AND (?3 = 0 OR status = ?3) AND (?3 = 4 OR ?7 OR status <> 4)"                               \
    " AND (?4 IS NULL OR EXISTS (SELECT 1 FROM json_each(labels) AS label"                         \
    "      WHERE label.key = ?4 AND (?5 IS NULL OR label.value = ?5)))"                            \
    " ORDER BY tenant, id LIMIT ?6"

static int page(void *arg, const void *last, unsigned max, struct call *call, struct err *err)
{
    static const char one[] =
        "SELECT " COLUMNS " FROM sandboxes WHERE tenant = ?1 AND id > ?2" FILTER;
    static const char all[] =
        "SELECT " COLUMNS " FROM sandboxes WHERE (tenant, id) > (?1, ?2)" FILTER;
    const struct list *list = arg;
    const struct sandbox_query *query = list->query;
    const struct sandbox_row *row = last;
    bool is_all = query->tenant == 0;
    bool goes_on = query->after != NULL && (!is_all || query->after_tenant != 0);
    const char *after = goes_on ? query->after : "";
    if (call_start(call, list->db, is_all ? STMT_SANDBOX_PAGE_ALL : STMT_SANDBOX_PAGE,
                   is_all ? all : one, err) < 0)
        return -1;
    put_int(call, !is_all ? query->tenant : row != NULL ? row->tenant : query->after_tenant);
    put_text(call, row != NULL ? row->id : after);
    put_int(call, query->status);
    put_text(call, query->label_key);
    put_text(call, query->label_value);
    put_int(call, max);
    put_int(call, query->making);
    return 0;
}

static int visit(void *arg, const void *row)
{
    const struct list *list = arg;
    return list->fn(list->data, row);
}

int db_sandbox_each(struct db *db, const struct sandbox_query *query, db_sandbox_fn fn, void *data,
                    struct err *err)
{
    static const struct walk walk = {&kind, page, visit};
    struct list list = {db, query, fn, data};
    return db_walk(&walk, &list, query->max, err);
}

struct list_of_id {
    struct db *db;
    const char *id;
    db_sandbox_fn fn;
    void *data;
};

static int page_of_id(void *arg, const void *last, unsigned max, struct call *call, struct err *err)
{
    const struct list_of_id *list = arg;
    const struct sandbox_row *row = last;
    if (call_start(call, list->db, STMT_SANDBOX_PAGE_ID,
                   "SELECT " COLUMNS " FROM sandboxes WHERE id = ? AND number > ?"
                   " ORDER BY number LIMIT ?",
                   err) < 0)
        return -1;
    put_text(call, list->id);
    put_int(call, row != NULL ? row->number : 0);
    put_int(call, max);
    return 0;
}

static int visit_of_id(void *arg, const void *row)
{
    const struct list_of_id *list = arg;
    return list->fn(list->data, row);
}

int db_sandbox_each_by_id(struct db *db, const char *id, db_sandbox_fn fn, void *data,
                          struct err *err)
{
    static const struct walk walk = {&kind, page_of_id, visit_of_id};
    struct list_of_id list = {db, id, fn, data};
    return db_walk(&walk, &list, 0, err);
}

// -- those that nobody has used for as long as they may be unused

struct list_of_due {
    struct db *db;
    int64_t now_ms;
    db_sandbox_fn fn;
    void *data;
};

static int page_of_due(void *arg, const void *last, unsigned max, struct call *call,
                       struct err *err)
{
    const struct list_of_due *list = arg;
    const struct sandbox_row *row = last;
    if (call_start(call, list->db, STMT_SANDBOX_PAGE_DUE,
                   "SELECT " COLUMNS " FROM sandboxes WHERE destroy_after_ms > 0"
                   " AND active_ms + destroy_after_ms <= ?1"
                   " AND (active_ms + destroy_after_ms, number) > (?2, ?3)"
                   " AND status NOT IN (?4, ?6) AND NOT keep_alive"
                   " ORDER BY active_ms + destroy_after_ms, number LIMIT ?5",
                   err) < 0)
        return -1;
    put_int(call, list->now_ms);
    put_int(call, row != NULL ? row->active_ms + row->destroy_after_ms : INT64_MIN);
    put_int(call, row != NULL ? row->number : 0);
    put_int(call, SANDBOX_DESTROYING);
    put_int(call, max);
    put_int(call, SANDBOX_MAKING);
    return 0;
}

static int visit_of_due(void *arg, const void *row)
{
    const struct list_of_due *list = arg;
    return list->fn(list->data, row);
}

int db_sandbox_each_due(struct db *db, int64_t now_ms, unsigned max, db_sandbox_fn fn, void *data,
                        struct err *err)
{
    static const struct walk walk = {&kind, page_of_due, visit_of_due};
    struct list_of_due list = {db, now_ms, fn, data};
    return db_walk(&walk, &list, max, err);
}

// -- those that have slept for as long as their disk may stay here

static int page_of_idle(void *arg, const void *last, unsigned max, struct call *call,
                        struct err *err)
{
    const struct list_of_due *list = arg;
    const struct sandbox_row *row = last;
    // Constants as in the index (schema.c), so that it is used. 1 is SANDBOX_SLEEPING.
    if (call_start(call, list->db, STMT_SANDBOX_PAGE_IDLE,
                   "SELECT " COLUMNS " FROM sandboxes WHERE archive_after_ms > 0 AND status = 1"
                   " AND archive IS NULL AND slept_ms + archive_after_ms <= ?1"
                   " AND (slept_ms + archive_after_ms, number) > (?2, ?3)"
                   " ORDER BY slept_ms + archive_after_ms, number LIMIT ?4",
                   err) < 0)
        return -1;
    put_int(call, list->now_ms);
    put_int(call, row != NULL ? row->slept_ms + row->archive_after_ms : INT64_MIN);
    put_int(call, row != NULL ? row->number : 0);
    put_int(call, max);
    return 0;
}

int db_sandbox_each_idle(struct db *db, int64_t now_ms, unsigned max, db_sandbox_fn fn, void *data,
                         struct err *err)
{
    static const struct walk walk = {&kind, page_of_idle, visit_of_due};
    struct list_of_due list = {db, now_ms, fn, data};
    return db_walk(&walk, &list, max, err);
}

int db_sandbox_usage(struct db *db, int64_t tenant, struct usage_row *ret, struct err *err)
{
#define SUMS "SELECT coalesce(sum(sandboxes), 0), coalesce(sum(disk), 0) FROM usage"
    auto_call call;
    if (call_start(&call, db, tenant == 0 ? STMT_SANDBOX_USAGE_ALL : STMT_SANDBOX_USAGE,
                   tenant == 0 ? SUMS : SUMS " WHERE tenant = ?", err) < 0)
        return -1;
    if (tenant != 0)
        put_int(&call, tenant);
    if (call_step(&call, err) < 0)
        return -1;
    ret->sandboxes = get_int(&call);
    ret->disk = get_int(&call);
    return 0;
#undef SUMS
}
