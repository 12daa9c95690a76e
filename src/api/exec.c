// SPDX-License-Identifier: Apache-2.0
// One command, and its result: in a program of its own or in a session's shell. A client that goes
// away takes its command with it, unless it has sent an Idempotency-Key: then it means to ask
// again.
#include "api/exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/follow.h"
#include "api/handlers.h"
#include "api/launch.h"
#include "api/show.h"
#include "base/clock.h"
#include "base/text.h"
#include "sandbox/process.h"
#include "sandbox/session.h"

enum {
    RESULT_MAX = 2 * (2 * EXEC_OUTPUT_MAX) + 8 * 1024 * 1024,
};

struct run {
    struct exec *exec;
    struct session_command *command;
    bool plain_shell;
    bool ended;
};

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

static void show_result(struct json *j, const struct call *call, const struct exec_result *r)
{
    show_end(j, &r->end, r->truncated);
    show_streams(j, r->out, r->err);
    if (r->truncated)
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

// The program could not be started: its user's failure, told as a shell would.
static void reply_not_started(struct call *call, const struct err *err, int code)
{
    struct buf none, message;
    struct exec_result r = launch_failed(err, code, &none, &message);
    r.duration_ns = clock_ns() - call->start_ns;
    reply_result(call, &r);
    buf_done(&message);
}

// -- a program of its own

static void stop(struct call *call)
{
    struct run *run = call->state;
    if (call->idem.active) // its client will ask for the answer
        return;
    if (run->exec != NULL)
        exec_cancel(run->exec);
    if (run->command != NULL)
        session_cancel(run->command);
    if (run->exec != NULL || run->command != NULL) {
        run->exec = NULL;
        run->command = NULL;
        call_unref(call); // what the callback would have given back
    }
}

static void start(struct call *call);

static void on_exec(void *data, struct exec_result *result, const struct err *err)
{
    struct call *call = data;
    struct run *run = call->state;
    run->exec = NULL;
    run->ended = true;
    int code = result == NULL ? command_start_failed(err) : 0;
    if (result != NULL)
        reply_result(call, result);
    else if (!run->plain_shell && command_wants_plain_shell(call->body.values, err)) {
        run->plain_shell = true;
        start(call);
    } else if (code != 0)
        reply_not_started(call, err, code);
    else
        call_fail(call, err);
    call_unref(call);
}

static void start(struct call *call)
{
    struct err err = {0};
    struct command command;
    struct run *run = call->state;
    run->ended = false;
    if (command_init(&command, call->body.values, call->sandbox, run->plain_shell, &err) < 0) {
        call_fail(call, &err);
        return;
    }
    struct exec *exec = exec_start(call->sandbox, &command.request, on_exec, call_ref(call), &err);
    command_done(&command);
    if (exec == NULL) {
        call_fail(call, &err);
        call_unref(call);
    } else if (!run->ended) {
        run->exec = exec;
    }
}

// -- in a session

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

static void on_session(void *data, struct session_result *result, const struct err *err)
{
    struct call *call = data;
    struct run *run = call->state;
    run->command = NULL;
    run->ended = true;
    if (result == NULL)
        call_fail(call, err);
    else if (call->req != NULL && call_accepts(call, "text/event-stream"))
        exec_stream_result(call, &result->exec);
    else if (result->terminated)
        reply_terminated(call, &result->exec);
    else
        reply_result(call, &result->exec);
    call_unref(call);
}

static void start_in_session(struct call *call)
{
    struct err err = {0};
    struct run *run = call->state;
    const struct command_body *b = call->body.values;
    struct session_request request = {
        .command = b->command,
        .cwd = b->cwd,
        .env = b->env.json,
        .stdin_data = b->input.data,
        .stdin_len = b->input.len,
        .timeout_ms = b->timeout.value,
    };
    struct session_command *command =
        session_exec(call->sandbox, b->session, &request, on_session, call_ref(call), &err);
    if (command == NULL) {
        if (err.code == ERR_EXHAUSTED) // its queue is full, which passes
            err.code = ERR_UNAVAILABLE;
        call_fail(call, &err);
        call_unref(call);
    } else if (!run->ended) {
        run->command = command;
    }
}

// -- the route

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct call *call = data;
    const struct command_body *b = call->body.values;
    (void)s;
    (void)created;
    if (err != NULL && err->code != ERR_NONE) {
        call_fail(call, err);
    } else if (call->req != NULL || call->idem.active) {
        call->stop = stop;
        if (b->session != NULL)
            start_in_session(call);
        else
            start(call);
    }
    call_unref(call);
}

void handle_exec(struct call *call)
{
    const struct command_body *b = call->body.values;
    if (command_check(call, b) < 0)
        return;
    if (call_accepts(call, "text/event-stream") && b->session == NULL) {
        exec_stream(call);
        return;
    }
    struct err err = {0};
    struct session_row row = {0};
    if (b->session != NULL && session_get(call->sandbox, b->session, &row, &err) < 0) {
        call_fail(call, &err);
        return;
    }
    session_row_done(&row);
    call->state = calloc(1, sizeof(struct run));
    if (call->state == NULL)
        abort();
    sandbox_wake(call->sandbox, on_awake, call_ref(call));
}
