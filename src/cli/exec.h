// SPDX-License-Identifier: Apache-2.0
// `cay exec` in two parts: what was asked (exec.c), and a command that is followed to its end
// (exec-follow.c).
#pragma once

#include "cli/remote.h"

enum { EXEC_INPUT_MAX = 16 * 1024 * 1024 };

struct exec_options {
    const char *id; // of the sandbox
    const char *session, *cwd, *user, *process;
    int64_t timeout_ms; // 0: none
    struct pairs env;
    bool input, detach, create;
    const char *shell; // -c; else argv
    char **argv;
    struct buf stdin_data; // with `input`
    bool stdin_is_text;
};

// What the server takes: exec's body, or that of a process.
void exec_write_body(const struct exec_options *o, bool process, struct buf *body);
// Runs it and passes its output on as it comes. An exit code; -1 with err when it could not be run.
int exec_follow(struct remote *remote, const struct exec_options *o, struct err *err);
// Starts it and leaves it. As above.
int exec_detach(struct remote *remote, const struct exec_options *o, struct err *err);
