// SPDX-License-Identifier: Apache-2.0
// GET /sandbox/{id}/watch: changes of files as server-sent events.
#include <stdio.h>
#include <string.h>

#include "api/handlers.h"
#include "api/show.h"
#include "api/watch.h"

enum { EVENT_MAX = 64 * 1024 };

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
    show_str(&j, "eventType", watch_kind_name(change->kind));
    files_show_text(&j, "path", buf_str(&whole));
    show_bool(&j, "isDirectory", change->is_dir != 0);
    if (change->cookie != 0)
        show_int(&j, "cookie", change->cookie); // pairs move_from with move_to
    show_time_now(&j, "timestamp");
    send_event(call, &j);
}

// -- the stream

static void on_change(struct call *call, const struct hand_change *change)
{
    if (change->kind <= HAND_ATTRIB)
        send_change(call, change);
    else if (change->kind == HAND_OVERFLOW)
        send_text(call, "overflow", "message", "rescan");
    else
        send_text(call, "stopped", "reason", "what was watched is gone");
}

static void on_over(struct call *call, const struct err *err)
{
    if (err != NULL && !sandbox_is_up(call->sandbox))
        send_text(call, "stopped", "reason", "the sandbox sleeps or is gone");
    else if (err != NULL)
        send_text(call, "error", "error", err->msg);
}

// -- the request

static int read_globs(struct call *call, const char *name, const char **ret)
{
    *ret = call_query(call, name);
    if (*ret == NULL || strlen(*ret) <= WATCH_GLOBS_MAX)
        return 0;
    call_error(call, ERROR_INVALID_REQUEST, NULL, "?%s: is longer than %d bytes", name,
               WATCH_GLOBS_MAX);
    return -1;
}

void handle_watch(struct call *call)
{
    static const struct watch_ops ops = {
        .begun = send_watching,
        .change = on_change,
        .over = on_over,
        .fail = files_fail,
    };
    struct err err = {0};
    struct watch_call *w = files_new(call, sizeof *w);
    const char *path = call_query(call, "path");
    if (w == NULL || call_query_bool(call, "recursive", true, &w->recursive) < 0)
        return;
    w->ops = &ops;
    if (path == NULL) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "?path: say what to watch");
    } else if (file_path_check(path, &err) < 0) {
        (void)err_wrap(&err, "?path");
        call_fail(call, &err);
    } else if (call->is_head) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "a watch has no HEAD");
    } else if (read_globs(call, "include", &w->include) == 0 &&
               read_globs(call, "exclude", &w->exclude) == 0) {
        (void)snprintf(w->file.path, sizeof w->file.path, "%s", path);
        files_wake(call, watch_start);
    }
}
