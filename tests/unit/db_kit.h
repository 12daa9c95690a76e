// SPDX-License-Identifier: Apache-2.0
// A database in a directory of its own for each case, and rows to put into it.
#pragma once

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "db/db.h"

static char kit_dir[64], kit_path[80];
static struct db *kit_db;

#define MUST(call)                                                                                 \
    do {                                                                                           \
        struct err err = {0};                                                                      \
        if ((call) < 0)                                                                            \
            fail_msg("%s: %s", #call, err.msg);                                                    \
    } while (0)

// The call answers this: 1 for a row that is there, 0 for one that is not.
#define MUST_BE(call, want)                                                                        \
    do {                                                                                           \
        struct err err = {0};                                                                      \
        int answer_ = (call);                                                                      \
        if (answer_ != (want))                                                                     \
            fail_msg("%s: %d, %s", #call, answer_, err.msg);                                       \
    } while (0)

// The call answers -1 with this code and a message.
#define MUST_FAIL(call, want)                                                                      \
    do {                                                                                           \
        struct err err = {0};                                                                      \
        assert_int_equal((call), -1);                                                              \
        if (err.code != (want) || err.msg[0] == '\0')                                              \
            fail_msg("%s: code %d, %s", #call, (int)err.code, err.msg);                            \
    } while (0)

static inline void kit_forget(void)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char name[96];
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        (void)snprintf(name, sizeof name, "%s%s", kit_path, ends[i]);
        (void)unlink(name);
    }
}

static inline int kit_make_dir(void **state __attribute__((unused)))
{
    (void)snprintf(kit_dir, sizeof kit_dir, "/tmp/cay-db-test.XXXXXX");
    if (mkdtemp(kit_dir) == NULL)
        return -1;
    (void)snprintf(kit_path, sizeof kit_path, "%s/rows.db", kit_dir);
    return 0;
}

static inline int kit_start(void **state)
{
    struct err err;
    return kit_make_dir(state) < 0 ? -1 : db_open(kit_path, &kit_db, &err);
}

static inline int kit_stop(void **state __attribute__((unused)))
{
    db_close(kit_db);
    kit_db = NULL;
    kit_forget();
    return rmdir(kit_dir); // nothing else was left in it
}

static inline void kit_reopen(void)
{
    db_close(kit_db);
    kit_db = NULL;
    MUST(db_open(kit_path, &kit_db, &err));
}

#define KIT_CASE(name) cmocka_unit_test_setup_teardown(name, kit_start, kit_stop)
#define DIR_CASE(name) cmocka_unit_test_setup_teardown(name, kit_make_dir, kit_stop)

// A connection past ours, to look behind it.
static inline sqlite3 *kit_raw(void)
{
    sqlite3 *sql = NULL;
    assert_int_equal(sqlite3_open(kit_path, &sql), SQLITE_OK);
    (void)sqlite3_busy_timeout(sql, 5000);
    return sql;
}

static inline void kit_exec(const char *text)
{
    sqlite3 *sql = kit_raw();
    char *msg = NULL;
    if (sqlite3_exec(sql, text, NULL, NULL, &msg) != SQLITE_OK)
        fail_msg("%s: %s", text, msg);
    assert_int_equal(sqlite3_close(sql), SQLITE_OK);
}

// The first column of the first row, as text.
static inline const char *kit_ask(const char *query)
{
    static char answer[256];
    sqlite3 *sql = kit_raw();
    sqlite3_stmt *stmt = NULL;
    assert_int_equal(sqlite3_prepare_v2(sql, query, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    (void)snprintf(answer, sizeof answer, "%s", (const char *)sqlite3_column_text(stmt, 0));
    (void)sqlite3_finalize(stmt);
    assert_int_equal(sqlite3_close(sql), SQLITE_OK);
    return answer;
}

static inline int64_t kit_tenant(const char *name)
{
    struct tenant_row row = {.name = strdup(name), .sandboxes = -1, .running = -1};
    MUST(db_tenant_put(kit_db, &row, &err));
    int64_t number = row.number;
    tenant_row_done(&row);
    return number;
}

// The texts are the caller's, so this one is not for sandbox_row_done.
static inline struct sandbox_row kit_row(int64_t tenant, char *id, char *slug)
{
    static char image[] = "host", env[] = "{\"A\":\"1\"}", labels[] = "{\"team\":\"red\"}";
    return (struct sandbox_row){
        .tenant = tenant,
        .id = id,
        .slug = slug,
        .status = SANDBOX_SLEEPING,
        .image = image,
        .memory = 1 << 30,
        .disk = 5,
        .pids = 100,
        .cpu_milli = 1500,
        .sleep_after_ms = 600000,
        .env = env,
        .labels = labels,
        .created_ms = 1000,
        .updated_ms = 2000,
        .active_ms = 3000,
    };
}

static inline int64_t kit_sandbox(const char *id)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s", id);
    struct sandbox_row row = kit_row(1, name, name);
    MUST(db_sandbox_add(kit_db, &row, &err));
    return row.number;
}
