// SPDX-License-Identifier: Apache-2.0
// Running a command for a call whose body is one (command.h), and hearing how it ended: in a
// program of its own, once more with sh where bash is not there, or in a session's shell. Its
// output is collected, or told as it comes. A client that goes away takes its command with it,
// unless it has sent an Idempotency-Key: then it means to ask again.
#pragma once

#include "api/command.h"
#include "sandbox/session.h"

struct perform_end {
    struct exec_result *result; // NULL: `err` says why not
    const struct err *err;
    int not_started; // the program could not be started: the exit code that a shell would give.
                     // `result` says so, too (launch_failed)
    bool terminated; // it ended the session's shell
};

struct perform_request {
    const char *session;              // NULL: a program of its own
    bool makes_session;               // one that is not there is made
    exec_output_fn output;            // NULL: collected. With the call as data
    bool patient;                     // as in struct exec_request
    void (*began)(struct call *call); // it was accepted, before any output. May be NULL
    void (*ended)(struct call *call, const struct perform_end *end);
    size_t own; // bytes that the handler wants for itself, zeros: perform_own
};

// Takes call->state for itself: what the handler wants there is its own from now on.
void perform_prepare(struct call *call, const struct perform_request *request);
void *perform_own(struct call *call);
// Wakes the sandbox and runs it. `ended` is called exactly once, but not when the client is gone,
// and not after perform_cancel, which is call->stop meanwhile.
void perform_begin(struct call *call);
void perform_pause(struct call *call, bool paused); // as exec_pause
// Nobody waits any more: all of it is killed. What call->stop does, too.
void perform_cancel(struct call *call);
