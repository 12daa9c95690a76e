// SPDX-License-Identifier: Apache-2.0
// Starting a process for a call whose body is a command: waking the sandbox, starting it, once more
// with sh where bash is not there.
#pragma once

#include "api/command.h"
#include "sandbox/process.h"

// Exactly one of `p` and `err`. The call may have lost its client meanwhile.
typedef void (*launch_fn)(struct call *call, struct process *p, const struct err *err);

// Takes call->state for itself.
void launch(struct call *call, bool keep_stdin, bool keep_awake, launch_fn fn);
// What a program that could not be started is told as: a shell's message and exit code. The
// result's buffers are `ret_none` and `ret_message`; the caller frees the second.
struct exec_result launch_failed(const struct err *err, int code, struct buf *ret_none,
                                 struct buf *ret_message);
