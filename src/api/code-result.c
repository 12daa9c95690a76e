// SPDX-License-Identifier: Apache-2.0
// A cell that has ended, as one answer.
#include <stdio.h>
#include <string.h>

#include "api/code.h"
#include "api/show.h"

enum {
    // What the streams may take as JSON, where a byte can become six: beyond it the answer is
    // truncated.
    TEXT_MAX = 2 * CELL_OUTPUT_MAX,
    OBJECTS_MAX = 2 * CELL_OUTPUT_MAX, // with what is put before each, however small they are
    // A result may be asked for again and again, by readers who do not take it. While so much waits
    // for them, further answers are cut to what is small.
    HELD_MAX = 256 * 1024 * 1024,
    SMALL = 256 * 1024,
    RESULT_MAX = TEXT_MAX + 2 * OBJECTS_MAX + 6 * CELL_CODE_MAX + 1024 * 1024,
};

void code_show_end(struct json *j, const struct cell_end *end, bool truncated)
{
    show_bool(j, "success", end->success);
    show_str(j, "reason", end->reason);
    json_key(j, "executionCount");
    if (end->count > 0)
        json_put_uint(j, end->count);
    else
        json_put_null(j);
    show_ms(j, "duration", (double)(end->duration_ns / 1000) / 1000.0);
    if (truncated)
        show_bool(j, "truncated", true);
    if (end->context_died)
        show_bool(j, "contextDied", true);
    if (end->err.code != ERR_NONE)
        show_str(j, "message", end->err.msg);
}

// -- what it wrote and showed

// A representation as the answer has it: {"type":"result", and what it had behind its brace.
struct object {
    char head[32];
    const char *rest;
    size_t len;
};

static size_t count_blank(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && strchr(" \t\r\n", text[n]) != NULL)
        n++;
    return n;
}

static struct object object_of(const struct cell_event *event)
{
    size_t before = count_blank(event->bytes, event->len) + 1; // an object: there is a brace
    struct object o = {.head = "{", .rest = event->bytes + before, .len = event->len - before};
    if (event->type == CELL_ERROR)
        return o;
    size_t blank = count_blank(o.rest, o.len);
    (void)snprintf(o.head, sizeof o.head, "{\"type\":\"%s\"%s",
                   event->type == CELL_RESULT ? "result" : "display",
                   o.rest[blank] == '}' ? "" : ",");
    return o;
}

struct whole {
    struct buf out, err, results, error;
    size_t text_size; // of both streams as JSON
    size_t text_max, objects_max;
    bool is_cut;
};

// Of text as JSON, at most; what is not UTF-8 becomes three bytes.
static size_t size_as_json(const char *data, size_t len)
{
    size_t n = len;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        n += c < 0x20 ? 5 : c == '"' || c == '\\' ? 1 : c >= 0x80 ? 2 : 0;
    }
    return n;
}

static void add_text(struct whole *w, struct buf *stream, const struct cell_event *event)
{
    w->text_size += size_as_json(event->bytes, event->len);
    w->is_cut |= w->text_size > w->text_max || buf_append(stream, event->bytes, event->len) < 0;
}

static void add_object(struct whole *w, struct buf *objects, const struct cell_event *event)
{
    struct object o = object_of(event);
    if (o.len + sizeof o.head + 1 > w->objects_max - objects->len) {
        w->is_cut = true;
        return;
    }
    if (objects->len > 0)
        (void)buf_append_char(objects, ',');
    (void)buf_append_str(objects, o.head);
    (void)buf_append(objects, o.rest, o.len);
}

static void collect(struct whole *w, struct cell *cell)
{
    struct err ignored;
    struct cell_event event;
    for (uint64_t n = 0; cell_event(cell, n, &event, &ignored) > 0; n++) {
        switch (event.type) {
        case CELL_STDOUT:
            add_text(w, &w->out, &event);
            break;
        case CELL_STDERR:
            add_text(w, &w->err, &event);
            break;
        case CELL_RESULT:
        case CELL_DISPLAY:
            add_object(w, &w->results, &event);
            break;
        case CELL_ERROR:
            add_object(w, &w->error, &event);
            break;
        case CELL_END:
            return;
        }
    }
}

static void whole_init(struct whole *w, const struct api *api)
{
    bool is_scarce = api->held > HELD_MAX - TEXT_MAX;
    *w = (struct whole){
        .text_max = is_scarce ? SMALL : TEXT_MAX,
        .objects_max = is_scarce ? SMALL : OBJECTS_MAX,
    };
    buf_init(&w->out, CELL_OUTPUT_MAX);
    buf_init(&w->err, CELL_OUTPUT_MAX);
    buf_init(&w->results, OBJECTS_MAX);
    buf_init(&w->error, OBJECTS_MAX);
}

static void whole_done(struct whole *w)
{
    buf_done(&w->out);
    buf_done(&w->err);
    buf_done(&w->results);
    buf_done(&w->error);
}

// -- as JSON

static void show_stream(struct json *j, const char *key, const struct buf *text)
{
    json_key(j, key);
    json_open_array(j);
    if (text->len > 0)
        json_put_strn(j, text->data, text->len);
    json_close_array(j);
}

static void show_logs(struct json *j, const struct whole *w)
{
    json_key(j, "logs");
    json_open_object(j);
    show_stream(j, "stdout", &w->out);
    show_stream(j, "stderr", &w->err);
    json_close_object(j);
}

static void show_results(struct json *j, const struct whole *w)
{
    json_key(j, "results");
    json_open_array(j);
    if (w->results.len > 0)
        json_put_raw(j, w->results.data, w->results.len);
    json_close_array(j);
}

// What the cell said went wrong; else what was seen from outside.
static void show_error(struct json *j, const struct whole *w, const struct cell_end *end)
{
    if (w->error.len == 0 && end->success)
        return;
    json_key(j, "error");
    if (w->error.len > 0) {
        json_put_raw(j, w->error.data, w->error.len);
        return;
    }
    json_open_object(j);
    show_str(j, "name", end->reason);
    show_str(j, "message", end->err.code != ERR_NONE ? end->err.msg : end->reason);
    show_raw(j, "traceback", "[]");
    show_raw(j, "lineNumber", NULL);
    json_close_object(j);
}

static void show_cell(struct json *j, struct cell *cell, const struct whole *w)
{
    const char *code;
    size_t len;
    const struct cell_end *end = cell_end(cell);
    show_str(j, "id", cell_id(cell));
    show_str(j, "context", cell_context(cell));
    show_str(j, "language", cell_language(cell)->name);
    json_key(j, "code");
    cell_code(cell, &code, &len);
    json_put_strn(j, code, len);
    show_logs(j, w);
    show_results(j, w);
    show_error(j, w, end);
    code_show_end(j, end, end->truncated || w->is_cut);
}

void code_reply(struct call *call, struct cell *cell)
{
    struct buf buf;
    struct json j;
    struct whole w;
    whole_init(&w, call->api);
    collect(&w, cell);
    buf_init(&buf, RESULT_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_cell(&j, cell, &w);
    json_close_object(&j);
    whole_done(&w);
    call->held = buf.len;
    call->api->held += buf.len;
    call_reply_json(call, 200, &j);
}
