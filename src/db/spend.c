// SPDX-License-Identifier: Apache-2.0
// What was spent on models. One row a call; the trigger `spend_sum` adds it to the sums of its hour
// and to what its sandbox has spent, so that none is written without the others. Sums over time are
// read from the hours, whose number does not grow with the calls; by sandbox and by request from
// the calls, of which each tenant has its newest DB_SPEND_KEPT.
#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "db/db-internal.h"

enum { TRIM_EVERY = 64, EXPIRE_MAX = 2000, SUMS_MAX = 1000 };

#define TOKENS_MAX INT64_C(1000000000)       // of one call: more is a lie
#define COST_MAX   INT64_C(1000000000000000) // a million dollars

// -- writing

static int64_t clamp(int64_t value, int64_t max)
{
    return value < 0 ? 0 : value > max ? max : value;
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static int trim(struct db *db, int64_t tenant, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_SPEND_TRIM,
                   "DELETE FROM spend WHERE seq IN (SELECT seq FROM spend WHERE tenant = ?1"
                   " AND time_ms <= (SELECT time_ms FROM spend WHERE tenant = ?1"
                   "  ORDER BY time_ms DESC LIMIT 1 OFFSET ?2) ORDER BY time_ms LIMIT ?3)",
                   err) < 0)
        return -1;
    put_int(&call, tenant);
    put_int(&call, DB_SPEND_KEPT);
    put_int(&call, EXPIRE_MAX);
    return call_run(&call, err);
}

int db_spend_add(struct db *db, const struct spend_row *row, struct err *err)
{
    static const char text[] =
        "INSERT INTO spend (tenant, time_ms, sandbox_number, sandbox, request, source, model,"
        " input, output, cache_write, cache_write_1h, cache_read, searches, fetches, cost)"
        " VALUES (?,?,?,?,?,?,?, ?,?,?,?,?,?,?,?)";
    auto_call call;
    if (call_start(&call, db, STMT_SPEND_ADD, text, err) < 0)
        return -1;
    put_int(&call, row->tenant);
    put_int(&call, row->time_ms);
    put_int(&call, row->sandbox_number);
    put_text(&call, or_empty(row->sandbox));
    put_text(&call, or_empty(row->request));
    put_text(&call, or_empty(row->source));
    put_text(&call, or_empty(row->model));
    const int64_t counts[] = {row->input,      row->output,   row->cache_write, row->cache_write_1h,
                              row->cache_read, row->searches, row->fetches};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        put_int(&call, clamp(counts[i], TOKENS_MAX));
    put_int(&call, clamp(row->cost, COST_MAX));
    if (call_run(&call, err) < 0)
        return -1;
    struct err ignored; // it is written; the next trim takes what this one left
    if (db_is_chosen(db, TRIM_EVERY))
        (void)trim(db, row->tenant, &ignored);
    return 0;
}

// -- sums

// total(), unlike sum(), cannot fail; it is exact up to nine million dollars.
#define SUM(column) "CAST(total(" column ") AS INTEGER),"
#define TOKEN_SUMS                                                                                 \
    SUM("input") SUM("output") SUM("cache_write") SUM("cache_write_1h") SUM("cache_read")
#define SUMS  TOKEN_SUMS SUM("searches") SUM("fetches") "CAST(total(cost) AS INTEGER) AS cost_sum,"
#define CALLS "count(*)," SUMS "min(time_ms), max(time_ms) FROM spend"
#define HOURS SUM("requests") SUMS "min(first_ms), max(last_ms) FROM spend_hours"
// An hour counts when any of it is asked for.
#define IN_CALLS " AND time_ms >= ?2 AND time_ms < ?3 AND (?4 IS NULL OR sandbox = ?4)"
#define IN_HOURS " AND hour >= ?2 / 3600000 AND hour <= (?3 - 1) / 3600000 AND ?4 IS NULL"
#define DEAREST  " ORDER BY cost_sum DESC, key LIMIT ?5"
#define IN_ORDER " ORDER BY key LIMIT ?5"

#define NAME       "(SELECT name FROM tenants WHERE number = tenant)"
#define DAY(value) "strftime('%Y-%m-%d', " value ", 'unixepoch')"

#define QUERY(key, sums, who, when, order)                                                         \
    "SELECT " key " AS key," sums " WHERE " who when " GROUP BY " key order

enum { N_BY = SPEND_BY_DAY + 1, N_TABLES = 4 };
static_assert(STMT_SPEND_SUM_LAST - STMT_SPEND_SUM + 1 == N_TABLES * N_BY,
              "a place for each statement");

// Of one tenant, or of all: "this one, or any" would not use the index.
#define BY_CALLS(who)                                                                              \
    [SPEND_BY_NONE] = QUERY("''", CALLS, who, IN_CALLS, DEAREST),                                  \
    [SPEND_BY_TENANT] = QUERY(NAME, CALLS, who, IN_CALLS, DEAREST),                                \
    [SPEND_BY_SANDBOX] = QUERY("sandbox", CALLS, who, IN_CALLS, DEAREST),                          \
    [SPEND_BY_REQUEST] = QUERY("request", CALLS, who, IN_CALLS, DEAREST),                          \
    [SPEND_BY_MODEL] = QUERY("model", CALLS, who, IN_CALLS, DEAREST),                              \
    [SPEND_BY_SOURCE] = QUERY("source", CALLS, who, IN_CALLS, DEAREST),                            \
    [SPEND_BY_DAY] = QUERY(DAY("time_ms / 1000"), CALLS, who, IN_CALLS, IN_ORDER)
