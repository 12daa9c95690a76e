// SPDX-License-Identifier: Apache-2.0
// What was asked of a model and what came of it. A tenant has so many of them and so many bytes
// (the table `held` counts); whoever ends one more makes room by removing the oldest.
#include <stdlib.h>

#include "db/db-internal.h"

enum {
    TRIM_MAX = 16, // at one time: each may have megabytes
    EXPIRE_MAX = 200,
    EXPIRE_BYTES = 64 * 1024 * 1024,
};

#define HEAD                                                                                       \
    "tenant, id, kind, title, created_ms, state, run, sandbox, model, success, status, error,"     \
    " cost, input_tokens, output_tokens, generation_ms, sandbox_ms, total_ms, ended_ms"

void result_row_done(struct result_row *row)
{
    free(row->id);
    free(row->kind);
    free(row->title);
    free(row->sandbox);
    free(row->model);
    free(row->error);
    free(row->body);
    free(row->asked);
    free(row->work);
    *row = (struct result_row){0};
}

static void read_head(struct call *call, void *ret_row)
{
    struct result_row *row = ret_row;
    row->tenant = get_int(call);
    row->id = get_text(call);
    row->kind = get_text(call);
    row->title = get_text(call);
    row->created_ms = get_int(call);
    row->state = (enum result_state)get_int(call);
    row->run = get_int(call);
    row->sandbox = get_text(call);
    row->model = get_text(call);
    row->success = get_bool(call);
    row->status = get_int(call);
    row->error = get_text(call);
    row->cost = get_int(call);
    row->input_tokens = get_int(call);
    row->output_tokens = get_int(call);
    row->generation_ms = get_int(call);
    row->sandbox_ms = get_int(call);
    row->total_ms = get_int(call);
    row->ended_ms = get_int(call);
}

static void read_whole(struct call *call, void *ret_row)
{
    struct result_row *row = ret_row;
    read_head(call, row);
    row->body = get_blob(call, &row->body_len);
}

static void read_size(struct call *call, void *ret_row)
{
    struct result_row *row = ret_row;
    read_head(call, row);
    row->body_len = (size_t)get_int(call);
}

// What is known when it ends, in the order of HEAD.
static void put_rest(struct call *call, const struct result_row *row)
{
    put_int(call, row->state);
    put_int(call, row->run);
    put_text(call, row->sandbox);
    put_text(call, row->model);
    put_int(call, row->success);
    put_int(call, row->status);
    put_text(call, row->error);
    put_int(call, row->cost);
    put_int(call, row->input_tokens);
    put_int(call, row->output_tokens);
    put_int(call, row->generation_ms);
    put_int(call, row->sandbox_ms);
    put_int(call, row->total_ms);
    put_int(call, row->ended_ms);
    put_int(call, row->body != NULL ? (int64_t)row->body_len : 0);
    if (row->body != NULL)
        put_blob(call, row->body, row->body_len);
    else
        put_text(call, NULL);
}

static void row_done(void *row)
{
    result_row_done(row);
}

static const struct row_kind head_kind = {sizeof(struct result_row), read_head, row_done};
static const struct row_kind size_kind = {sizeof(struct result_row), read_size, row_done};
static const struct row_kind whole_kind = {sizeof(struct result_row), read_whole, row_done};

// -- room

static int is_over(struct db *db, int64_t tenant, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_RESULT_OVER,
                   "SELECT 1 FROM held WHERE tenant = ? AND (results > ? OR bytes > ?)", err) < 0)
        return -1;
    put_int(&call, tenant);
    put_int(&call, db->results_kept);
    put_int(&call, db->results_bytes);
    return call_step(&call, err);
}

// 1, or 0 when all that are left are at work.
static int remove_oldest(struct db *db, int64_t tenant, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_RESULT_TRIM,
                   "DELETE FROM results WHERE seq = (SELECT seq FROM results"
                   " WHERE tenant = ? AND state <> 1 ORDER BY seq LIMIT 1)",
                   err) < 0)
        return -1;
    put_int(&call, tenant);
    return call_run(&call, err) < 0 ? -1 : sqlite3_changes(db->sql) > 0;
}

void db_result_limit(struct db *db, int64_t kept, int64_t bytes)
{
    db->results_kept = kept;
    db->results_bytes = bytes;
}

// What it cannot do now the next one does: a row that was written is no failure.
static void make_room(struct db *db, int64_t tenant)
{
    struct err err;
    for (unsigned i = 0; i < TRIM_MAX && is_over(db, tenant, &err) > 0; i++) {
        if (remove_oldest(db, tenant, &err) <= 0)
            break;
    }
}

