// SPDX-License-Identifier: Apache-2.0
#include "api/viewer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/auth.h"
#include "api/show.h"
#include "edge/ws.h"
#include "sandbox/terminal.h"

enum {
    CHUNK = 32 * 1024,
    QUEUE_MAX = 128 * 1024,  // of a slow viewer, in memory
    INPUT_MAX = 256 * 1024,  // one message
    INPUT_WAITS = 64 * 1024, // that the program has not read, before its viewers wait
    MESSAGE_MAX = 4 * 1024,  // of JSON
};

struct viewer {        // the call's state
    struct call *call; // counted
    struct ws *ws;     // NULL: not any more
    struct process *p; // counted
    struct process_watch *watch;
    struct viewer_request r;
    uint64_t at; // of the log: the next byte to show
    bool complained, paused;
};

// -- messages

struct message {
    struct buf buf;
    struct json json;
};

static void message_open(struct message *m, const char *type)
{
    buf_init(&m->buf, MESSAGE_MAX);
    json_init(&m->json, &m->buf);
    json_open_object(&m->json);
    show_str(&m->json, "type", type);
}

static void message_send(struct viewer *v, struct message *m)
{
    json_close_object(&m->json);
    if (v->ws != NULL && json_finish(&m->json) == 0)
        ws_send_text(v->ws, m->buf.data, m->buf.len);
    buf_done(&m->buf);
}

static void send_error(struct viewer *v, const char *text)
{
    struct message m;
    message_open(&m, "error");
    show_str(&m.json, "message", text);
    message_send(v, &m);
}

static void send_gap(struct viewer *v, uint64_t to)
{
    struct message m;
    message_open(&m, "gap");
    show_int(&m.json, "bytes", (int64_t)(to - v->at));
    show_int(&m.json, "offset", (int64_t)to);
    message_send(v, &m);
    v->at = to;
}

static void send_ready(struct viewer *v)
{
    struct message m;
    uint16_t rows, cols;
    const struct process_row *row = process_row(v->p);
    terminal_get_size(v->p, &rows, &cols);
    message_open(&m, "ready");
    show_str(&m.json, "session", row->tty);
    show_str(&m.json, "process", row->id);
    show_int(&m.json, "offset", (int64_t)v->at);
    show_int(&m.json, "cols", cols);
    show_int(&m.json, "rows", rows);
    show_bool(&m.json, "readonly", v->r.readonly);
    message_send(v, &m);
}

static void send_exit(struct viewer *v, const char *reason)
{
    struct message m;
    struct job_end end = show_end_of(process_row(v->p));
    const char *name = end.signal > 0 ? body_signal_name(end.signal) : NULL;
    message_open(&m, "exit");
    show_int(&m.json, "code", show_exit_code(&end));
    if (name != NULL)
        show_str(&m.json, "signal", name);
    show_str(&m.json, "reason", reason);
    message_send(v, &m);
}

// -- the end

static void let_go(struct viewer *v)
{
    process_watch_free(v->watch);
    v->watch = NULL;
    if (v->p != NULL)
        process_unref(v->p);
    v->p = NULL;
}

// Nobody else can come to a terminal of its own.
static void leave(struct viewer *v)
{
    struct err ignored;
    if (v->r.ends && v->p != NULL && process_row(v->p)->reason == END_NONE)
        (void)process_delete(v->p, &ignored);
    let_go(v);
}

static void finish(struct viewer *v)
{
    const char *reason = terminal_end_reason(v->p);
    bool away = strcmp(reason, "sleep") == 0 || strcmp(reason, "destroyed") == 0;
    send_exit(v, reason);
    let_go(v);
    ws_close(v->ws, away ? WS_GOING_AWAY : WS_NORMAL, reason);
}

