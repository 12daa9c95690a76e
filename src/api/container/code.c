// SPDX-License-Identifier: Apache-2.0
// POST /api/execute/code: a cell, told as it runs. It ends with its reader, who has no way to come
// back. What is told is ASCII: their client makes text of each piece that it receives by itself,
// and a character cut in two would be lost there.
#include "api/container/code.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/code.h"
#include "api/show.h"
#include "base/text.h"

enum {
    EVENT_MAX = 1024 * 1024, // but for results
    VALUE_MAX = 64 * 1024,   // of an error that would be larger
};
#define TIMEOUT_MAX (INT64_C(366) * 86400 * 1000)

struct code_body {
    const char *context, *code, *language;
    struct body_int timeout;
};

#define AT(member) offsetof(struct code_body, member)
static const struct field code_fields[] = {
    FIELD("code", FIELD_STRING, AT(code), .required = true, .max = CELL_CODE_MAX),
    FIELD("context_id", FIELD_STRING, AT(context), .max = EDGE_NAME_MAX,
          .help = "If not given the default context of its language"),
    FIELD("language", FIELD_STRING, AT(language), .max = EDGE_NAME_MAX,
          .help = "Of code without a context: \"python\" if not given"),
    FIELD("timeout_ms", FIELD_INT, AT(timeout), .min = 1, .max = TIMEOUT_MAX,
          .help = "Then it is interrupted; 60000 if not given"),
};
#undef AT
static const struct schema code_schema =
    SCHEMA("ContainerExecuteCode", struct code_body, code_fields, .lenient = true);

struct code_call {
    const struct language *language;
    bool is_anew; // its context was dead and has begun anew
};

// -- events

static void put_escape(struct buf *ret, uint32_t unit)
{
    (void)buf_printf(ret, "\\u%04x", unit);
}

// JSON as ASCII: what is not can only be in a string.
static void put_ascii(struct buf *ret, const char *json, size_t len)
{
    for (size_t at = 0, n; at < len; at += n) {
        for (n = 0; at + n < len && (unsigned char)json[at + n] < 0x80;)
            n++;
        (void)buf_append(ret, json + at, n);
        at += n;
        n = at < len ? utf8_step(json + at, len - at) : 0;
        if (n == 0)
            break; // the end; all else was checked
        uint32_t c = utf8_decode(json + at, n);
        if (c > 0xffff)
            put_escape(ret, 0xd800 + ((c - 0x10000) >> 10));
        put_escape(ret, c > 0xffff ? 0xdc00 + ((c - 0x10000) & 0x3ff) : c);
    }
}

// 0, or -1 when it is too large.
static int send_event(struct call *call, struct json *j)
{
    auto_buf ascii;
    json_close_object(j);
    buf_init(&ascii, 6 * j->buf->len + 1);
    int r = json_finish(j);
    if (r == 0) {
        put_ascii(&ascii, j->buf->data, j->buf->len);
        stream_long_begin(call, NULL, NULL);
        stream_long_data(call, ascii.data, ascii.len);
        stream_long_end(call);
    }
    buf_done(j->buf);
    return r < 0 ? -1 : 0;
}

static void open_event(struct json *j, struct buf *buf, const char *type)
{
    buf_init(buf, EVENT_MAX);
    json_init(j, buf);
    json_open_object(j);
    show_str(j, "type", type);
}

static void on_text(struct call *call, const char *id, const char *stream, const char *data,
                    size_t len)
{
    struct buf buf;
    struct json j;
    (void)id;
    open_event(&j, &buf, stream);
    json_key(&j, "text");
    json_put_strn(&j, data, len);
    (void)send_event(call, &j);
}

static void say(struct call *call, const char *line)
{
    on_text(call, NULL, "stderr", line, strlen(line));
}

static void on_start_anew(struct call *call, const char *id, const struct cell *cell)
{
    (void)id;
    (void)cell;
    say(call,
        "cay: this context had ended (with its sandbox's sleep, or by itself) and begins anew: its "
        "variables are gone\n");
}

