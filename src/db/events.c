// SPDX-License-Identifier: Apache-2.0
// A sandbox's events. Which are too many is looked for about once in 64 times, by chance: any rule
// that counts could be dodged by sandboxes that take turns.
#include <stdlib.h>

#include "db/db-internal.h"

enum { TRIM_EVERY = 64 };

static void read_row(struct call *call, void *ret_row)
{
    struct event_row *row = ret_row;
    row->seq = get_int(call);
    row->sandbox = get_int(call);
    row->time_ms = get_int(call);
    row->type = get_text(call);
    row->data = get_text(call);
}

static void row_done(void *arg)
{
    struct event_row *row = arg;
    free(row->type);
    free(row->data);
    *row = (struct event_row){0};
}

static const struct row_kind kind = {sizeof(struct event_row), read_row, row_done};

static int trim(struct db *db, int64_t sandbox, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_EVENT_TRIM,
                   "DELETE FROM events WHERE sandbox = ?1 AND seq <= (SELECT seq FROM events"
                   " WHERE sandbox = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
                   err) < 0)
        return -1;
    put_int(&call, sandbox);
    put_int(&call, DB_EVENTS_KEPT);
    return call_run(&call, err);
}

int db_event_add(struct db *db, struct event_row *row, struct err *err)
{
    auto_call call;
    if (call_start(&call, db, STMT_EVENT_ADD,
                   "INSERT INTO events (sandbox, time_ms, type, data) VALUES (?, ?, ?, ?)",
                   err) < 0)
        return -1;
    put_int(&call, row->sandbox);
    put_int(&call, row->time_ms);
    put_text(&call, row->type);
    put_text(&call, row->data != NULL ? row->data : "{}");
    if (call_run(&call, err) < 0)
        return call_is_orphan(&call) ? err_set(err, ERR_NOT_FOUND, "this sandbox is gone") : -1;
    row->seq = sqlite3_last_insert_rowid(db->sql);
    struct err ignored; // the event is written; the next trim takes what this one left
    if (db_is_chosen(db, TRIM_EVERY))
        (void)trim(db, row->sandbox, &ignored);
    return 0;
}

// -- in their order

struct list {
    struct db *db;
    int64_t sandbox, after;
    db_event_fn fn;
    void *data;
};

static int page(void *arg, const void *last, unsigned max, struct call *call, struct err *err)
{
    const struct list *list = arg;
    const struct event_row *row = last;
    if (call_start(call, list->db, STMT_EVENT_PAGE,
                   "SELECT seq, sandbox, time_ms, type, data FROM events"
                   " WHERE sandbox = ? AND seq > ? ORDER BY seq LIMIT ?",
                   err) < 0)
        return -1;
    put_int(call, list->sandbox);
    put_int(call, row != NULL ? row->seq : list->after);
    put_int(call, max);
    return 0;
}

static int visit(void *arg, const void *row)
{
    const struct list *list = arg;
    return list->fn(list->data, row);
}

int db_event_each(struct db *db, int64_t sandbox, int64_t after, unsigned max, db_event_fn fn,
                  void *data, struct err *err)
{
    static const struct walk walk = {&kind, page, visit};
    struct list list = {db, sandbox, after, fn, data};
    return db_walk(&walk, &list, max, err);
}
