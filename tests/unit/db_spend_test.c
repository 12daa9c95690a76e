// SPDX-License-Identifier: Apache-2.0
// What was spent: by whom, for what, and when; and which sandboxes are due to be destroyed.
#include "db_kit.h"

#define SERIES "WITH RECURSIVE series (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM series) "

enum { HOUR = 3600000 };

static void spend(int64_t tenant, const char *sandbox, const char *request, const char *model,
                  int64_t cost, int64_t time_ms)
{
    char texts[3][64], source[] = "execute";
    (void)snprintf(texts[0], sizeof texts[0], "%s", sandbox);
    (void)snprintf(texts[1], sizeof texts[1], "%s", request);
    (void)snprintf(texts[2], sizeof texts[2], "%s", model);
    struct spend_row row = {.tenant = tenant,
                            .sandbox = texts[0],
                            .request = texts[1],
                            .source = source,
                            .model = texts[2],
                            .input = 1,
                            .output = 2,
                            .cache_write = 4,
                            .cache_write_1h = 8,
                            .cache_read = 16,
                            .searches = 32,
                            .fetches = 64,
                            .cost = cost,
                            .time_ms = time_ms};
    MUST(db_spend_add(kit_db, &row, &err));
}

static int see(void *data, const struct spend_sum *sum)
{
    char *list = data;
    size_t len = strlen(list);
    assert_int_equal(sum->input, sum->requests);
    assert_int_equal(sum->output, 2 * sum->requests);
    assert_int_equal(sum->cache_write, 4 * sum->requests);
    assert_int_equal(sum->cache_write_1h, 8 * sum->requests);
    assert_int_equal(sum->cache_read, 16 * sum->requests);
    assert_int_equal(sum->searches, 32 * sum->requests);
    assert_int_equal(sum->fetches, 64 * sum->requests);
    (void)snprintf(list + len, 256 - len, "%s:%lld:%lld:%lld-%lld ", sum->key,
                   (long long)sum->requests, (long long)sum->cost, (long long)sum->first_ms,
                   (long long)sum->last_ms);
    return strcmp(sum->key, "stop") == 0;
}

static const char *list(struct spend_query query)
{
    static char text[256];
    text[0] = '\0';
    MUST(db_spend_each(kit_db, &query, see, text, &err));
    return text;
}

#define SPENT(...) list((struct spend_query){__VA_ARGS__})

CHECK_CASE(in_every_way)
{
    int64_t red = kit_tenant("red");
    assert_string_equal(SPENT(.tenant = 1), "");
    spend(1, "s1", "r1", "m1", 10, 1000);
    spend(1, "s1", "r1", "m1", 10, 2000);
    spend(1, "s2", "r2", "m2", 30, HOUR + 1);
    spend(1, "", "", "m2", 1, 25 * HOUR);
    spend(red, "s1", "r3", "m1", 100, 3000);
    assert_string_equal(SPENT(.tenant = 1), ":4:51:1000-90000000 ");
    assert_string_equal(SPENT(.tenant = 0), ":5:151:1000-90000000 ");
    assert_string_equal(SPENT(.by = SPEND_BY_TENANT),
                        "red:1:100:3000-3000 admin:4:51:1000-90000000 ");
    assert_string_equal(SPENT(.tenant = 1, .by = SPEND_BY_TENANT), "admin:4:51:1000-90000000 ");
    assert_string_equal(SPENT(.tenant = 1, .by = SPEND_BY_SANDBOX),
                        "s2:1:30:3600001-3600001 s1:2:20:1000-2000 :1:1:90000000-90000000 ");
    assert_string_equal(SPENT(.tenant = 1, .by = SPEND_BY_REQUEST, .max = 2),
                        "r2:1:30:3600001-3600001 r1:2:20:1000-2000 ");
    assert_string_equal(SPENT(.tenant = 1, .by = SPEND_BY_MODEL),
                        "m2:2:31:3600001-90000000 m1:2:20:1000-2000 ");
    assert_string_equal(SPENT(.tenant = 1, .by = SPEND_BY_SOURCE), "execute:4:51:1000-90000000 ");
    assert_string_equal(SPENT(.tenant = 1, .by = SPEND_BY_DAY),
                        "1970-01-01:3:50:1000-3600001 1970-01-02:1:1:90000000-90000000 ");
}

