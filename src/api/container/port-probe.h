// SPDX-License-Identifier: Apache-2.0
// One look at a port in a sandbox: whether somebody listens there, and what they answer to a GET.
// On the loop's thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "sandbox/sandbox.h"

enum {
    PROBE_MS = 5000,      // for all of it
    PROBE_LINE_MAX = 256, // of an answer that is looked at
};

struct probe;

struct probe_result {
    bool listens;          // the connection was made
    unsigned status;       // of HTTP; 0: no such answer
    const struct err *err; // the box cannot be asked any more; else NULL
};
typedef void (*probe_fn)(void *data, const struct probe_result *result);

// `path`: NULL: only whether it listens.
struct probe *probe_new(uv_loop_t *loop, struct sandbox *s, const char *path, probe_fn fn,
                        void *data);
// Calls back exactly once, perhaps before it returns, unless it is cancelled; then it is gone.
void probe_begin(struct probe *probe, uint16_t port);
void probe_cancel(struct probe *probe);
