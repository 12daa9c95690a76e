// SPDX-License-Identifier: Apache-2.0
// One HTTP request to a program that listens in a box, and its whole answer, within a size and a
// time. The program is anybody's: its answer is read strictly, redirects are not followed, and what
// is too long is an error. On the loop's thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/sandbox.h"

struct opencode_http;

struct opencode_request {
    uv_loop_t *loop;
    struct sandbox *s; // that runs; a reference is taken
    uint16_t port;
    const char *method, *target; // copied, as the body is
    const char *body;            // JSON; NULL: none
    size_t body_len;
    int64_t timeout_ms; // of everything; 0: none
    size_t max;         // bytes of the answer's body
};

struct opencode_answer { // lent for the call
    unsigned status;
    const char *body; // ends with a NUL that does not count
    size_t len;
};

// Exactly one of them. ERR_UNAVAILABLE with sys_errno ECONNREFUSED: nobody listens, and nothing was
// sent; with ETIMEDOUT: it took too long. ERR_INVALID: an answer that is none.
typedef void (*opencode_http_fn)(void *data, const struct opencode_answer *answer,
                                 const struct err *err);

// Calls back from the loop, never before it returns.
struct opencode_http *opencode_http_ask(const struct opencode_request *request, opencode_http_fn fn,
                                        void *data);
void opencode_http_cancel(struct opencode_http *http); // takes NULL; nobody is called any more
