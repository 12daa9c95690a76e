// SPDX-License-Identifier: Apache-2.0
// GET /sandbox/{id}/watch: changes of files as server-sent events. A reader that stops makes us
// stop reading; then changes pile up where the kernel in the box counts them, and when it drops
// some it says so: the event "overflow".
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/files.h"
#include "api/handlers.h"
#include "api/show.h"

enum {
    EVENT_MAX = 64 * 1024,
    GLOBS_MAX = 4096,
};

struct watch_call {
    struct file_call file; // first; its path is what is watched
    bool recursive;
    bool begun; // the stream
};

static const char *const names[] = {
    [HAND_CREATED] = "create",       [HAND_MODIFIED] = "modify",  [HAND_DELETED] = "delete",
    [HAND_MOVED_FROM] = "move_from", [HAND_MOVED_TO] = "move_to", [HAND_ATTRIB] = "attrib",
};

// -- events

static void open_event(struct buf *buf, struct json *j, const char *type)
{
    buf_init(buf, EVENT_MAX);
    json_init(j, buf);
    json_open_object(j);
    show_str(j, "type", type);
}

static void send_event(struct call *call, struct json *j)
{
    json_close_object(j);
    stream_event(call, NULL, NULL, j);
}

static void send_text(struct call *call, const char *type, const char *key, const char *text)
{
    struct buf buf;
    struct json j;
    open_event(&buf, &j, type);
    show_str(&j, key, text);
    show_time_now(&j, "timestamp");
    send_event(call, &j);
}

static void send_watching(struct call *call)
{
    const struct watch_call *w = call->state;
    struct buf buf;
    struct json j;
    open_event(&buf, &j, "watching");
    show_str(&j, "path", w->file.path);
    show_str(&j, "watchId", call->id);
    send_event(call, &j);
}

static void send_change(struct call *call, const struct hand_change *change)
{
    const struct watch_call *w = call->state;
    struct buf buf;
    struct json j;
    auto_buf whole;
    buf_init(&whole, 2 * HAND_PATH_MAX);
    file_path_join(&whole, w->file.path, (const char *)(change + 1));
    open_event(&buf, &j, "event");
    show_str(&j, "eventType", names[change->kind]);
    files_show_text(&j, "path", buf_str(&whole));
    show_bool(&j, "isDirectory", change->is_dir != 0);
    if (change->cookie != 0)
        show_int(&j, "cookie", change->cookie); // pairs move_from with move_to
    show_time_now(&j, "timestamp");
    send_event(call, &j);
}

// -- the stream

static void on_drain(void *data)
{
    struct call *call = data;
    struct watch_call *w = call->state;
    if (w->file.work != NULL)
        hand_long_pause(w->file.work, false);
}

// From here on nothing is missed; a failure before this is an answer of its own.
static void begin(struct call *call)
{
    struct watch_call *w = call->state;
    if (w->begun || call->req == NULL)
        return;
    w->begun = true;
    stream_begin_sse(call);
    http_on_drain(call->req, on_drain, call);
    send_watching(call);
}

static void on_record(void *data, const struct hand_record *rec)
{
    struct call *call = data;
    struct watch_call *w = call->state;
    const struct hand_change *change = (const struct hand_change *)rec;
    if (rec->type != HAND_REC_CHANGE)
        return;
    begin(call);
    sandbox_touch(call->sandbox); // a stream that moves bytes is use
    if (change->kind >= HAND_CREATED && change->kind <= HAND_ATTRIB)
        send_change(call, change);
    else if (change->kind == HAND_OVERFLOW)
        send_text(call, "overflow", "message", "rescan");
    else if (change->kind == HAND_ROOT_GONE)
        send_text(call, "stopped", "reason", "what was watched is gone");
    if (stream_full(call))
        hand_long_pause(w->file.work, true);
}

static void on_done(void *data, const struct hand_ended *ended, const struct err *err)
{
    struct call *call = data;
    struct watch_call *w = call->state;
    struct err failed = {0};
    if (err == NULL && files_ended(ended, w->file.path, &failed) < 0)
        err = &failed;
    if (!w->begun && err != NULL) {
        files_fail(call, err);
    } else if (!w->begun) {
        call_error(call, ERROR_UNAVAILABLE, NULL, "the watch ended before it began");
    } else {
        if (err != NULL && !sandbox_is_up(call->sandbox))
            send_text(call, "stopped", "reason", "the sandbox sleeps or is gone");
        else if (err != NULL)
            send_text(call, "error", "error", err->msg);
        stream_end(call);
    }
    files_work_over(call);
}

// -- the request

static int append_globs(struct call *call, struct buf *data, const char *name, uint32_t *ret_len)
{
    const char *text = call_query(call, name);
    size_t len = text != NULL ? strlen(text) : 0;
    if (len > GLOBS_MAX) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "?%s: is longer than %d bytes", name,
                   GLOBS_MAX);
        return -1;
    }
    (void)buf_append(data, text, len);
    (void)buf_append_char(data, '\0');
    *ret_len = (uint32_t)len;
    return 0;
}

static void start(struct call *call)
{
    static const struct hand_long_ops ops = {.record = on_record, .done = on_done};
    const struct watch_call *w = call->state;
    struct hand_watch head = {0};
    auto_buf data, globs;
    buf_init(&data, HAND_DATA_MAX);
    buf_init(&globs, HAND_DATA_MAX);
    if (append_globs(call, &globs, "include", &head.include_len) < 0 ||
        append_globs(call, &globs, "exclude", &head.exclude_len) < 0)
        return;
    (void)buf_append(&data, &head, sizeof head);
    (void)buf_append(&data, globs.data, globs.len);
    const struct hand_ask ask = {
        .type = HAND_WATCH,
        .path = w->file.path,
        .flags = w->recursive ? HAND_RECURSIVE : 0u,
        .data = data.data,
        .data_len = data.len,
    };
    files_work(call, &ask, &ops);
}

void handle_watch(struct call *call)
{
    struct err err = {0};
    struct watch_call *w = files_new(call, sizeof *w);
    const char *path = call_query(call, "path");
    if (w == NULL || call_query_bool(call, "recursive", true, &w->recursive) < 0)
        return;
    if (path == NULL) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "?path: say what to watch");
    } else if (file_path_check(path, &err) < 0) {
        (void)err_wrap(&err, "?path");
        call_fail(call, &err);
    } else if (call->is_head) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "a watch has no HEAD");
    } else {
        (void)snprintf(w->file.path, sizeof w->file.path, "%s", path);
        files_wake(call, start);
    }
}
