// SPDX-License-Identifier: Apache-2.0
#include "api/perform.h"

#include <stdlib.h>

#include "api/launch.h"
#include "base/clock.h"

struct run { // call->state
    struct perform_request r;
    struct exec *exec;
    struct session_command *command;
    bool plain_shell;
    bool ended; // within the call that began it
    max_align_t own[];
};

void *perform_own(struct call *call)
{
    struct run *run = call->state;
    return run->own;
}

void perform_pause(struct call *call, bool paused)
{
    const struct run *run = call->state;
    if (run->exec != NULL)
        exec_pause(run->exec, paused);
    if (run->command != NULL)
        session_pause(run->command, paused);
}

void perform_cancel(struct call *call)
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

static void fail(struct call *call, const struct err *err)
{
    const struct run *run = call->state;
    run->r.ended(call, &(struct perform_end){.err = err});
}

// -- a program of its own

static void start(struct call *call);

// The program could not be started: its user's failure, told as a shell would.
static void not_started(struct call *call, const struct err *err, int code)
{
    const struct run *run = call->state;
    struct buf none, message;
    struct exec_result r = launch_failed(err, code, &none, &message);
    r.duration_ns = clock_ns() - call->start_ns;
    run->r.ended(call, &(struct perform_end){.result = &r, .err = err, .not_started = code});
    buf_done(&message);
}

static void on_exec(void *data, struct exec_result *result, const struct err *err)
{
    struct call *call = data;
    struct run *run = call->state;
    run->exec = NULL;
    run->ended = true;
    int code = result == NULL ? command_start_failed(err) : 0;
    if (result != NULL)
        run->r.ended(call, &(struct perform_end){.result = result});
    else if (!run->plain_shell && command_wants_plain_shell(call->body.values, err)) {
        run->plain_shell = true;
        start(call);
    } else if (code != 0)
        not_started(call, err, code);
    else
        fail(call, err);
    call_unref(call);
}

static void began(struct call *call)
{
    const struct run *run = call->state;
    if (run->r.began != NULL && !run->plain_shell)
        run->r.began(call);
}

static void start(struct call *call)
{
    struct err err = {0};
    struct command command;
    struct run *run = call->state;
    run->ended = false;
    if (command_init(&command, call->body.values, call->sandbox, run->plain_shell, &err) < 0) {
        fail(call, &err);
        return;
    }
    command.request.output = run->r.output;
    command.request.patient = run->r.patient;
    struct exec *exec = exec_start(call->sandbox, &command.request, on_exec, call_ref(call), &err);
    command_done(&command);
    if (exec == NULL) {
        fail(call, &err);
        call_unref(call);
    } else if (!run->ended) {
        run->exec = exec;
        began(call);
    }
}

// -- in a session

static void on_session(void *data, struct session_result *result, const struct err *err)
{
    struct call *call = data;
    struct run *run = call->state;
    run->command = NULL;
    run->ended = true;
    if (result == NULL)
        fail(call, err);
    else
        run->r.ended(
            call, &(struct perform_end){.result = &result->exec, .terminated = result->terminated});
    call_unref(call);
}

static struct session_command *ask(struct call *call, const struct session_request *request,
                                   struct err *err)
{
    const struct run *run = call->state;
    struct session_command *command =
        session_exec(call->sandbox, run->r.session, request, on_session, call, err);
    if (command == NULL && err->code == ERR_EXHAUSTED) // its queue is full, which passes
        err->code = ERR_UNAVAILABLE;
    return command;
}

// The session is made if it is not there, and if that is wanted.
static struct session_command *ask_or_make(struct call *call, const struct session_request *request,
                                           struct err *err)
{
    const struct run *run = call->state;
    struct session_row row = {0};
    struct session_command *command = ask(call, request, err);
    if (command != NULL || err->code != ERR_NOT_FOUND || !run->r.makes_session ||
        session_create(call->sandbox, run->r.session, NULL, NULL, &row, err) < 0)
        return command;
    session_row_done(&row);
    return ask(call, request, err);
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
        .output = run->r.output,
    };
    call_ref(call);
    struct session_command *command = ask_or_make(call, &request, &err);
    if (command == NULL) {
        fail(call, &err);
        call_unref(call);
    } else if (!run->ended) {
        run->command = command;
        began(call);
    }
}

// -- the door

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct call *call = data;
    const struct run *run = call->state;
    (void)s;
    (void)created;
    if (err != NULL && err->code != ERR_NONE) {
        fail(call, err);
    } else if (call->req != NULL || call->idem.active) {
        call->stop = perform_cancel;
        if (run->r.session != NULL)
            start_in_session(call);
        else
            start(call);
    }
    call_unref(call);
}

void perform_prepare(struct call *call, const struct perform_request *request)
{
    struct run *run = calloc(1, sizeof *run + request->own);
    if (run == NULL)
        abort();
    run->r = *request;
    call->state = run;
}

void perform_begin(struct call *call)
{
    sandbox_wake(call->sandbox, on_awake, call_ref(call));
}
