// SPDX-License-Identifier: Apache-2.0
// What goes wrong, as HTTP says it: one table of kinds, each with its status and the name that a
// program can rely on, and the one shape of an error's body:
//
//     {"error": "what and what to do", "error_code": "NOT_FOUND", "request_id": "...",
//      "details": {...}}
//
// No state, any thread.
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum error_kind {
    ERROR_INVALID_REQUEST,
    ERROR_CANNOT_START,
    ERROR_IS_DIRECTORY,
    ERROR_NOT_DIRECTORY,
    ERROR_UNAUTHORIZED,
    ERROR_MODEL_AUTH,
    ERROR_BUDGET_EXCEEDED,
    ERROR_FORBIDDEN,
    ERROR_PERMISSION_DENIED,
    ERROR_GIT_AUTH_FAILED,
    ERROR_GIT_NETWORK_DENIED,
    ERROR_QUOTA_EXCEEDED,
    ERROR_NOT_FOUND,
    ERROR_INVALID_TOKEN,
    ERROR_GIT_REPO_NOT_FOUND,
    ERROR_GIT_BRANCH_NOT_FOUND,
    ERROR_METHOD_NOT_ALLOWED,
    ERROR_REQUEST_TIMEOUT,
    ERROR_CONFLICT,
    ERROR_FILE_EXISTS,
    ERROR_GIT_OPERATION_FAILED,
    ERROR_REQUEST_IN_PROGRESS,
    ERROR_OUTCOME_UNKNOWN,
    ERROR_IDEMPOTENCY_KEY_REUSED,
    ERROR_CONTEXT_DEAD,
    ERROR_SESSION_TERMINATED,
    ERROR_RESULT_LOST,
    ERROR_PRECONDITION_FAILED,
    ERROR_PAYLOAD_TOO_LARGE,
    ERROR_URI_TOO_LONG,
    ERROR_UNSUPPORTED_MEDIA_TYPE,
    ERROR_RANGE_NOT_SATISFIABLE,
    ERROR_EXPECTATION_FAILED,
    ERROR_MISDIRECTED_REQUEST,
    ERROR_UPGRADE_REQUIRED,
    ERROR_RATE_LIMITED,
    ERROR_HEADERS_TOO_LARGE,
    ERROR_INTERNAL,
    ERROR_STORE_DAMAGED,
    ERROR_NOT_IMPLEMENTED,
    ERROR_LANGUAGE_MISSING,
    ERROR_GIT_CLONE_FAILED,
    ERROR_BAD_GATEWAY,
    ERROR_MODEL_FAILED,
    ERROR_UNAVAILABLE,
    ERROR_STORE_UNAVAILABLE,
    ERROR_MISSING_API_KEY,
    ERROR_MODEL_TIMEOUT,
    ERROR_NO_SPACE,
    ERROR_KIND_MAX,
};

unsigned error_status(enum error_kind kind);
const char *error_name(enum error_kind kind);    // "NOT_FOUND"
const char *error_meaning(enum error_kind kind); // a sentence, for the documentation
enum error_kind error_of(enum err_code code);
// The same, but what says that the store is at fault (saved_blame_store) has kinds of its own.
enum error_kind error_of_err(const struct err *err);

// Appends the body. `request_id` and `details` (a JSON object) may be NULL.
void error_write(struct buf *buf, enum error_kind kind, const char *message, const char *request_id,
                 const char *details);