CHECK_CASE(from_and_until)
{
    spend(1, "s1", "r1", "m1", 1, HOUR - 1);
    spend(1, "s1", "r2", "m1", 10, HOUR);
    spend(1, "s2", "r3", "m1", 100, 2 * HOUR);
    // Whole hours.
    assert_string_equal(SPENT(.tenant = 1, .since_ms = HOUR), ":2:110:3600000-7200000 ");
    assert_string_equal(SPENT(.tenant = 1, .since_ms = HOUR + 5), ":2:110:3600000-7200000 ");
    assert_string_equal(SPENT(.tenant = 1, .until_ms = HOUR), ":1:1:3599999-3599999 ");
    assert_string_equal(SPENT(.tenant = 1, .until_ms = HOUR + 1), ":2:11:3599999-3600000 ");
    assert_string_equal(SPENT(.tenant = 1, .since_ms = 3 * HOUR), "");
    // To the millisecond.
    assert_string_equal(SPENT(.tenant = 1, .by = SPEND_BY_REQUEST, .since_ms = HOUR + 1),
                        "r3:1:100:7200000-7200000 ");
    assert_string_equal(SPENT(.tenant = 1, .by = SPEND_BY_REQUEST, .until_ms = HOUR),
                        "r1:1:1:3599999-3599999 ");
    // Of one sandbox.
    assert_string_equal(SPENT(.tenant = 1, .sandbox = "s1"), ":2:11:3599999-3600000 ");
    assert_string_equal(SPENT(.tenant = 1, .sandbox = "s1", .by = SPEND_BY_MODEL, .since_ms = HOUR),
                        "m1:1:10:3600000-3600000 ");
    assert_string_equal(SPENT(.tenant = 1, .sandbox = "s%"), "");
    spend(1, "s1", "stop", "m1", 1000, 2 * HOUR);
    assert_string_equal(SPENT(.tenant = 1, .by = SPEND_BY_REQUEST), "stop:1:1000:7200000-7200000 ");
}

// -- sandboxes

static struct sandbox_row get(const char *id)
{
    struct sandbox_row row = {0};
    MUST_BE(db_sandbox_get(kit_db, 1, id, &row, &err), 1);
    return row;
}

CHECK_CASE(what_a_sandbox_has_spent)
{
    int64_t number = kit_sandbox("a"), red = kit_tenant("red");
    struct spend_row spend_row = {.tenant = 1, .sandbox_number = number, .cost = 7, .input = 1};
    spend_row.output = 2, spend_row.cache_write = 4, spend_row.cache_write_1h = 8;
    spend_row.cache_read = 16, spend_row.searches = 1000;
    struct sandbox_row before = get("a");
    MUST(db_spend_add(kit_db, &spend_row, &err));
    MUST(db_spend_add(kit_db, &spend_row, &err));
    MUST(db_sandbox_update(kit_db, &before, &err)); // a copy that knows nothing of it
    struct sandbox_row row = get("a");
    assert_int_equal(row.spent_cost, 14);
    assert_int_equal(row.spent_tokens, 62);
    sandbox_row_done(&row);
    spend_row.tenant = red; // not theirs
    MUST(db_spend_add(kit_db, &spend_row, &err));
    spend_row = (struct spend_row){.tenant = 1, .sandbox_number = 99, .cost = 1}; // gone
    MUST(db_spend_add(kit_db, &spend_row, &err));
    MUST(db_begin(kit_db, &err)); // all or nothing, too
    spend_row.sandbox_number = number;
    MUST(db_spend_add(kit_db, &spend_row, &err));
    db_rollback(kit_db);
    row = get("a");
    assert_int_equal(row.spent_cost, 14);
    sandbox_row_done(&row);
    sandbox_row_done(&before);
    assert_string_equal(kit_ask("SELECT sum(cost) FROM spend_hours"), "22");
}

CHECK_CASE(more_than_there_is)
{
    int64_t number = kit_sandbox("a");
    struct spend_row row = {.tenant = 1, .sandbox_number = number, .cost = INT64_MAX};
    row.input = INT64_MAX;
    row.output = INT64_MIN;
    MUST(db_spend_add(kit_db, &row, &err));
    assert_string_equal(kit_ask("SELECT spent_cost || ' ' || spent_tokens FROM sandboxes"),
                        "1000000000000000 1000000000");
    kit_exec("UPDATE sandboxes SET spent_cost = 3999999999999999999;"
             "UPDATE spend_hours SET cost = 3999999999999999999");
    MUST(db_spend_add(kit_db, &row, &err));
    MUST(db_spend_add(kit_db, &row, &err));
    assert_string_equal(kit_ask("SELECT spent_cost FROM sandboxes"), "4000000000000000000");
    assert_string_equal(kit_ask("SELECT cost FROM spend_hours"), "4000000000000000000");
}

