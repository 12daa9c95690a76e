// SPDX-License-Identifier: Apache-2.0
// Exec as events: the command becomes a process, whose log is followed. It goes on when its client
// goes, and the client goes on where it was by sending the last event's id.
#include <stdlib.h>
#include <string.h>

#include "api/exec.h"
#include "api/follow.h"
#include "api/launch.h"
#include "api/show.h"
#include "base/text.h"

enum { PIECE_MAX = 64 * 1024 * 1024 };

// -- a result that is there already

static void send_bytes(struct call *call, const char *event, const struct buf *bytes)
{
    struct buf buf;
    struct json j;
    for (size_t at = 0; at < bytes->len;) {
        bool is_text;
        size_t len = bytes->len - at < 32 * 1024 ? bytes->len - at : 32 * 1024;
        size_t text = follow_text(bytes->data + at, len, &is_text);
        size_t take = is_text && text > 0 ? text : len;
        buf_init(&buf, PIECE_MAX);
        json_init(&j, &buf);
        json_open_object(&j);
        follow_show(&j, at, bytes->data + at, take);
        json_close_object(&j);
        stream_event(call, NULL, event, &j);
        at += take;
    }
}

void exec_stream_result(struct call *call, const struct exec_result *r)
{
    struct buf buf;
    struct json j;
    stream_begin_sse(call);
    send_bytes(call, "stdout", r->out);
    send_bytes(call, "stderr", r->err);
    buf_init(&buf, 4096);
    json_init(&j, &buf);
    json_open_object(&j);
    show_end(&j, &r->end, r->truncated);
    show_ms(&j, "duration", (double)(r->duration_ns / 1000) / 1000.0);
    show_time_now(&j, "timestamp");
    json_close_object(&j);
    stream_event(call, NULL, "exit", &j);
    stream_end(call);
}

static void stream_not_started(struct call *call, const struct err *err, int code)
{
    struct buf none, message;
    struct exec_result r = launch_failed(err, code, &none, &message);
    idem_answer(call, error_status(ERROR_UNAVAILABLE), NULL, 0); // nothing ran: the key is free
    exec_stream_result(call, &r);
    buf_done(&message);
}

// -- a new process

static void follow(struct call *call, struct process *p, const uint64_t offset[LOG_STREAMS])
{
    struct follow_request request = {
        .wanted = {true,               true              },
        .offset = {offset[LOG_STDOUT], offset[LOG_STDERR]},
        .live = !call->is_head,
        .start = true,
    };
    follow_begin(call, p, &request);
}

static void on_started(struct call *call, struct process *p, const struct err *err)
{
    int code = p == NULL ? command_start_failed(err) : 0;
    if (p != NULL) {
        idem_answer_process(call, process_row(p)->id);
        if (call->req != NULL)
            follow(call, p, (const uint64_t[LOG_STREAMS]){0});
    } else if (code != 0 && call->req != NULL) {
        stream_not_started(call, err, code);
    } else {
        call_fail(call, err);
    }
}

// -- one that runs, or has run, already

static void attach(struct call *call, const char *id, const uint64_t offset[LOG_STREAMS])
{
    struct err err = {0};
    struct process *p = process_find(call->sandbox, id, &err);
    if (p != NULL)
        follow(call, p, offset);
    else if (call->idem.process != NULL && err.code == ERR_NOT_FOUND)
        call_error(call, ERROR_OUTCOME_UNKNOWN, NULL,
                   "the process of the first request with this Idempotency-Key is gone");
    else
        call_fail(call, &err);
}

void exec_stream(struct call *call)
{
    uint64_t offset[LOG_STREAMS] = {0};
    const char *last = http_header(call->req, "Last-Event-ID");
    if (last != NULL) {
        char *id = strdup(last);
        if (id == NULL)
            abort();
        if (follow_parse_id(id, offset) < 0)
            call_error(call, ERROR_INVALID_REQUEST, NULL,
                       "Last-Event-ID is not the id of an event of an exec");
        else
            attach(call, id, offset);
        free(id);
        return;
    }
    if (call->idem.process != NULL) {
        attach(call, call->idem.process, offset);
        return;
    }
    launch(call, /* keep_stdin */ false, /* keep_awake */ true, on_started);
}
