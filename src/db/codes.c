// SPDX-License-Identifier: Apache-2.0
// Code that was generated before and has worked, by the hash of what it follows from.
#include <string.h>

#include "db/db-internal.h"

enum { TRIM_EVERY = 64, TRIM_MAX = 500, CODE_MAX = 64 * 1024 };

int db_code_get(struct db *db, const uint8_t key[DB_CODE_KEY], char **ret, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_CODE_GET, "SELECT code FROM codes WHERE key = ?", err) < 0)
        return -1;
    put_blob(&call, key, DB_CODE_KEY);
    int r = call_step(&call, err);
    if (r <= 0)
        return r;
    char *code = get_text(&call);
    if (call_check(&call, err) < 0)
        return -1;
    *ret = code;
    return 1;
}

static int trim(struct db *db, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_CODE_TRIM,
                   "DELETE FROM codes WHERE seq IN (SELECT seq FROM codes WHERE seq <="
                   " (SELECT seq FROM codes ORDER BY seq DESC LIMIT 1 OFFSET ?)"
                   " ORDER BY seq LIMIT ?)",
                   err) < 0)
        return -1;
    put_int(&call, DB_CODES_KEPT);
    put_int(&call, TRIM_MAX);
    return call_run(&call, err);
}

// Replaced, it is the newest.
int db_code_put(struct db *db, const uint8_t key[DB_CODE_KEY], int64_t tenant, const char *code,
                struct err *err)
{
    auto_call call = {0};
    if (strlen(code) > CODE_MAX)
        return 0; // asked for again it is generated again
    if (call_start(&call, db, STMT_CODE_PUT,
                   "REPLACE INTO codes (key, tenant, code, made_ms) VALUES (?, ?, ?, ?)", err) < 0)
        return -1;
    put_blob(&call, key, DB_CODE_KEY);
    put_int(&call, tenant);
    put_text(&call, code);
    put_int(&call, db_now_ms());
    if (call_run(&call, err) < 0)
        return -1;
    struct err ignored; // it is written; the next trim takes what this one left
    if (db_is_chosen(db, TRIM_EVERY))
        (void)trim(db, &ignored);
    return 0;
}

int db_code_expire(struct db *db, int64_t before_ms, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_CODE_EXPIRE,
                   "DELETE FROM codes WHERE seq IN"
                   " (SELECT seq FROM codes WHERE made_ms < ? ORDER BY made_ms LIMIT ?)",
                   err) < 0)
        return -1;
    put_int(&call, before_ms);
    put_int(&call, TRIM_MAX);
    return call_run(&call, err) < 0 ? -1 : trim(db, err);
}
