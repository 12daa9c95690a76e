// SPDX-License-Identifier: Apache-2.0
// Opening, transactions, syncing, and moving the log into the database.
//
// Who waits for a disk: in WAL mode with synchronous=NORMAL a commit only writes, but for one case:
// the first after the log was begun anew syncs the log's head (else a power cut could bring old
// pages back). So db_open and db_checkpoint make that first write themselves.
#include "db/db.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "db/schema-internal.h"

enum {
    BUSY_MS = 5000, // for the moment in which db_checkpoint writes
    POLL_US = 100,
    // In frames, which are pages of the log: 4, 64 and 128 MiB.
    LOG_RESTART = 1024,
    LOG_FORCE = 16 * LOG_RESTART,
    LOG_MOST = 2 * LOG_FORCE,
};

int64_t db_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// -- opening

// SQLite would make it readable by all; its other files get the mode of this one. An existing file
// is not touched: closing a descriptor of it would drop the locks of another connection.
static int make_file(const char *path, struct err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno != EEXIST)
        return err_sys(err, errno, "make it");
    fd_close(fd);
    return 0;
}

static int set_up(sqlite3 *sql, struct err *err)
{
    static const char text[] = "PRAGMA foreign_keys = ON;"
                               "PRAGMA trusted_schema = OFF;"
                               "PRAGMA secure_delete = FAST;"
                               "PRAGMA synchronous = NORMAL;"
                               // What the log's file is cut to when it is begun anew.
                               "PRAGMA journal_size_limit = 8388608";
    (void)sqlite3_busy_timeout(sql, BUSY_MS);
    // Should db_checkpoint never come, writers do its work, and wait for it.
    (void)sqlite3_wal_autocheckpoint(sql, LOG_MOST);
    int rc = sqlite3_exec(sql, text, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : db_error(sql, rc, err);
}

static int use_log(sqlite3 *sql, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(sql, "PRAGMA journal_mode = WAL", -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    const char *mode = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    bool is_on = mode != NULL && strcmp(mode, "wal") == 0;
    (void)sqlite3_finalize(stmt);
    if (rc != SQLITE_ROW)
        return db_error(sql, rc, err);
    return is_on ? 0
                 : err_set(err, ERR_UNSUPPORTED,
                           "its file system cannot share memory, which a write-ahead log needs");
}

// The version once more is the smallest write there is.
static int start_log(sqlite3 *sql, struct err *err)
{
    int64_t version;
    int rc = sqlite3_exec(sql, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return db_error(sql, rc, err);
    int r = schema_int(sql, "PRAGMA user_version", &version, err);
    if (r == 0)
        r = schema_stamp(sql, version, err);
    rc = sqlite3_exec(sql, r == 0 ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL);
    return r == 0 && rc != SQLITE_OK ? db_error(sql, rc, err) : r;
}

static int open_file(const char *path, sqlite3 **ret, struct err *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int rc = sqlite3_open_v2(path, ret, flags, NULL);
    if (*ret == NULL)
        return err_set(err, ERR_EXHAUSTED, "no memory for the database");
    if (rc != SQLITE_OK)
        return db_error(*ret, rc, err);
    return set_up(*ret, err);
}

// SQLite's locks are on other files: opening and closing this one loses none.
static int open_log(struct db *db, const char *path, struct err *err)
{
    char name[4096];
    (void)snprintf(name, sizeof name, "%s-wal", path);
    db->log_fd = open(name, O_RDONLY | O_CLOEXEC);
    return db->log_fd < 0 ? err_sys(err, errno, "open the database's log") : 0;
}

int db_log_fd(const struct db *db)
{
    return db->log_fd;
}

int db_open(const char *path, struct db **ret, struct err *err)
{
    struct db *db = calloc(1, sizeof *db);
    if (db == NULL)
        abort();
    db->dice = 1;
    db->log_fd = -1;
    db_result_limit(db, DB_RESULTS_KEPT, DB_RESULTS_BYTES);
    if (make_file(path, err) == 0 && open_file(path, &db->sql, err) == 0 &&
        use_log(db->sql, err) == 0 && schema_migrate(db->sql, err) == 0 &&
        start_log(db->sql, err) == 0 && open_log(db, path, err) == 0) {
        *ret = db;
        return 0;
    }
    db_close(db);
    return err_wrap(err, "database %s", path);
}

void db_close(struct db *db)
{
    if (db == NULL)
        return;
    for (unsigned i = 0; i < STMT_MAX; i++)
        (void)sqlite3_finalize(db->cache[i].stmt);
    int rc = sqlite3_close(db->sql);
    assert(rc == SQLITE_OK);
    fd_close(db->log_fd);
    free(db);
}

// -- transactions

static int run(struct db *db, enum db_stmt which, const char *text, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, which, text, err) < 0)
        return -1;
    return call_run(&call, err);
}

int db_begin(struct db *db, struct err *err)
{
    assert(sqlite3_get_autocommit(db->sql)); // they do not nest
    db->sync_due = false;
    return run(db, STMT_BEGIN, "BEGIN IMMEDIATE", err);
}

int db_commit(struct db *db, struct err *err)
{
    // A full disk ends a transaction by itself.
    if (sqlite3_get_autocommit(db->sql))
        return err_set(err, ERR_INTERNAL, "the database has undone this already");
    if (run(db, STMT_COMMIT, "COMMIT", err) < 0) {
        db_rollback(db);
        return -1;
    }
    return db->sync_due ? db_sync(db, err) : 0;
}

void db_rollback(struct db *db)
{
    if (!sqlite3_get_autocommit(db->sql))
        (void)sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
}

// What synchronous=FULL does after each commit, for one: it cannot be switched inside a
// transaction.
int db_sync(struct db *db, struct err *err)
{
    sqlite3_file *log = NULL;
    if (!sqlite3_get_autocommit(db->sql)) {
        db->sync_due = true;
        return 0;
    }
    db->sync_due = false;
    int rc = sqlite3_file_control(db->sql, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (rc == SQLITE_OK)
        rc = log != NULL && log->pMethods != NULL ? log->pMethods->xSync(log, SQLITE_SYNC_NORMAL)
                                                  : SQLITE_INTERNAL;
    return rc == SQLITE_OK ? 0 : db_error(db->sql, rc, err);
}

// -- moving the log into the database

// SQLite's own way of waiting sleeps ever longer, and hardly meets the gaps of a busy writer.
static int wait_a_little(void *arg, int times)
{
    const struct timespec delay = {.tv_nsec = POLL_US * 1000};
    (void)arg;
    (void)nanosleep(&delay, NULL);
    return times < BUSY_MS * 1000 / POLL_US;
}

// The passive way keeps nobody waiting, and leaves what is written meanwhile; once it left nothing
// the log can be begun anew. A log that writers never let come to that is ended by making them
// wait.
static int checkpoint(sqlite3 *sql, struct err *err)
{
    int frames = 0, moved = 0;
    (void)sqlite3_busy_handler(sql, wait_a_little, NULL);
    int rc = sqlite3_wal_checkpoint_v2(sql, NULL, SQLITE_CHECKPOINT_PASSIVE, &frames, &moved);
    if (rc == SQLITE_OK && frames >= LOG_RESTART && moved == frames)
        return start_log(sql, err);
    if (rc == SQLITE_OK && frames >= LOG_FORCE)
        rc = sqlite3_wal_checkpoint_v2(sql, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return rc == SQLITE_OK || rc == SQLITE_BUSY ? 0 : db_error(sql, rc, err);
}

int db_checkpoint(const char *path, struct err *err)
{
    sqlite3 *sql = NULL;
    int r = open_file(path, &sql, err);
    if (r == 0)
        r = checkpoint(sql, err);
    (void)sqlite3_close(sql);
    return r < 0 ? err_wrap(err, "checkpoint of %s", path) : 0;
}

// -- settings of the installation

int db_meta_get(struct db *db, const char *key, char **ret, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_META_GET, "SELECT value FROM meta WHERE key = ?", err) < 0)
        return -1;
    put_text(&call, key);
    int r = call_step(&call, err);
    if (r <= 0)
        return r;
    char *value = get_text(&call);
    if (call_check(&call, err) < 0)
        return -1;
    *ret = value;
    return 1;
}

int db_meta_set(struct db *db, const char *key, const char *value, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_META_SET, "REPLACE INTO meta (key, value) VALUES (?, ?)", err) <
        0)
        return -1;
    put_text(&call, key);
    put_text(&call, value);
    return call_run(&call, err);
}
