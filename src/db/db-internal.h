// SPDX-License-Identifier: Apache-2.0
// One use of a prepared statement, for the files of this room:
//
//     auto_call call;
//     if (call_start(&call, db, STMT_META_GET, "SELECT value FROM meta WHERE key = ?", err) < 0)
//         return -1;
//     put_text(&call, key);
//     int r = call_step(&call, err);   1: a row, 0: no more, -1: err
//     if (r > 0) *ret = get_text(&call);
//
// Values are put in the order of the question marks and got in the order of the columns. What goes
// wrong with them shows in the next call_step or in call_check. Every value is bound; none is ever
// part of a statement's text.
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "db/db.h"

enum db_stmt {
    STMT_BEGIN,
    STMT_COMMIT,
    STMT_META_GET,
    STMT_META_SET,
    STMT_TENANT_GET,
    STMT_TENANT_BY_NUMBER,
    STMT_TENANT_PUT,
    STMT_TOKEN_ADD,
    STMT_TOKEN_BY_HASH,
    STMT_TOKEN_BY_ID,
    STMT_TOKEN_REVOKE,
    STMT_TOKEN_PAGE,
    STMT_SANDBOX_ADD,
    STMT_SANDBOX_GET,
    STMT_SANDBOX_BY_SLUG,
    STMT_SANDBOX_BY_NUMBER,
    STMT_SANDBOX_PAGE_ID,
    STMT_SANDBOX_PAGE_DUE,
    STMT_SANDBOX_PAGE_IDLE,
    STMT_SANDBOX_UPDATE,
    STMT_SANDBOX_TOUCH,
    STMT_SANDBOX_DEL,
    STMT_SANDBOX_PAGE,
    STMT_SANDBOX_PAGE_ALL,
    STMT_SANDBOX_USAGE,
    STMT_SANDBOX_USAGE_ALL,
    STMT_SYNC_PUT,
    STMT_SYNC_GET,
    STMT_SYNC_DEL,
    STMT_SYNC_PAGE,
    STMT_SYNC_PAGE_DUE,
    STMT_SNAPSHOT_ADD,
    STMT_SNAPSHOT_READY,
    STMT_SNAPSHOT_GET,
    STMT_SNAPSHOT_FIND,
    STMT_SNAPSHOT_DEL,
    STMT_SNAPSHOT_PAGE,
    STMT_SNAPSHOT_PAGE_ALL,
    STMT_SNAPSHOT_COUNT,
    STMT_SNAPSHOT_HELD,
    STMT_SNAPSHOT_FORGET,
    STMT_SECRET_PUT,
    STMT_SECRET_GET,
    STMT_SECRET_DEL,
    STMT_SECRET_PAGE,
    STMT_BACKUP_ADD,
    STMT_BACKUP_READY,
    STMT_BACKUP_GET,
    STMT_BACKUP_DEL,
    STMT_BACKUP_PAGE,
    STMT_BACKUP_PAGE_OF,
    STMT_BACKUP_PAGE_ALL,
    STMT_BACKUP_PAGE_EXPIRED,
    STMT_BACKUP_PAGE_ORPHANS,
    STMT_DOOMED_ADD,
    STMT_DOOMED_NEXT,
    STMT_DOOMED_DEL,
    STMT_STORED_SUMS,
    STMT_OPENCODE_PUT,
    STMT_OPENCODE_GET,
    STMT_OPENCODE_STARTED,
    STMT_PORT_PUT,
    STMT_PORT_GET,
    STMT_PORT_DEL,
    STMT_PORT_PAGE,
    STMT_URL_ADD,
    STMT_URL_BY_HASH,
    STMT_URL_DEL,
    STMT_URL_PAGE,
    STMT_URL_EXPIRE,
    STMT_URL_FORGET_NOBODYS,
    STMT_PROCESS_ADD,
    STMT_PROCESS_GET,
    STMT_PROCESS_STARTED,
    STMT_PROCESS_END,
    STMT_PROCESS_PAGE,
    STMT_PROCESS_DEL,
    STMT_SESSION_PUT,
    STMT_SESSION_GET,
    STMT_SESSION_PAGE,
    STMT_SESSION_DEL,
    STMT_CONTEXT_PUT,
    STMT_CONTEXT_PAGE,
    STMT_CONTEXT_DEL,
    STMT_EVENT_ADD,
    STMT_EVENT_TRIM,
    STMT_EVENT_PAGE,
    STMT_RESULT_ADD,
    STMT_RESULT_END,
    STMT_RESULT_GET,
    STMT_RESULT_HEAD,
    STMT_RESULT_DEL,
    STMT_RESULT_LOSE,
    STMT_RESULT_PAGE,
    STMT_RESULT_PAGE_ALL,
    STMT_RESULT_EXPIRE,
    STMT_RESULT_OVER,
    STMT_RESULT_TRIM,
    STMT_RESULT_ASKED,
    STMT_RESULT_WORK,
    STMT_RESULT_LEFT,
    STMT_RESULT_UNSTORED,
    STMT_RESULT_STORED,
    STMT_SPEND_ADD,
    STMT_SPEND_TRIM,
    STMT_SPEND_EXPIRE,
    STMT_SPEND_EXPIRE_HOURS,
    STMT_SPEND_SUM, // of one statement for each way (spend.c)
    STMT_SPEND_SUM_LAST = STMT_SPEND_SUM + 27,
    STMT_CODE_GET,
    STMT_CODE_PUT,
    STMT_CODE_EXPIRE,
    STMT_CODE_TRIM,
    STMT_IDEM_TAKE,
    STMT_IDEM_GET,
    STMT_IDEM_DONE,
    STMT_IDEM_DROP,
    STMT_IDEM_EXPIRE,
    STMT_MAX,
};