// -- one

static int check_size(const struct result_row *row, struct err *err)
{
    if (row->body != NULL && row->body_len > DB_RESULT_MAX)
        return err_set(err, ERR_INVALID, "an answer of %zu bytes is too large to be stored",
                       row->body_len);
    return 0;
}

int db_result_add(struct db *db, const struct result_row *row, struct err *err)
{
    static const char text[] = "INSERT INTO results (" HEAD ", size, body) VALUES"
                               " (?,?,?,?,?, ?,?,?,?,?,?,?,?,?,?,?,?,?,?, ?,?)";
    auto_call call = {0};
    if (check_size(row, err) < 0 || call_start(&call, db, STMT_RESULT_ADD, text, err) < 0)
        return -1;
    put_int(&call, row->tenant);
    put_text(&call, row->id);
    put_text(&call, row->kind);
    put_text(&call, row->title != NULL ? row->title : "");
    put_int(&call, row->created_ms);
    put_rest(&call, row);
    if (call_run(&call, err) < 0) {
        if (call_is_orphan(&call))
            return err_set(err, ERR_NOT_FOUND, "there is no such tenant");
        if (call_is_conflict(&call))
            return err_set(err, ERR_CONFLICT, "there is a result with this id already");
        return -1;
    }
    make_room(db, row->tenant);
    return 0;
}

int db_result_end(struct db *db, const struct result_row *row, struct err *err)
{
    static const char text[] =
        "UPDATE results SET (state, run, sandbox, model, success, status,"
        " error, cost, input_tokens, output_tokens, generation_ms,"
        " sandbox_ms, total_ms, ended_ms, size, body, asked, work) ="
        " (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,NULL,NULL) WHERE id = ? AND tenant = ?";
    auto_call call = {0};
    if (check_size(row, err) < 0 || call_start(&call, db, STMT_RESULT_END, text, err) < 0)
        return -1;
    put_rest(&call, row);
    put_text(&call, row->id);
    put_int(&call, row->tenant);
    if (call_run_one(&call, "result", err) < 0)
        return -1;
    make_room(db, row->tenant);
    return 0;
}

int db_result_get(struct db *db, int64_t tenant, const char *id, struct result_row *ret,
                  struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_RESULT_GET,
                   "SELECT " HEAD ", body FROM results WHERE id = ? AND tenant = ?", err) < 0)
        return -1;
    put_text(&call, id);
    put_int(&call, tenant);
    return call_row(&call, &whole_kind, ret, err);
}

int db_result_head(struct db *db, int64_t tenant, const char *id, struct result_row *ret,
                   struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_RESULT_HEAD,
                   "SELECT " HEAD ", size FROM results WHERE id = ? AND tenant = ?", err) < 0)
        return -1;
    put_text(&call, id);
    put_int(&call, tenant);
    return call_row(&call, &size_kind, ret, err);
}

int db_result_del(struct db *db, int64_t tenant, const char *id, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_RESULT_DEL, "DELETE FROM results WHERE id = ? AND tenant = ?",
                   err) < 0)
        return -1;
    put_text(&call, id);
    put_int(&call, tenant);
    return call_delete(&call, err);
}

int db_result_lose(struct db *db, int64_t run, int64_t *ret, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_RESULT_LOSE,
                   "UPDATE results SET state = ?, ended_ms = ?"
                   " WHERE state = 1 AND run <> ? AND asked IS NULL",
                   err) < 0)
        return -1;
    put_int(&call, RESULT_LOST);
    put_int(&call, db_now_ms());
    put_int(&call, run);
    if (call_run(&call, err) < 0)
        return -1;
    if (ret != NULL)
        *ret = sqlite3_changes(db->sql);
    return 0;
}

// -- going on

static int set_text(struct db *db, enum db_stmt which, const char *sql, int64_t tenant,
                    const char *id, const char *text, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, which, sql, err) < 0)
        return -1;
    put_text(&call, text);
    put_text(&call, id);
    put_int(&call, tenant);
    return call_run_one(&call, "result", err);
}

int db_result_asked(struct db *db, int64_t tenant, const char *id, const char *asked,
                    struct err *err)
{
    return set_text(db, STMT_RESULT_ASKED,
                    "UPDATE results SET asked = ? WHERE id = ? AND tenant = ?", tenant, id, asked,
                    err);
}

int db_result_work(struct db *db, int64_t tenant, const char *id, const char *work, struct err *err)
{
    return set_text(db, STMT_RESULT_WORK, "UPDATE results SET work = ? WHERE id = ? AND tenant = ?",
                    tenant, id, work, err);
}

