// SPDX-License-Identifier: Apache-2.0
// One command, and its result: in a program of its own or in a session's shell (perform.c).
#include "api/exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/perform.h"
#include "api/show.h"
#include "base/clock.h"
#include "base/text.h"
#include "sandbox/process.h"
#include "sandbox/session.h"

enum {
    RESULT_MAX = 2 * (2 * EXEC_OUTPUT_MAX) + 8 * 1024 * 1024,
    AS_JSON = 2, // what a byte of output takes, about
};

// -- the output

// Nobody knows when a command ends, nor whether its answer is read then. So what it writes counts
// (call_hold) as it comes; what there is no room for is dropped, and the answer says so.
struct collected {
    struct buf streams[LOG_STREAMS];
    bool truncated;
};

static void on_output(void *data, enum log_stream stream, const char *bytes, size_t len)
{
    struct call *call = data;
    struct collected *c = perform_own(call);
    struct buf *to = &c->streams[stream];
    size_t room = EXEC_OUTPUT_MAX - to->len, n = len < room ? len : room;
    if (!call_hold(call, AS_JSON * (c->streams[LOG_STDOUT].len + c->streams[LOG_STDERR].len + n)))
        n = 0;
    c->truncated = c->truncated || n < len;
    (void)buf_append(to, bytes, n);
}

static void drop(struct call *call)
{
    struct collected *c = perform_own(call);
    for (int i = 0; i < LOG_STREAMS; i++)
        buf_done(&c->streams[i]);
}

static void stop(struct call *call)
{
    perform_cancel(call);
    if (!call->idem.active) // else it goes on
        drop(call);
}

static void on_began(struct call *call)
{
    call->stop = stop;
}

// -- the result

static void show_streams(struct json *j, const struct buf *out, const struct buf *errors)
{
    bool text = show_is_text(out) && show_is_text(errors);
    const struct buf *bufs[] = {out, errors};
    const char *const keys[] = {"stdout", "stderr"};
    for (int i = 0; i < 2; i++) {
        json_key(j, keys[i]);
        if (text)
            json_put_strn(j, bufs[i]->data, bufs[i]->len);
        else
            json_put_base64(j, bufs[i]->data, bufs[i]->len);
    }
    if (!text) // both streams, so that a reader has one question to ask
        show_str(j, "encoding", "base64");
}

static void show_result(struct json *j, struct call *call, const struct exec_result *r)
{
    const struct collected *c = perform_own(call);
    show_end(j, &r->end, c->truncated);
    show_streams(j, &c->streams[LOG_STDOUT], &c->streams[LOG_STDERR]);
    if (c->truncated)
        show_bool(j, "truncated", true);
    show_ms(j, "duration", (double)(r->duration_ns / NS_PER_US) / 1000.0);
    json_key(j, "command");
    command_show(j, call->body.values);
    show_time_now(j, "timestamp");
}

static void reply_result(struct call *call, const struct exec_result *r)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, RESULT_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_result(&j, call, r);
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}

static void reply_terminated(struct call *call, const struct exec_result *r)
{
    auto_buf details;
    struct json j;
    buf_init(&details, RESULT_MAX);
    json_init(&j, &details);
    json_open_object(&j);
    show_result(&j, call, r);
    json_close_object(&j);
    int e = json_finish(&j);
    const struct command_body *body = call->body.values;
    call_error(call, ERROR_SESSION_TERMINATED, e == 0 ? buf_str(&details) : NULL,
               "the command ended the shell of session '%.128s' with exit code %d; the next use "
               "starts a new one",
               body->session, show_exit_code(&r->end));
}

static void on_ended(struct call *call, const struct perform_end *end)
{
    if (end->not_started != 0)
        on_output(call, LOG_STDERR, end->result->err->data, end->result->err->len);
    if (end->result == NULL)
        call_fail(call, end->err);
    else if (end->terminated)
        reply_terminated(call, end->result);
    else
        reply_result(call, end->result);
    drop(call);
}

// -- the route

void handle_exec(struct call *call)
{
    struct err err = {0};
    struct session_row row = {0};
    const struct command_body *b = call->body.values;
    bool streams = call_accepts(call, "text/event-stream");
    if (command_check(call, b) < 0)
        return;
    if (streams && b->session == NULL) {
        exec_stream(call);
        return;
    }
    if (b->session != NULL && session_get(call->sandbox, b->session, &row, &err) < 0) {
        call_fail(call, &err);
        return;
    }
    session_row_done(&row);
    if (streams) {
        exec_stream_session(call, b->session);
        return;
    }
    perform_prepare(call, &(struct perform_request){.session = b->session,
                                                    .output = on_output,
                                                    .patient = true,
                                                    .began = on_began,
                                                    .ended = on_ended,
                                                    .own = sizeof(struct collected)});
    struct collected *c = perform_own(call);
    for (int i = 0; i < LOG_STREAMS; i++)
        buf_init(&c->streams[i], EXEC_OUTPUT_MAX);
    perform_begin(call);
}
