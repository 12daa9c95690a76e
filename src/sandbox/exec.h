// SPDX-License-Identifier: Apache-2.0
// An exec: a job whose output is collected and handed over with its end, or told as it comes. Keeps
// its sandbox awake.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "sandbox/job.h"
#include "sandbox/log.h"

enum {
    EXEC_OUTPUT_MAX = 16 * 1024 * 1024, // kept of each stream; the rest is read and dropped
    EXEC_FILES = 4096,                  // RLIMIT_NOFILE
};

struct exec;

// Bytes that a program has written, as they come: nothing of them is kept, and none is dropped. The
// callee may pause what they come from, but not cancel it.
typedef void (*exec_output_fn)(void *data, enum log_stream stream, const char *bytes, size_t len);

struct exec_request {
    const char *const *argv; // ends with NULL
    const char *const *envp; // ends with NULL; whole: the caller has merged it (exec_env)
    const char *cwd;
    const void *stdin_data; // copied; NULL: no standard input
    size_t stdin_len;
    int64_t timeout_ms; // 0: none
    uint32_t uid, gid;
    bool ends_rest;        // what it leaves running ends with it, however it hides
    exec_output_fn output; // NULL: its output is collected. With the data of exec_start
    bool patient;          // that of a program which ends soon may come with its end
};

struct exec_result {
    struct job_end end;
    struct buf *out, *err; // the callee may take their bytes; empty with an exec_output_fn
    bool truncated;
    int64_t duration_ns;
};

// Exactly one of result and err.
typedef void (*exec_fn)(void *data, struct exec_result *result, const struct err *err);

// In a sandbox that runs. NULL and err when it cannot be asked for; fn is not called then.
struct exec *exec_start(struct sandbox *s, const struct exec_request *request, exec_fn fn,
                        void *data, struct err *err);
// Nobody waits for the result any more: everything it has started is killed. fn is not called.
void exec_cancel(struct exec *exec);
// Of one with an exec_output_fn: nothing is read meanwhile, so that a program which goes on writing
// waits. Its end comes all the same, and with it what is in its pipes.
void exec_pause(struct exec *exec, bool paused);

// The variables of a program in a sandbox: the defaults, the sandbox's own, then `extra` (a JSON
// object of strings, may be NULL), later ones winning. Ends with NULL; freed with exec_env_free.
char **exec_env(const struct sandbox *s, const char *extra, uint32_t uid, struct err *err);
void exec_env_free(char **env);
