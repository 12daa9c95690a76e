// SPDX-License-Identifier: Apache-2.0
// A question answered by code: the model writes it, it is cleaned of what is not code (clean.h),
// run as a cell in a sandbox, given back to the model once when it fails, and what it printed,
// showed and wrote is the answer.
#pragma once

#include "agents/run.h"

enum {
    ANSWER_QUESTION_MAX = 100 * 1024,
    ANSWER_TOKENS = 2048,
    ANSWER_TOKENS_MAX = 64000,
    ANSWER_TIMEOUT_MS = 30000,
    ANSWER_RETRIES_MAX = 5,
};

struct answer_request { // texts are copied
    int64_t tenant;
    const char *id; // as in struct run_start
    const char *question;
    const char *language; // "python", "javascript"; NULL: the context's, else python
    const char *model;    // NULL: the default
    const char *sandbox;  // id; NULL: a fresh one
    const char *context;  // id; NULL: the language's default one
    int64_t max_tokens, timeout_ms;
    unsigned retries;
    bool cache;
};
// NULL: it was not begun. ERR_NOT_FOUND: the sandbox, or the context; ERR_INVALID: the context
// speaks another language; ERR_UNAVAILABLE.
struct run *answer_start(struct agents *agents, const struct answer_request *request,
                         struct err *err);
