// SPDX-License-Identifier: Apache-2.0
// What is to be run: the body of exec and of processes, and the exec_request made of it. A command
// given as text runs in bash, or in sh where the image has no bash.
#pragma once

#include "api/call.h"
#include "sandbox/exec.h"

struct command_body {
    const char *command;
    struct body_strings argv;
    const char *session, *id, *cwd;
    struct body_map env;
    struct body_bytes input;
    struct body_int timeout;
    struct body_user user;
    struct body_bool keep_awake, keep_stdin;
    const char *note; // of a process: as in struct process_row
};

struct command {
    const char *shell[4];
    char **env;
    struct exec_request request;
};

// 0, or -1 when it was refused and answered.
int command_check(struct call *call, const struct command_body *body);
int command_init(struct command *command, const struct command_body *body, const struct sandbox *s,
                 bool plain_shell, struct err *err);
void command_done(struct command *command);
// A string or an array; of a long one the beginning, and "…".
void command_show(struct json *j, const struct command_body *body);
// Whether the program could not be started, for a reason that lies in the box: the user's own
// failure. Then the exit code that a shell would give.
int command_start_failed(const struct err *err);
// Whether to try once more with sh: bash is not there.
bool command_wants_plain_shell(const struct command_body *body, const struct err *err);