// Of an object's beginning, up to its first member or its end. User code may have written it, with
// any blanks.
static size_t brace_length(const char *json, size_t len)
{
    size_t n = 0;
    while (n < len && memchr("{ \t\r\n", json[n], 5) != NULL)
        n++;
    return n;
}

// A result is the kernel's own object with two members more, in front.
static void on_object(struct call *call, const char *id, const struct cell_event *part, size_t at)
{
    static const char result[] = "{\"type\":\"result\"", no_metadata[] = ",\"metadata\":{}";
    auto_buf ascii;
    (void)id;
    if (part->type == CELL_ERROR) // the end tells it, when it is known what it came of
        return;
    const char *data = part->bytes;
    size_t len = part->len;
    buf_init(&ascii, 6 * len + 64);
    if (at == 0) {
        stream_long_begin(call, NULL, NULL);
        stream_long_data(call, result, sizeof result - 1);
        if (memmem(data, len, "\"metadata\"", 10) == NULL && len == part->total)
            stream_long_data(call, no_metadata, sizeof no_metadata - 1);
        size_t n = brace_length(data, len);
        data += n;
        len -= n;
        if (len > 0 && *data != '}')
            stream_long_data(call, ",", 1);
    }
    put_ascii(&ascii, data, len);
    stream_long_data(call, ascii.data, ascii.len);
    if (at + part->len == part->total)
        stream_long_end(call);
}

static int try_error(struct call *call, const char *name, const char *value, size_t value_len,
                     const json_t *traceback, bool truncated)
{
    struct buf buf;
    struct json j;
    size_t i;
    json_t *line;
    open_event(&j, &buf, "error");
    show_str(&j, "ename", name);
    json_key(&j, "evalue");
    json_put_strn(&j, value, value_len);
    json_key(&j, "traceback");
    json_open_array(&j);
    json_array_foreach(traceback, i, line)
        json_put_strn(&j, json_string_value(line), json_string_length(line));
    json_close_array(&j);
    if (truncated)
        show_bool(&j, "truncated", true);
    return send_event(call, &j);
}

static void send_error(struct call *call, const char *name, const char *value,
                       const json_t *traceback, bool truncated)
{
    size_t len = strlen(value);
    if (try_error(call, name, value, len, traceback, truncated) < 0)
        (void)try_error(call, "Error", value, len < VALUE_MAX ? len : VALUE_MAX, NULL, truncated);
}

static const char *text_of(const json_t *error, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(error, key));
    return text != NULL ? text : otherwise;
}

static void on_end(struct call *call, const char *id, struct cell *cell, int64_t place)
{
    const struct cell_end *end = cell_end(cell);
    struct err ignored;
    struct cell_event event;
    struct buf buf;
    struct json j;
    (void)id;
    if (end->truncated)
        say(call, "cay: there was more than is kept of a cell: some of its output is missing\n");
    if (end->success) {
        open_event(&j, &buf, "execution_complete");
        show_int(&j, "execution_count", (int64_t)end->count);
        if (end->truncated)
            show_bool(&j, "truncated", true);
        (void)send_event(call, &j);
        return;
    }
    json_auto_t *error = NULL;
    if (place >= 0 && cell_event(cell, (uint64_t)place, &event, &ignored) > 0)
        error = json_loadb(event.bytes, event.len, JSON_ALLOW_NUL, NULL);
    const json_t *traceback = json_object_get(error, "traceback");
    if (strcmp(end->reason, "timeout") == 0)
        send_error(call, "TimeoutError",
                   end->context_died ? "the code ran out of its time and had to be killed: the "
                                       "context's variables are gone"
                                     : "the code ran out of its time and was interrupted",
                   traceback, end->truncated);
    else if (error != NULL)
        send_error(call, text_of(error, "name", "Error"), text_of(error, "message", ""), traceback,
                   end->truncated);
    else
        send_error(call, "ExecutionError", end->err.code != ERR_NONE ? end->err.msg : end->reason,
                   NULL, end->truncated);
}