struct db {
    sqlite3 *sql;
    int log_fd; // of its own
    struct {
        const char *text;
        sqlite3_stmt *stmt;
    } cache[STMT_MAX];                   // prepared when first used
    int64_t results_kept, results_bytes; // of one tenant
    bool sync_due; // something in the open transaction is to survive a power cut
    uint32_t dice; // for db_is_chosen
};

struct call {
    struct db *db;
    sqlite3_stmt *stmt;
    int next_put, next_get;
    int rc; // SQLite's first complaint
};

int call_start(struct call *call, struct db *db, enum db_stmt which, const char *text,
               struct err *err);
void call_end(struct call *call); // takes zeros
#define auto_call __attribute__((cleanup(call_end))) struct call

void put_int(struct call *call, int64_t value);
void put_text(struct call *call, const char *text);                     // NULL is NULL; not copied
void put_blob(struct call *call, const void *data, size_t len);         // not copied
int call_step(struct call *call, struct err *err);                      // 1, 0, -1
int call_run(struct call *call, struct err *err);                       // to its end; 0 or -1
int call_run_one(struct call *call, const char *what, struct err *err); // must change one row
int call_delete(struct call *call, struct err *err);      // synced; 1, 0 when there was none, -1
int call_check(const struct call *call, struct err *err); // after getting; 0 or -1
// What a failed one failed for: a row with the same key, or one that it belongs to and that is
// gone.
bool call_is_conflict(const struct call *call);
bool call_is_orphan(const struct call *call);

int64_t get_int(struct call *call);
bool get_bool(struct call *call);
char *get_text(struct call *call); // a copy, NULL for NULL
// A copy, ended by a NUL that does not count.
char *get_blob(struct call *call, size_t *ret_len);

// Makes the last write, or the transaction that it is in, survive a power cut.
int db_sync(struct db *db, struct err *err);

// True about once in `in` times, by chance: what is to be tidied up is looked for then.
bool db_is_chosen(struct db *db, uint32_t in);

// What SQLite answered, as ours. Always -1.
int db_error(sqlite3 *sql, int rc, struct err *err);

// A type of row: how it is read from the columns, and freed.
struct row_kind {
    size_t size;
    void (*read)(struct call *call, void *ret_row); // into zeros
    void (*done)(void *row);
};
// The one row that the call answers: 1, 0 when there is none, or -1.
int call_row(struct call *call, const struct row_kind *kind, void *ret_row, struct err *err);

// Walks rows in pages that are read whole before the first is handed out, so that the callback may
// use the database as it likes.
struct walk {
    const struct row_kind *kind;
    // Starts the statement for the rows after `last` (NULL: from the beginning), at most `max`.
    int (*page)(void *arg, const void *last, unsigned max, struct call *call, struct err *err);
    int (*visit)(void *arg, const void *row); // not 0: stop
};
int db_walk(const struct walk *walk, void *arg, unsigned max, struct err *err); // max 0: all