static void read_left(struct call *call, void *ret_row)
{
    struct result_row *row = ret_row;
    read_head(call, row);
    row->asked = get_text(call);
    row->work = get_text(call);
}

int db_result_left(struct db *db, int64_t run, struct result_row *ret, struct err *err)
{
    static const struct row_kind left_kind = {sizeof(struct result_row), read_left, row_done};
    auto_call call;
    if (call_start(&call, db, STMT_RESULT_LEFT,
                   "UPDATE results SET run = ?1 WHERE seq = (SELECT seq FROM results"
                   " WHERE state = 1 AND run <> ?1 AND asked IS NOT NULL LIMIT 1)"
                   " RETURNING " HEAD ", asked, work",
                   err) < 0)
        return -1;
    put_int(&call, run);
    return call_row(&call, &left_kind, ret, err);
}

// -- in the store

struct unstored {
    int64_t seq;
    struct result_row row;
};

static void read_unstored(struct call *call, void *ret)
{
    struct unstored *found = ret;
    read_whole(call, &found->row);
    found->seq = get_int(call);
}

static void unstored_done(void *found)
{
    result_row_done(&((struct unstored *)found)->row);
}

int db_result_unstored(struct db *db, int64_t after_seq, struct result_row *ret, int64_t *ret_seq,
                       struct err *err)
{
    static const struct row_kind kind = {sizeof(struct unstored), read_unstored, unstored_done};
    struct unstored found = {0};
    auto_call call;
    if (call_start(&call, db, STMT_RESULT_UNSTORED,
                   "SELECT " HEAD ", body, seq FROM results"
                   " WHERE stored = 0 AND state = 2 AND seq > ? ORDER BY seq LIMIT 1",
                   err) < 0)
        return -1;
    put_int(&call, after_seq);
    int r = call_row(&call, &kind, &found, err);
    if (r > 0) {
        *ret = found.row;
        *ret_seq = found.seq;
    }
    return r;
}

int db_result_stored(struct db *db, int64_t seq, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_RESULT_STORED, "UPDATE results SET stored = 1 WHERE seq = ?",
                   err) < 0)
        return -1;
    put_int(&call, seq);
    return call_run_one(&call, "result", err);
}

int db_result_expire(struct db *db, int64_t before_ms, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_RESULT_EXPIRE,
                   "DELETE FROM results WHERE seq IN (SELECT seq FROM"
                   " (SELECT seq, size, sum(size) OVER (ORDER BY seq) AS all_of FROM"
                   "  (SELECT seq, size FROM results"
                   "   WHERE state <> 1 AND ended_ms < ? ORDER BY ended_ms LIMIT ?))"
                   " WHERE all_of - size < ?)",
                   err) < 0)
        return -1;
    put_int(&call, before_ms);
    put_int(&call, EXPIRE_MAX);
    put_int(&call, EXPIRE_BYTES);
    return call_run(&call, err);
}

// -- many, newest first

struct list {
    struct db *db;
    const struct result_query *query;
    db_result_fn fn;
    void *data;
};

// Two statements, because "this tenant, or any" would not use the index.
#define FILTER                                                                                     \
    " (?2 IS NULL OR seq < (SELECT seq FROM results WHERE id = ?2 AND (?1 = 0 OR tenant = ?1)))"   \
    " AND (?3 IS NULL OR kind = ?3) ORDER BY seq DESC LIMIT ?4"

static int page(void *arg, const void *last, unsigned max, struct call *call, struct err *err)
{
    static const char one[] = "SELECT " HEAD " FROM results WHERE tenant = ?1 AND" FILTER;
    static const char all[] = "SELECT " HEAD " FROM results WHERE" FILTER;
    const struct list *list = arg;
    const struct result_row *row = last;
    bool is_all = list->query->tenant == 0;
    if (call_start(call, list->db, is_all ? STMT_RESULT_PAGE_ALL : STMT_RESULT_PAGE,
                   is_all ? all : one, err) < 0)
        return -1;
    put_int(call, list->query->tenant);
    put_text(call, row != NULL ? row->id : list->query->before);
    put_text(call, list->query->kind);
    put_int(call, max);
    return 0;
}

static int visit(void *arg, const void *row)
{
    const struct list *list = arg;
    return list->fn(list->data, row);
}

int db_result_each(struct db *db, const struct result_query *query, db_result_fn fn, void *data,
                   struct err *err)
{
    static const struct walk walk = {&head_kind, page, visit};
    struct list list = {db, query, fn, data};
    return db_walk(&walk, &list, query->max, err);
}