// NULL: they do not tell it.
#define BY_HOURS(who)                                                                              \
    [SPEND_BY_NONE] = QUERY("''", HOURS, who, IN_HOURS, DEAREST),                                  \
    [SPEND_BY_TENANT] = QUERY(NAME, HOURS, who, IN_HOURS, DEAREST),                                \
    [SPEND_BY_MODEL] = QUERY("model", HOURS, who, IN_HOURS, DEAREST),                              \
    [SPEND_BY_SOURCE] = QUERY("source", HOURS, who, IN_HOURS, DEAREST),                            \
    [SPEND_BY_DAY] = QUERY(DAY("hour * 3600"), HOURS, who, IN_HOURS, IN_ORDER)

static const char *const calls_of_one[N_BY] = {BY_CALLS("tenant = ?1")};
static const char *const hours_of_one[N_BY] = {BY_HOURS("tenant = ?1")};
static const char *const calls_of_all[N_BY] = {BY_CALLS("?1 = 0")};
static const char *const hours_of_all[N_BY] = {BY_HOURS("?1 = 0")};
static const char *const *const tables[N_TABLES] = {calls_of_one, hours_of_one, calls_of_all,
                                                    hours_of_all};

struct sum_row {
    struct spend_sum sum;
    char *key;
};

static void read_row(struct call *call, void *ret_row)
{
    struct sum_row *row = ret_row;
    struct spend_sum *sum = &row->sum;
    row->key = get_text(call);
    sum->key = or_empty(row->key);
    sum->requests = get_int(call);
    sum->input = get_int(call);
    sum->output = get_int(call);
    sum->cache_write = get_int(call);
    sum->cache_write_1h = get_int(call);
    sum->cache_read = get_int(call);
    sum->searches = get_int(call);
    sum->fetches = get_int(call);
    sum->cost = get_int(call);
    sum->first_ms = get_int(call);
    sum->last_ms = get_int(call);
}

static void row_done(void *arg)
{
    struct sum_row *row = arg;
    free(row->key);
    *row = (struct sum_row){0};
}

static const struct row_kind kind = {sizeof(struct sum_row), read_row, row_done};

static int start(struct call *call, struct db *db, const struct spend_query *query, unsigned max,
                 struct err *err)
{
    bool is_calls = query->by_calls || query->sandbox != NULL || hours_of_one[query->by] == NULL;
    unsigned table = (query->tenant != 0 ? 0 : 2) + (is_calls ? 0 : 1);
    enum db_stmt which = (enum db_stmt)(STMT_SPEND_SUM + N_TABLES * query->by + table);
    if (call_start(call, db, which, tables[table][query->by], err) < 0)
        return -1;
    put_int(call, query->tenant);
    put_int(call, query->since_ms);
    put_int(call, query->until_ms != 0 ? query->until_ms : INT64_MAX);
    put_text(call, query->sandbox);
    put_int(call, max);
    return 0;
}

// How many, or -1: then none is left behind.
static int read_sums(struct db *db, const struct spend_query *query, struct sum_row *rows,
                     unsigned max, struct err *err)
{
    auto_call call;
    unsigned n = 0;
    int r = start(&call, db, query, max, err) < 0 ? -1 : 1;
    while (r > 0 && n < max) {
        r = call_row(&call, &kind, &rows[n], err);
        n += r > 0;
    }
    while (r < 0 && n > 0)
        row_done(&rows[--n]);
    return r < 0 ? -1 : (int)n;
}

int db_spend_each(struct db *db, const struct spend_query *query, db_spend_fn fn, void *data,
                  struct err *err)
{
    unsigned max = query->max == 0 || query->max > SUMS_MAX ? SUMS_MAX : query->max;
    auto_free struct sum_row *rows = calloc(max, sizeof *rows);
    assert((unsigned)query->by < N_BY);
    if (rows == NULL)
        return err_set(err, ERR_EXHAUSTED, "no memory for sums");
    int n = read_sums(db, query, rows, max, err);
    bool more = true;
    for (int i = 0; i < n; i++) {
        more = more && fn(data, &rows[i].sum) == 0;
        row_done(&rows[i]);
    }
    return n < 0 ? -1 : 0;
}

// -- forgetting

static int expire(struct db *db, enum db_stmt which, const char *text, int64_t before,
                  struct err *err)
{
    auto_call call;
    if (call_start(&call, db, which, text, err) < 0)
        return -1;
    put_int(&call, before);
    put_int(&call, EXPIRE_MAX);
    return call_run(&call, err);
}

int db_spend_expire(struct db *db, int64_t before_ms, struct err *err)
{
    static const char calls[] = "DELETE FROM spend WHERE seq IN"
                                " (SELECT seq FROM spend WHERE time_ms < ?"
                                "  ORDER BY time_ms LIMIT ?)";
    static const char hours[] = "DELETE FROM spend_hours WHERE (tenant, hour, source, model) IN"
                                " (SELECT tenant, hour, source, model FROM spend_hours"
                                "  WHERE hour < ? ORDER BY hour LIMIT ?)";
    if (expire(db, STMT_SPEND_EXPIRE, calls, before_ms, err) < 0)
        return -1;
    return expire(db, STMT_SPEND_EXPIRE_HOURS, hours, before_ms / 3600000, err);
}