static void on_cut(struct call *call, const char *why)
{
    send_error(call, "ExecutionError", why, NULL, false);
}

static void on_start(struct call *call, const char *id, const struct cell *cell)
{
    (void)call;
    (void)id;
    (void)cell;
}

#define WORDS(start_fn)                                                                            \
    {                                                                                              \
        .start = (start_fn), .text = on_text, .object = on_object, .end = on_end, .cut = on_cut,   \
        .needs_reader = true                                                                       \
    }
static const struct code_words words = WORDS(on_start), words_anew = WORDS(on_start_anew);

// -- the request

static void on_cell(void *data, struct cell *cell, const struct err *err)
{
    struct call *call = data;
    const struct code_call *c = call->state;
    if (cell == NULL && err->code == ERR_EXHAUSTED)
        container_fail(call, CONTAINER_INTERPRETER_NOT_READY, NULL, "%s", err->msg);
    else if (cell == NULL)
        container_code_fail(call, c->language, err);
    else if (call->req == NULL)
        cell_cancel(cell); // it left before there was a cell
    else
        code_stream_as(call, cell, (struct code_place){0}, /*start=*/true,
                       c->is_anew ? &words_anew : &words);
    call_unref(call);
}

static void run(struct call *call)
{
    const struct code_body *b = call->body.values;
    const struct code_call *c = call->state;
    const struct cell_request request = {
        .code = b->code,
        .len = strlen(b->code),
        .context = b->context,
        .language = b->context == NULL ? c->language : NULL,
        .timeout_ms = b->timeout.value,
    };
    cell_run(call->sandbox, &request, on_cell, call_ref(call));
}

static void on_restarted(void *data, struct context *context, const struct err *err)
{
    struct call *call = data;
    struct code_call *c = call->state;
    c->is_anew = true;
    if (context == NULL)
        container_code_fail(call, c->language, err);
    else if (call->req != NULL)
        run(call);
    call_unref(call);
}

// Contexts end when the sandbox sleeps, and their client knows nothing of that: it goes on with the
// ones that it has.
static void begin(struct call *call)
{
    const struct code_body *b = call->body.values;
    struct err err = {0};
    struct context_info info = {0};
    struct context *c = NULL;
    if (b->context != NULL && (c = context_find(call->sandbox, b->context, &err)) == NULL) {
        call_fail(call, &err);
        return;
    }
    if (c != NULL)
        context_info(c, &info);
    if (c != NULL && info.status == CONTEXT_DEAD)
        context_restart(c, on_restarted, call_ref(call));
    else
        run(call);
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    (void)s;
    (void)created;
    call_go_on(data, err, begin);
}

// The language of the context, or of the request. NULL when it was refused and answered; nothing
// was woken.
static const struct language *find_language(struct call *call)
{
    const struct code_body *b = call->body.values;
    struct err err = {0};
    struct context_info info = {0};
    if (b->context == NULL)
        return container_language(call, "language", b->language);
    container_about_context(call, b->context);
    const struct context *c = context_find(call->sandbox, b->context, &err);
    if (c == NULL) {
        call_fail(call, &err);
        return NULL;
    }
    context_info(c, &info);
    if (b->language == NULL || language_find(b->language) == info.language)
        return info.language;
    container_invalid(call, "language", "language: context '%.128s' is one of %s", b->context,
                      info.language->name);
    return NULL;
}

static void handle_code(struct call *call)
{
    const struct language *language = find_language(call);
    if (language == NULL)
        return;
    struct code_call *c = calloc(1, sizeof *c);
    if (c == NULL)
        abort();
    c->language = language;
    call->state = c;
    sandbox_wake(call->sandbox, on_awake, call_ref(call));
}

const struct route container_code[] = {
    CONTAINER_ROUTE(HTTP_POST, "/api/execute/code", SUBJECT_CODE, handle_code,
                    .body = &code_schema),
};
const size_t n_container_code = sizeof container_code / sizeof *container_code;