// The token was revoked, or the server is being stopped.
static void stop(struct call *call)
{
    struct viewer *v = call->state;
    bool revoked = call->token != NULL && call->token->revoked;
    leave(v);
    if (v->ws != NULL)
        ws_close(v->ws, revoked ? WS_POLICY : WS_GOING_AWAY,
                 revoked ? "the token was revoked" : "the server is being stopped");
}

static void on_closed(void *data, unsigned code)
{
    struct viewer *v = data;
    struct call *call = v->call;
    (void)code;
    v->ws = NULL;
    leave(v);
    stream_forget(call);
    call->stop = NULL;
    call_unref(call); // and the viewer with it
}

// -- showing

static bool has_ended(const struct viewer *v)
{
    return process_row(v->p)->reason != END_NONE;
}

static void touch(const struct viewer *v)
{
    if (sandbox_box(v->call->sandbox) != 0)
        sandbox_touch(v->call->sandbox);
}

// Bytes that were shown, 0 when there are none now.
static size_t show_some(struct viewer *v)
{
    char data[CHUNK];
    uint64_t at;
    struct bytelog *log = process_log(v->p, LOG_STDOUT);
    ssize_t n = log != NULL ? bytelog_read(log, v->at, data, sizeof data, &at) : 0;
    if (n <= 0)
        return 0;
    if (at > v->at)
        send_gap(v, at);
    ws_send_binary(v->ws, data, (size_t)n);
    v->at += (uint64_t)n;
    return (size_t)n;
}

static void show(struct viewer *v)
{
    size_t moved = 0, n = 1;
    while (n > 0 && ws_queued(v->ws) < QUEUE_MAX) {
        n = show_some(v);
        moved += n;
    }
    if (moved > 0)
        touch(v);
    if (n == 0 && has_ended(v))
        finish(v);
}

static void on_drained(void *data)
{
    struct viewer *v = data;
    if (v->p != NULL)
        show(v);
}

static void on_news(void *data, struct process *p)
{
    struct viewer *v = data;
    if (p == NULL) {
        finish(v);
        return;
    }
    if (v->paused && process_stdin_waiting(p) < INPUT_WAITS) {
        v->paused = false;
        ws_pause(v->ws, false);
    }
    show(v);
}

// -- typing

static bool may_act(struct viewer *v)
{
    if (v->p == NULL || !v->r.readonly)
        return v->p != NULL;
    if (!v->complained)
        send_error(v, "this viewer only looks on: what it sends is ignored");
    v->complained = true;
    return false;
}

static void on_binary(void *data, const void *bytes, size_t len)
{
    struct viewer *v = data;
    struct err err = {0};
    if (!may_act(v) || len == 0)
        return;
    touch(v);
    if (process_stdin(v->p, bytes, len, /*end=*/false, &err) < 0 && err.code == ERR_EXHAUSTED)
        send_error(v, "the program does not read what is typed: it was dropped");
    if (process_stdin_waiting(v->p) >= INPUT_WAITS) {
        v->paused = true;
        ws_pause(v->ws, true);
    }
}

static bool read_side(const json_t *root, const char *key, uint16_t *ret)
{
    const json_t *value = json_object_get(root, key);
    json_int_t n = json_integer_value(value); // 0 of anything else
    if (n < 1 || n > TERMINAL_SIDE_MAX)
        return false;
    *ret = (uint16_t)n;
    return true;
}

static void resize(struct viewer *v, const json_t *root)
{
    struct err err = {0};
    uint16_t rows, cols;
    if (!read_side(root, "rows", &rows) || !read_side(root, "cols", &cols))
        send_error(v, "resize: cols and rows must be numbers from 1 to 4096");
    else if (may_act(v))
        (void)terminal_set_size(v->p, rows, cols, &err); // one that has just ended has none
}

static void on_text(void *data, const char *text, size_t len)
{
    struct viewer *v = data;
    if (v->p == NULL)
        return;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const char *type = json_string_value(json_object_get(root, "type"));
    if (type != NULL && strcmp(type, "resize") == 0)
        resize(v, root);
    else
        send_error(v, "a text message is {\"type\":\"resize\",\"cols\":80,\"rows\":24}; what is "
                      "typed goes in binary ones");
    json_decref(root);
}

