// SPDX-License-Identifier: Apache-2.0
// ?list: what is in a directory, or in all of a tree, page by page. ?stat: one entry.
#include <stdlib.h>
#include <string.h>

#include "api/conditional.h"
#include "api/files-internal.h"
#include "api/files.h"
#include "api/show.h"

enum {
    LIMIT_DEFAULT = 1000,
    LIMIT_MAX = 10000,
    PAGE_BYTES = 16 * 1024 * 1024, // of JSON; a page ends here too
    ENTRY_BYTES = 64 * 1024,       // what one entry takes at most: every byte of its texts escaped
};

struct list_call {
    struct file_call file; // first
    uint64_t limit, n;
    bool recursive, hidden, more;
    char last[HAND_PATH_MAX]; // the newest entry's path
    struct call_list list;
};

// -- listing

static void add_entry(struct list_call *l, const struct hand_entry *entry)
{
    const char *path = (const char *)(entry + 1);
    auto_buf whole;
    buf_init(&whole, 2 * HAND_PATH_MAX);
    file_path_join(&whole, l->file.path, path);
    json_open_object(&l->list.json);
    files_show(&l->list.json, buf_str(&whole), &entry->st, path + entry->path_len + 1);
    json_close_object(&l->list.json);
    (void)snprintf(l->last, sizeof l->last, "%s", path);
    l->n++;
}

static void reply(struct call *call)
{
    struct list_call *l = call->state;
    struct json *j = &l->list.json;
    json_close_array(j);
    if (l->more) {
        auto_buf mark;
        buf_init(&mark, 2 * HAND_PATH_MAX);
        file_mark_write(&mark, l->last);
        show_str(j, "next", buf_str(&mark));
    }
    json_close_object(j);
    call_reply_json(call, 200, j);
}

static void on_record(void *data, const struct hand_record *rec)
{
    struct call *call = data;
    struct list_call *l = call->state;
    const struct hand_entry *entry = (const struct hand_entry *)rec;
    if (rec->type != HAND_REC_ENTRY || l->more)
        return;
    if (l->n < l->limit && l->list.buf.len + ENTRY_BYTES <= PAGE_BYTES) {
        add_entry(l, entry);
        return;
    }
    l->more = true;
    reply(call);
    files_cancel(call); // whatever else would come
}

static void on_done(void *data, const struct hand_ended *ended, const struct err *err)
{
    struct call *call = data;
    struct list_call *l = call->state;
    struct err failed = {0};
    if (err != NULL || files_ended(ended, l->file.path, &failed) < 0)
        files_fail(call, err != NULL ? err : &failed);
    else
        reply(call);
    buf_done(&l->list.buf);
    files_work_over(call);
}

static void cleanup(struct call *call)
{
    struct list_call *l = call->state;
    buf_done(&l->list.buf);
}

static void begin(struct list_call *l)
{
    struct json *j = &l->list.json;
    buf_init(&l->list.buf, PAGE_BYTES + ENTRY_BYTES);
    json_init(j, &l->list.buf);
    json_open_object(j);
    show_bool(j, "success", true);
    show_str(j, "path", l->file.path);
    json_key(j, "entries");
    json_open_array(j);
    l->file.cleanup = cleanup;
}

static void start_list(struct call *call)
{
    static const struct hand_long_ops ops = {.record = on_record, .done = on_done};
    struct list_call *l = call->state;
    struct err err = {0};
    const char *after = call_query(call, "after");
    auto_buf data, path;
    buf_init(&data, HAND_DATA_MAX);
    buf_init(&path, FILE_PATH_MAX);
    if (after != NULL && file_mark_read(after, &path, &err) < 0) {
        (void)err_wrap(&err, "?after");
        call_fail(call, &err);
        return;
    }
    const struct hand_list head = {.after_len = (uint32_t)path.len};
    (void)buf_append(&data, &head, sizeof head);
    (void)buf_append(&data, buf_str(&path), path.len + 1);
    begin(l);
    const struct hand_ask ask = {
        .type = HAND_LIST,
        .path = l->file.path,
        .flags = (l->recursive ? HAND_RECURSIVE : 0u) | (l->hidden ? HAND_HIDDEN : 0u),
        .limit = l->limit + 1, // to see whether there is more
        .data = data.data,
        .data_len = data.len,
    };
    files_work(call, &ask, &ops);
}

void files_list(struct call *call)
{
    struct list_call *l = files_new(call, sizeof *l);
    if (l == NULL || call_query_bool(call, "recursive", false, &l->recursive) < 0 ||
        call_query_bool(call, "hidden", false, &l->hidden) < 0 ||
        call_query_u64(call, "limit", LIMIT_MAX, LIMIT_DEFAULT, &l->limit) < 0)
        return;
    if (call_query(call, "stat") != NULL)
        call_error(call, ERROR_INVALID_REQUEST, NULL, "?list or ?stat, not both");
    else if (l->limit == 0)
        call_error(call, ERROR_INVALID_REQUEST, NULL, "?limit: must be at least 1");
    else
        files_wake(call, start_list);
}

bool files_list_asked(const struct call *call)
{
    return call_query(call, "recursive") != NULL || call_query(call, "hidden") != NULL ||
           call_query(call, "limit") != NULL || call_query(call, "after") != NULL;
}

// -- one entry

static void on_stat(struct call *call, struct hand_answer *answer, const struct err *err)
{
    const struct file_call *f = call->state;
    struct buf buf;
    struct json j;
    char etag[HAND_ETAG + 2];
    if (err != NULL) {
        files_fail(call, err);
        return;
    }
    const struct hand_stat *st = &answer->done.st;
    buf_init(&buf, 2 * ENTRY_BYTES);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    files_show(&j, f->path, st, answer->data);
    files_etag(st, etag);
    show_str(&j, "etag", etag);
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}

static void start_stat(struct call *call)
{
    const struct file_call *f = call->state;
    const struct hand_ask ask = {.type = HAND_STAT, .path = f->path, .flags = HAND_NO_FOLLOW};
    files_ask(call, &ask, on_stat);
}

void files_stat(struct call *call)
{
    struct file_call *f = files_new(call, sizeof *f);
    if (f == NULL)
        return;
    if (files_list_asked(call))
        call_error(call, ERROR_INVALID_REQUEST, NULL, "?stat takes no other parameter");
    else
        files_wake(call, start_stat);
}
