// SPDX-License-Identifier: Apache-2.0
// Background processes: starting, listing, signals, standard input. Their logs are in logs.c,
// waiting for them in wait.c.
#include "api/processes.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/handlers.h"
#include "api/launch.h"
#include "api/schemas.h"
#include "api/show.h"

struct signal_body {
    struct body_int signal;
};
static const struct field signal_fields[] = {
    FIELD("signal", FIELD_SIGNAL, offsetof(struct signal_body, signal), .required = true, .min = 1,
          .max = 64, .help = "A number, or a name such as \"SIGTERM\""),
};
const struct schema signal_schema = SCHEMA("Signal", struct signal_body, signal_fields);

struct stdin_body {
    struct body_bytes data;
    const char *encoding;
    struct body_bool end;
};
static const struct field stdin_fields[] = {
    FIELD("data", FIELD_BYTES, offsetof(struct stdin_body, data), .help = "What to write"),
    FIELD("encoding", FIELD_STRING, offsetof(struct stdin_body, encoding), .max = 16,
          .help = "\"base64\" if data is that"),
    FIELD("end", FIELD_BOOL, offsetof(struct stdin_body, end),
          .help = "Close standard input after it"),
};
const struct schema stdin_schema = SCHEMA("Stdin", struct stdin_body, stdin_fields);

struct process *process_of(struct call *call)
{
    struct err err = {0};
    struct process *p = process_find(call->sandbox, call->param[1], &err);
    if (p == NULL)
        call_fail(call, &err);
    return p;
}

void process_reply(struct call *call, struct process *p, unsigned status)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_str(&j, "id", process_row(p)->id);
    json_key(&j, "process");
    json_open_object(&j);
    show_process(&j, p);
    json_close_object(&j);
    json_close_object(&j);
    call_reply_json(call, status, &j);
}

// -- starting one

static void on_started(struct call *call, struct process *p, const struct err *err)
{
    if (p != NULL)
        process_reply(call, p, 201);
    else if (command_start_failed(err) != 0)
        call_error(call, ERROR_CANNOT_START, NULL, "%s", err->msg);
    else
        call_fail(call, err);
}

void handle_process_start(struct call *call)
{
    const struct command_body *b = call->body.values;
    if (command_check(call, b) < 0)
        return;
    launch(call, b->keep_stdin.given ? b->keep_stdin.value : true, b->keep_awake.value, on_started);
}

// -- looking

static void see_process(void *data, struct process *p)
{
    struct json *j = data;
    json_open_object(j);
    show_process(j, p);
    json_close_object(j);
}

void handle_process_list(struct call *call)
{
    struct err err = {0};
    struct call_list list;
    call_list_begin(&list, "processes");
    call_list_end(call, &list, process_each(call->sandbox, see_process, &list.json, &err), &err);
}

void handle_process_get(struct call *call)
{
    struct process *p = process_of(call);
    if (p != NULL)
        process_reply(call, p, 200);
}

// -- acting on one

void handle_process_delete(struct call *call)
{
    struct err err = {0};
    struct process *p = process_of(call);
    if (p == NULL)
        return;
    if (process_delete(p, &err) < 0)
        call_fail(call, &err);
    else
        call_reply_ok(call);
}

void handle_process_signal(struct call *call)
{
    struct err err = {0};
    const struct signal_body *b = call->body.values;
    struct process *p = process_of(call);
    if (p == NULL)
        return;
    if (process_signal(p, (int)b->signal.value, &err) < 0)
        call_fail(call, &err);
    else
        call_reply_ok(call);
}

static void write_stdin(struct call *call, const void *data, size_t len, bool end)
{
    struct err err = {0};
    struct process *p = process_of(call);
    if (p == NULL)
        return;
    sandbox_touch(call->sandbox);
    if (process_stdin(p, data, len, end, &err) == 0) {
        call_reply_ok(call);
        return;
    }
    if (err.code == ERR_EXHAUSTED) // the program reads on, or does not: not a quota
        err.code = ERR_UNAVAILABLE;
    call_fail(call, &err);
}

static void write_base64(struct call *call, const struct stdin_body *b, bool end)
{
    size_t len = 0;
    unsigned char *bytes = malloc(b->data.len + 1);
    if (bytes == NULL || sodium_base642bin(bytes, b->data.len + 1, b->data.data, b->data.len, NULL,
                                           &len, NULL, sodium_base64_VARIANT_ORIGINAL) < 0)
        call_error(call, ERROR_INVALID_REQUEST, NULL, "data: is not base64");
    else
        write_stdin(call, bytes, len, end || b->end.value);
    free(bytes);
}

// JSON, or the bytes themselves as application/octet-stream with ?end=1 to close.
void handle_process_stdin(struct call *call)
{
    bool end;
    const struct stdin_body *b = call->body.values;
    if (call_query_bool(call, "end", false, &end) < 0)
        return;
    if (b == NULL) {
        size_t len;
        const char *data = http_body(call->req, &len);
        write_stdin(call, data, len, end);
    } else if (b->encoding == NULL || strcasecmp(b->encoding, "utf8") == 0 ||
               strcasecmp(b->encoding, "utf-8") == 0) {
        write_stdin(call, b->data.data, b->data.len, end || b->end.value);
    } else if (strcasecmp(b->encoding, "base64") == 0 && b->data.data != NULL) {
        write_base64(call, b, end);
    } else {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "encoding: must be utf8 or base64, of 'data'");
    }
}
