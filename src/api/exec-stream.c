// SPDX-License-Identifier: Apache-2.0
// Exec as events. The command becomes a process, whose log is followed: it goes on when its client
// goes, and the client goes on where it was by sending the last event's id. In a session it is one
// of the shell's, and ends with its client.
#include <stdlib.h>
#include <string.h>

#include "api/exec.h"
#include "api/follow.h"
#include "api/launch.h"
#include "api/live.h"
#include "api/show.h"
#include "base/text.h"

enum { PIECE_MAX = 64 * 1024 * 1024 };

static void send_piece(struct call *call, const char *event, uint64_t offset, const char *bytes,
                       size_t len)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, PIECE_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    follow_show(&j, offset, bytes, len);
    json_close_object(&j);
    stream_event(call, NULL, event, &j);
}

static void send_exit(struct call *call, const struct exec_result *r)
{
    struct buf buf;
    struct json j;
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

// -- in a session

static void on_piece(struct call *call, enum log_stream stream, uint64_t offset, const char *bytes,
                     size_t len)
{
    send_piece(call, stream == LOG_STDOUT ? "stdout" : "stderr", offset, bytes, len);
}

static void on_ended(struct call *call, const struct perform_end *end)
{
    if (end->result != NULL && call->streaming)
        send_exit(call, end->result);
    else if (call->streaming)
        stream_end(call); // without an exit: it is not complete
    else
        call_fail(call, end->err);
}

// Asked again, it is not run again; but what it said is gone.
static void answer_key(struct call *call)
{
    auto_buf body;
    buf_init(&body, 1024);
    error_write(&body, ERROR_OUTCOME_UNKNOWN,
                "the first request with this Idempotency-Key was streamed from a session, of which "
                "nothing is kept",
                call->id, NULL);
    idem_answer(call, error_status(ERROR_OUTCOME_UNKNOWN), body.data, body.len);
}

void exec_stream_session(struct call *call, const char *session)
{
    answer_key(call);
    live_begin(call, &(struct live_request){
                         .run = {.session = session, .ended = on_ended},
                         .piece = on_piece,
    });
}

// -- a new process

static void stream_not_started(struct call *call, const struct err *err, int code)
{
    struct buf none, message;
    struct exec_result r = launch_failed(err, code, &none, &message);
    idem_answer(call, error_status(ERROR_UNAVAILABLE), NULL, 0); // nothing ran: the key is free
    stream_begin_sse(call);
    send_piece(call, "stderr", 0, message.data, message.len);
    send_exit(call, &r);
    buf_done(&message);
}

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