CHECK_CASE(made_up_models)
{
    char name[32];
    for (int i = 0; i < 150; i++) {
        (void)snprintf(name, sizeof name, "m%d", i);
        spend(1, "", "", name, 1, 1000);
        spend(1, "", "", "m1", 1, 1000);
    }
    assert_true(strtol(kit_ask("SELECT count(*) FROM spend_hours"), NULL, 10) <= 101);
    assert_string_equal(kit_ask("SELECT requests FROM spend_hours WHERE model = 'm1'"), "151");
    assert_string_equal(kit_ask("SELECT requests FROM spend_hours WHERE model = 'other'"), "50");
}

// -- room

CHECK_CASE(old_ones_go)
{
    spend(1, "s1", "r1", "m1", 1, 10 * HOUR);
    spend(1, "s1", "r2", "m1", 10, 11 * HOUR);
    MUST(db_spend_expire(kit_db, 11 * HOUR, &err));
    assert_string_equal(SPENT(.tenant = 1), ":1:10:39600000-39600000 ");
    assert_string_equal(SPENT(.tenant = 1, .by = SPEND_BY_REQUEST), "r2:1:10:39600000-39600000 ");
}

CHECK_CASE(so_many_calls)
{
    kit_exec(SERIES
             "INSERT INTO spend (tenant, time_ms, sandbox_number, sandbox, request, source, model,"
             " input, output, cache_write, cache_write_1h, cache_read, searches, fetches, cost)"
             " SELECT 1, 1000 + value, 0, '', 'r' || value, 'box', 'm', 1, 2, 4, 8, 16, 32, 64, 1"
             " FROM series LIMIT 21000");
    for (int i = 0; i < 500; i++)
        spend(1, "", "", "m", 1, 50000);
    long left = strtol(kit_ask("SELECT count(*) FROM spend"), NULL, 10);
    assert_true(left >= DB_SPEND_KEPT && left < DB_SPEND_KEPT + 500);
    assert_string_equal(SPENT(.tenant = 1), ":21500:21500:1001-50000 "); // the sums know all
}

// -- due

static int see_due(void *data, const struct sandbox_row *row)
{
    char *ids = data;
    size_t len = strlen(ids);
    (void)snprintf(ids + len, 64 - len, "%s ", row->id);
    return 0;
}

static const char *due(int64_t now_ms, unsigned max)
{
    static char ids[64];
    ids[0] = '\0';
    MUST(db_sandbox_each_due(kit_db, now_ms, max, see_due, ids, &err));
    return ids;
}

static void add_due(char *id, int64_t active_ms, int64_t after_ms, bool keep, int status)
{
    struct sandbox_row row = kit_row(1, id, id);
    row.active_ms = active_ms;
    row.destroy_after_ms = after_ms;
    row.keep_alive = keep;
    row.status = (enum sandbox_status)status;
    MUST(db_sandbox_add(kit_db, &row, &err));
}

CHECK_CASE(who_is_due)
{
    add_due((char[]){"never"}, 0, 0, false, SANDBOX_SLEEPING);
    add_due((char[]){"late"}, 1000, 500, false, SANDBOX_SLEEPING);
    add_due((char[]){"early"}, 100, 900, false, SANDBOX_RUNNING);
    add_due((char[]){"kept"}, 100, 1, true, SANDBOX_RUNNING);
    add_due((char[]){"going"}, 100, 1, false, SANDBOX_DESTROYING);
    assert_string_equal(due(999, 0), "");
    assert_string_equal(due(1000, 0), "early ");
    assert_string_equal(due(1500, 0), "early late ");
    assert_string_equal(due(INT64_MAX, 1), "early ");
    MUST(db_sandbox_touch(kit_db, 3, 5000, &err));
    assert_string_equal(due(1500, 0), "late ");
    sqlite3 *sql = kit_raw();
    sqlite3_stmt *stmt = NULL; // what it looks at does not grow with those that are not due
    assert_int_equal(sqlite3_prepare_v2(sql,
                                        "EXPLAIN QUERY PLAN SELECT 1 FROM sandboxes"
                                        " WHERE destroy_after_ms > 0"
                                        " AND active_ms + destroy_after_ms <= 5",
                                        -1, &stmt, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_non_null(strstr((const char *)sqlite3_column_text(stmt, 3), "sandboxes_due"));
    (void)sqlite3_finalize(stmt);
    assert_int_equal(sqlite3_close(sql), SQLITE_OK);
}

CHECK_MAIN(KIT_CASE(in_every_way), KIT_CASE(from_and_until), KIT_CASE(what_a_sandbox_has_spent),
           KIT_CASE(more_than_there_is), KIT_CASE(made_up_models), KIT_CASE(old_ones_go),
           KIT_CASE(so_many_calls), KIT_CASE(who_is_due))