// -- the beginning

// Where a line begins in the bytes, or at least a character.
static size_t line_start(const char *data, size_t len)
{
    const char *newline = memchr(data, '\n', len);
    size_t at = 0;
    if (newline != NULL && newline + 1 < data + len)
        return (size_t)(newline + 1 - data);
    while (at < len && at < 3 && ((unsigned char)data[at] & 0xc0) == 0x80)
        at++;
    return at;
}

static size_t read_all(struct bytelog *log, uint64_t *at, char *data, size_t max)
{
    size_t len = 0;
    uint64_t from;
    ssize_t n = 1;
    while (len < max && n > 0) {
        n = bytelog_read(log, *at + len, data + len, max - len, &from);
        if (n > 0 && from != *at + len) { // a hole: what lies before it is not the last of it
            memmove(data, data + len, (size_t)n);
            *at = from;
            len = 0;
        }
        len += n > 0 ? (size_t)n : 0;
    }
    return len;
}

// What was there before, as one message.
static void replay(struct viewer *v)
{
    struct bytelog *log = process_log(v->p, LOG_STDOUT);
    uint64_t size = log != NULL ? bytelog_size(log) : 0, from, to;
    size_t max = v->r.has_offset ? VIEWER_REPLAY_MAX : (size_t)v->r.replay, skip = 0;
    if (v->r.has_offset)
        v->at = v->r.offset < size ? v->r.offset : size;
    else
        v->at = size > max ? size - max : 0;
    if (log == NULL || v->at == size || max == 0)
        return;
    bytelog_gap(log, &from, &to);
    if (v->r.has_offset && v->at >= from && v->at < to)
        send_gap(v, to);
    char *data = malloc(max);
    if (data == NULL)
        return; // it comes as what is new, then
    size_t len = read_all(log, &v->at, data, max);
    if (v->at > 0 && !v->r.has_offset)
        skip = line_start(data, len);
    if (len > skip)
        ws_send_binary(v->ws, data + skip, len - skip);
    v->at += len;
    free(data);
}

unsigned viewer_count(const struct api *api, const struct process *p)
{
    unsigned n = 0;
    for (const struct call *c = api->streams; c != NULL; c = c->stream_next) {
        const struct viewer *v = c->state;
        n += c->stop == stop && v->p == p;
    }
    return n;
}

static const struct ws_ops ops = {
    .text = on_text,
    .binary = on_binary,
    .drained = on_drained,
    .closed = on_closed,
};

void viewer_begin(struct call *call, struct process *p, const struct viewer_request *request)
{
    struct err err = {0};
    struct ws *ws;
    if (viewer_count(call->api, p) >= VIEWERS_MAX) {
        call_error(call, ERROR_UNAVAILABLE, NULL, "%d look at this terminal already", VIEWERS_MAX);
        return;
    }
    struct viewer *v = calloc(1, sizeof *v);
    if (v == NULL)
        abort();
    *v = (struct viewer){.call = call, .r = *request};
    const char *protocol = ws_offers(call->req, AUTH_PROTOCOL) ? AUTH_PROTOCOL : NULL;
    if (ws_accept(call->req, call->api->loop, protocol, INPUT_MAX, &ops, v, &ws, &err) < 0) {
        free(v);
        call_fail(call, &err);
        if (request->ends)
            (void)process_delete(p, &err);
        return;
    }
    call->req = NULL;
    call_count(call, 101);
    free(call->state);
    call->state = v;
    v->ws = ws;
    v->p = process_ref(p);
    call_ref(call);
    stream_begin_taken(call, stop);
    replay(v);
    send_ready(v);
    v->watch = process_watch(p, on_news, v);
    show(v);
}
