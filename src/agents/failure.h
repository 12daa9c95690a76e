// SPDX-License-Identifier: Apache-2.0
// What a call to the model that came to no message means to whoever asked for it: docs/EXECUTE.md,
// "Errors". Also of what kept it from being made: no key, a budget that is used up.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "db/db.h"
#include "model/model.h"

enum { FAILURE_MESSAGE_MAX = 512 };

struct failure {
    unsigned status;        // of HTTP
    const char *error_code; // a literal
    char message[FAILURE_MESSAGE_MAX];
    int64_t retry_after_ms; // 0: nothing to say
};

// Of an end that is not MODEL_DONE.
void failure_of(const struct model_result *result, struct failure *ret);
// MODEL_INVALID can also be a key that is not there: agents_ask says so with this error_type.
#define FAILURE_NO_KEY "cay_no_key"

void failure_set(struct failure *ret, unsigned status, const char *error_code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// Of what went wrong in a sandbox, or with making one.
void failure_of_err(const struct err *err, struct failure *ret);
void failure_no_key(struct failure *ret);
void failure_timeout(struct failure *ret, int64_t timeout_ms);
// Whether the budget of this sandbox is used up; then `ret` says so.
bool failure_of_budget(const struct sandbox_row *row, struct failure *ret);
// {"error", "error_code", "request_id"}: the body of an answer that is an error.
void failure_write(const struct failure *failure, const char *request_id, struct buf *body);
