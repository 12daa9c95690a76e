// SPDX-License-Identifier: Apache-2.0
// Exec as a stream of events (exec-stream.c).
#pragma once

#include "sandbox/exec.h"

struct call;

// Starts the command as a process and follows it, or follows the one that Last-Event-ID names.
void exec_stream(struct call *call);
// Runs it in a session's shell.
void exec_stream_session(struct call *call, const char *session);
