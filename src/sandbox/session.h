// SPDX-License-Identifier: Apache-2.0
// A session: a bash that stays, with its own working directory, variables and functions. Commands
// of one session run in order, sessions of one sandbox side by side. Its shell is started on first
// use and again when it is gone (sleep, exit, a command that had to be killed with it); directory
// and exported variables outlive that in its row.
#pragma once

#include "sandbox/exec.h"

enum {
    SESSIONS_MAX = 64, // of one sandbox
    SESSION_QUEUE_MAX = 64,
};

struct session_command; // one command that waits or runs

// Makes one. `env` is a JSON object, may be NULL; `cwd` may be NULL. ERR_CONFLICT: the id is in
// use.
int session_create(struct sandbox *s, const char *id, const char *cwd, const char *env,
                   struct session_row *ret, struct err *err); // id NULL: made up
int session_get(struct sandbox *s, const char *id, struct session_row *ret, struct err *err);
int session_each(struct sandbox *s, db_session_fn fn, void *data, struct err *err);
// For commands that bring no timeout of their own; 0: none.
int session_set_timeout(struct sandbox *s, const char *id, int64_t timeout_ms, struct err *err);
int session_delete(struct sandbox *s, const char *id,
                   struct err *err); // ends its shell and all it runs

struct session_request {
    const char *command;
    const char *cwd; // NULL: where the session is; else for this command only
    const char *env; // JSON object for this command only; NULL: none
    const void *stdin_data;
    size_t stdin_len;
    int64_t timeout_ms;    // 0: the session's
    exec_output_fn output; // NULL: its output is collected. With the data of session_exec
};

struct session_result {
    struct exec_result exec;
    bool terminated; // the command ended the shell (`exit`): exec.end.exit_code is the code
};

typedef void (*session_fn)(void *data, struct session_result *result, const struct err *err);

// In a sandbox that runs. NULL and err when refused; fn is not called then.
struct session_command *session_exec(struct sandbox *s, const char *id,
                                     const struct session_request *request, session_fn fn,
                                     void *data, struct err *err);
// Nobody waits: a queued one is taken out, a running one is killed as by its timeout.
void session_cancel(struct session_command *command);
// Of one with an exec_output_fn: as exec_pause. One that waits for its turn has nothing to pause.
void session_pause(struct session_command *command, bool paused);

// Its directory and the variables that it has exported, as they are now: its shell is asked, unless
// nothing was run since, or a command runs (then it is what was known before that). ERR_NOT_FOUND.
// Calls back exactly once, perhaps before it returns; the row is lent for the call.
typedef void (*session_ask_fn)(void *data, const struct session_row *row, const struct err *err);
void session_ask(struct sandbox *s, const char *id, session_ask_fn fn, void *data);

// --- for the fleet

void sessions_adopt(struct sandbox *s); // after a restart
void sessions_save(struct sandbox *s, void (*done)(void *data),
                   void *data);          // before sleep: directory, variables
void sessions_forget(struct sandbox *s); // the box is gone, or the sandbox leaves memory
void sessions_lost(struct fleet *fleet,
                   int64_t sandbox); // rows with a shell, of a box that is gone
