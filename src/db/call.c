// SPDX-License-Identifier: Apache-2.0
// Statements: kept prepared, their values, and what SQLite's answers mean here.
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "db/db-internal.h"

enum { PAGE_ROWS = 256 };

// -- errors

static int is_space(int sys_errno)
{
    return sys_errno == ENOSPC || sys_errno == EDQUOT;
}

int db_error(sqlite3 *sql, int rc, struct err *err)
{
    int sys_errno = sqlite3_system_errno(sql);
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return err_set(err, ERR_UNAVAILABLE, // nobody's quota, and it passes
                       "the database cannot grow: free space in the data directory");
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        if (is_space(sys_errno))
            return err_set(err, ERR_UNAVAILABLE, "the database cannot grow: %s",
                           strerrordesc_np(sys_errno));
        (void)err_set(err, ERR_INTERNAL, "the database's file: %s (%s)", sqlite3_errstr(rc),
                      sys_errno != 0 ? strerrordesc_np(sys_errno) : "no reason given");
        break;
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return err_set(err, ERR_INTERNAL,
                       "the database cannot be written: its files, and their directory, must be "
                       "writable by the user that runs the daemon");
    case SQLITE_CORRUPT:
        return err_set(err, ERR_INTERNAL,
                       "the database is damaged (%s): stop the daemon, and put a copy in place or "
                       "save what 'sqlite3 FILE .recover' can",
                       sqlite3_errmsg(sql));
    case SQLITE_NOTADB:
        return err_set(err, ERR_INVALID, "this is not a database");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(err, ERR_UNAVAILABLE, "the database is in use by another program");
    case SQLITE_NOMEM:
        return err_set(err, ERR_EXHAUSTED, "no memory for the database");
    case SQLITE_TOOBIG:
        return err_set(err, ERR_INVALID, "too large for the database");
    default:
        (void)err_set(err, ERR_INTERNAL, "database: %s", sqlite3_errmsg(sql));
        break;
    }
    err->sys_errno = sys_errno;
    return -1;
}

// -- one use of a statement

int call_start(struct call *call, struct db *db, enum db_stmt which, const char *text,
               struct err *err)
{
    *call = (struct call){.db = db};
    if (db->cache[which].stmt == NULL) {
        int rc = sqlite3_prepare_v3(db->sql, text, -1, SQLITE_PREPARE_PERSISTENT,
                                    &db->cache[which].stmt, NULL);
        if (rc != SQLITE_OK)
            return db_error(db->sql, rc, err);
        db->cache[which].text = text;
    }
    assert(db->cache[which].text == text);
    assert(!sqlite3_stmt_busy(db->cache[which].stmt));
    call->stmt = db->cache[which].stmt;
    return 0;
}

void call_end(struct call *call)
{
    if (call->stmt == NULL)
        return;
    (void)sqlite3_reset(call->stmt);
    (void)sqlite3_clear_bindings(call->stmt); // they point into the caller's memory
    call->stmt = NULL;
}

static void note(struct call *call, int rc)
{
    if (call->rc == SQLITE_OK)
        call->rc = rc;
}

void put_int(struct call *call, int64_t value)
{
    note(call, sqlite3_bind_int64(call->stmt, ++call->next_put, value));
}

void put_text(struct call *call, const char *text)
{
    note(call, sqlite3_bind_text(call->stmt, ++call->next_put, text, -1, SQLITE_STATIC));
}

void put_blob(struct call *call, const void *data, size_t len)
{
    // An empty one is not NULL.
    note(call, sqlite3_bind_blob64(call->stmt, ++call->next_put, data != NULL ? data : "", len,
                                   SQLITE_STATIC));
}

int call_delete(struct call *call, struct err *err)
{
    if (call_run(call, err) < 0)
        return -1;
    if (sqlite3_changes(call->db->sql) == 0)
        return 0;
    return db_sync(call->db, err) < 0 ? -1 : 1;
}

int call_check(const struct call *call, struct err *err)
{
    return call->rc == SQLITE_OK ? 0 : db_error(call->db->sql, call->rc, err);
}

int call_step(struct call *call, struct err *err)
{
    if (call_check(call, err) < 0)
        return -1;
    call->next_get = 0;
    int rc = sqlite3_step(call->stmt);
    if (rc == SQLITE_ROW || rc == SQLITE_DONE)
        return rc == SQLITE_ROW;
    call->rc = rc;
    return db_error(call->db->sql, rc, err);
}

