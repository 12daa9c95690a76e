// SPDX-License-Identifier: Apache-2.0
// Exec as a stream of events (exec-stream.c).
#pragma once

#include "sandbox/exec.h"

struct call;

// Starts the command as a process and follows it, or follows the one that Last-Event-ID names.
void exec_stream(struct call *call);
// A result that is there already, as events.
void exec_stream_result(struct call *call, const struct exec_result *result);