int call_run(struct call *call, struct err *err)
{
    int r;
    do {
        r = call_step(call, err);
    } while (r > 0);
    call_end(call);
    return r;
}

int call_run_one(struct call *call, const char *what, struct err *err)
{
    if (call_run(call, err) < 0)
        return -1;
    if (sqlite3_changes(call->db->sql) == 0)
        return err_set(err, ERR_NOT_FOUND, "this %s is gone", what);
    return 0;
}

bool call_is_conflict(const struct call *call)
{
    return call->rc == SQLITE_CONSTRAINT_UNIQUE || call->rc == SQLITE_CONSTRAINT_PRIMARYKEY;
}

bool call_is_orphan(const struct call *call)
{
    return call->rc == SQLITE_CONSTRAINT_FOREIGNKEY;
}

int64_t get_int(struct call *call)
{
    return sqlite3_column_int64(call->stmt, call->next_get++);
}

bool get_bool(struct call *call)
{
    return get_int(call) != 0;
}

char *get_blob(struct call *call, size_t *ret_len)
{
    int at = call->next_get++;
    const void *data = sqlite3_column_blob(call->stmt, at);
    size_t len = (size_t)sqlite3_column_bytes(call->stmt, at);
    *ret_len = 0;
    if (sqlite3_column_type(call->stmt, at) == SQLITE_NULL)
        return NULL;
    char *copy = malloc(len + 1);
    if (copy == NULL || (data == NULL && len > 0)) {
        free(copy);
        note(call, SQLITE_NOMEM);
        return NULL;
    }
    if (len > 0)
        memcpy(copy, data, len);
    copy[len] = '\0';
    *ret_len = len;
    return copy;
}

char *get_text(struct call *call)
{
    size_t len;
    return get_blob(call, &len);
}

bool db_is_chosen(struct db *db, uint32_t in)
{
    db->dice ^= db->dice << 13;
    db->dice ^= db->dice >> 17;
    db->dice ^= db->dice << 5;
    return db->dice % in == 0;
}

// -- rows

int call_row(struct call *call, const struct row_kind *kind, void *ret_row, struct err *err)
{
    int r = call_step(call, err);
    if (r <= 0)
        return r;
    memset(ret_row, 0, kind->size);
    kind->read(call, ret_row);
    if (call_check(call, err) == 0)
        return 1;
    kind->done(ret_row);
    return -1;
}

static void *row_at(const struct walk *walk, char *rows, size_t i)
{
    return rows + i * walk->kind->size;
}

static void drop_rows(const struct walk *walk, char *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        walk->kind->done(row_at(walk, rows, i));
}

// How many, or -1.
static int read_page(const struct walk *walk, void *arg, const void *last, unsigned max, char *rows,
                     struct err *err)
{
    auto_call call = {0};
    unsigned n = 0;
    int r = walk->page(arg, last, max, &call, err) < 0 ? -1 : 1;
    while (r > 0 && n < max) {
        r = call_row(&call, walk->kind, row_at(walk, rows, n), err);
        n += r > 0;
    }
    if (r < 0)
        drop_rows(walk, rows, n);
    return r < 0 ? -1 : (int)n;
}

// Whether the callback wants to go on.
static bool visit_page(const struct walk *walk, void *arg, char *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (walk->visit(arg, row_at(walk, rows, i)) != 0)
            return false;
    }
    return true;
}

int db_walk(const struct walk *walk, void *arg, unsigned max, struct err *err)
{
    size_t left = max != 0 ? max : SIZE_MAX;
    const unsigned size = left < PAGE_ROWS ? max : PAGE_ROWS;
    auto_free char *rows = calloc(size + 1, walk->kind->size);
    if (rows == NULL)
        return err_set(err, ERR_EXHAUSTED, "no memory for rows");
    void *const last = row_at(walk, rows, size); // the page before ended with it
    bool has_last = false;
    for (bool more = true; more;) {
        unsigned want = left < size ? (unsigned)left : size;
        int n = read_page(walk, arg, has_last ? last : NULL, want, rows, err);
        if (has_last)
            walk->kind->done(last);
        if (n < 0)
            return -1;
        left -= (size_t)n;
        more = visit_page(walk, arg, rows, (size_t)n) && (unsigned)n == want && left > 0;
        has_last = more;
        if (has_last)
            memcpy(last, row_at(walk, rows, (size_t)--n), walk->kind->size);
        drop_rows(walk, rows, (size_t)n);
    }
    return 0;
}
