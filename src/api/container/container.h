// SPDX-License-Identifier: Apache-2.0
// The container family: what a program that was written for Cloudflare's sandbox says to its
// container, under /sandbox/{id}/container. Its errors are
//
//     {"code": "FILE_NOT_FOUND", "message": "...", "context": {"path": "/a"}, "httpStatus": 404,
//      "timestamp": "...", "operation"?, "suggestion"?, "documentation"?}
//
// from whose code their client makes a class of its own. A handler says what has happened in one of
// two ways. container_fail names the code. call_error and call_fail, which handlers of all families
// share, are translated: by the kind of the error and the `subject` of the route (route.h), with
// what call_about was told as the context; a body that does not fit its table becomes
// VALIDATION_FAILED with {"validationErrors": [{"field", "message", "code"}]}.
//
// Where routes go: a file has its bodies' tables (SCHEMA(..., .lenient = true)), its handlers and
// its table of CONTAINER_ROUTEs. The table is named at the end of this header and in
// container/routes.c, which joins them, and the file in api/meson.build; base.c is the smallest.
#pragma once

#include "api/call.h"
#include "base/json.h"

#define CONTAINER         "/sandbox/{id}/container"
#define CONTAINER_VERSION "0.12.10" // of their package, whose protocol this is

// A row of a table, CONTAINER_ROUTE(HTTP_POST, "/api/read", SUBJECT_FILE, handle_read,
// &read_schema) with the body's table, or nothing, last. Every route is of a sandbox, which is made
// if need be.
#define CONTAINER_ROUTE(http, path, about, handler, ...)                                           \
    {                                                                                              \
        (http), CONTAINER path, (handler), ROUTE_SANDBOX,                                          \
            __VA_ARGS__ __VA_OPT__(, ).status = 200, .subject = (about)                            \
    }

// The codes that their client knows, and, behind those, ours for what they have none for: to it
// these are a SandboxError. X(code, status).
#define CONTAINER_CODES(X)                                                                         \
    X(FILE_NOT_FOUND, 404)                                                                         \
    X(COMMAND_NOT_FOUND, 404)                                                                      \
    X(PROCESS_NOT_FOUND, 404)                                                                      \
    X(GIT_REPOSITORY_NOT_FOUND, 404)                                                               \
    X(GIT_BRANCH_NOT_FOUND, 404)                                                                   \
    X(CONTEXT_NOT_FOUND, 404)                                                                      \
    X(BACKUP_NOT_FOUND, 404)                                                                       \
    X(IS_DIRECTORY, 400)                                                                           \
    X(NOT_DIRECTORY, 400)                                                                          \
    X(INVALID_GIT_URL, 400)                                                                        \
    X(NAME_TOO_LONG, 400)                                                                          \
    X(VALIDATION_FAILED, 400)                                                                      \
    X(INVALID_BACKUP_CONFIG, 400)                                                                  \
    X(GIT_AUTH_FAILED, 401)                                                                        \
    X(PERMISSION_DENIED, 403)                                                                      \
    X(READ_ONLY, 403)                                                                              \
    X(FILE_EXISTS, 409)                                                                            \
    X(RESOURCE_BUSY, 409)                                                                          \
    X(SESSION_ALREADY_EXISTS, 409)                                                                 \
    X(OPERATION_INTERRUPTED, 409)                                                                  \
    X(SESSION_DESTROYED, 410)                                                                      \
    X(SESSION_TERMINATED, 410)                                                                     \
    X(FILE_TOO_LARGE, 413)                                                                         \
    X(NO_SPACE, 500)                                                                               \
    X(TOO_MANY_FILES, 500)                                                                         \
    X(TOO_MANY_LINKS, 500)                                                                         \
    X(FILESYSTEM_ERROR, 500)                                                                       \
    X(COMMAND_EXECUTION_ERROR, 500)                                                                \
    X(STREAM_START_ERROR, 500)                                                                     \
    X(PROCESS_ERROR, 500)                                                                          \
    X(GIT_CLONE_FAILED, 500)                                                                       \
    X(GIT_OPERATION_FAILED, 500)                                                                   \
    X(CODE_EXECUTION_ERROR, 500)                                                                   \
    X(BACKUP_CREATE_FAILED, 500)                                                                   \
    X(BACKUP_RESTORE_FAILED, 500)                                                                  \
    X(WATCH_START_ERROR, 500)                                                                      \
    X(INTERNAL_ERROR, 500)                                                                         \
    X(PYTHON_NOT_AVAILABLE, 501)                                                                   \
    X(JAVASCRIPT_NOT_AVAILABLE, 501)                                                               \
    X(SERVICE_NOT_RESPONDING, 502)                                                                 \
    X(GIT_NETWORK_ERROR, 502)                                                                      \
    X(INTERPRETER_NOT_READY, 503)                                                                  \
    X(CONTAINER_UNAVAILABLE, 503)                                                                  \
    X(UNKNOWN_ERROR, 404)                                                                          \
    X(NOT_IMPLEMENTED, 501)

enum container_code {
#define X(code, status) CONTAINER_##code,
    CONTAINER_CODES(X)
#undef X
        CONTAINER_CODE_MAX,
};

unsigned container_status(enum container_code code);
const char *container_name(enum container_code code); // "FILE_NOT_FOUND"
// The code for what went wrong by a route about `subject`. CONTAINER_CODE_MAX: theirs have none,
// and error_name and error_status (edge/error.h) are what is sent.
enum container_code container_code_of(enum error_kind kind, enum route_subject subject);

// `context`: a JSON object; NULL: what call_about was told, or {}.
void container_fail(struct call *call, enum container_code code, const char *context,
                    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
// The box cannot be had, or is gone before anything was changed in it: 503 CONTAINER_UNAVAILABLE
// with {"reason": `reason`, "retryable": true}. Their client asks again by itself.
void container_unavailable(struct call *call, const char *reason, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// The box is gone in the middle of it, and asked again it would be done twice: 409
// OPERATION_INTERRUPTED. `began`: else nobody knows.
void container_interrupted(struct call *call, const char *operation, bool began,
                           const char *message);
// A field that is of its type and still not right: 400 VALIDATION_FAILED, as for a body that does
// not fit its table.
void container_invalid(struct call *call, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// The session that a call names: its body's `given` (may be NULL), else ?sessionId, else the header
// X-Session-Id, else "default", each made on first use. NULL: none, as "__DISABLE_SESSION__" asks.
const char *container_session(const struct call *call, const char *given);
// Whether it can be a session's name; else 0 becomes -1 and it was answered.
int container_check_session(struct call *call, const char *session);

// Answers: {"success": true, ..., "timestamp": "..."}. Begin, write members, end.
struct container_answer {
    struct buf buf;
    struct json json;
};
void container_begin(struct container_answer *answer, bool success);
void container_end(struct call *call, struct container_answer *answer);

// Events of a stream: "data: {"type": ..., ..., "timestamp": "..."}\n\n" and no other line. After
// stream_begin_sse. Begin, write members, send.
void container_event_begin(struct container_answer *event, const char *type);
void container_event_send(struct call *call, struct container_answer *event);

// --- the tables: one a file, each also in routes.c

#define CONTAINER_TABLE(name)                                                                      \
    extern const struct route name[];                                                              \
    extern const size_t n_##name

CONTAINER_TABLE(container_base);
CONTAINER_TABLE(container_files_read);
CONTAINER_TABLE(container_files_write);
CONTAINER_TABLE(container_files_list);
CONTAINER_TABLE(container_files_ops);
CONTAINER_TABLE(container_watch);
CONTAINER_TABLE(container_watch_check);
CONTAINER_TABLE(container_sessions);
CONTAINER_TABLE(container_exec);
CONTAINER_TABLE(container_processes);
CONTAINER_TABLE(container_port_watch);
CONTAINER_TABLE(container_terminal);
CONTAINER_TABLE(container_git);
CONTAINER_TABLE(container_contexts);
CONTAINER_TABLE(container_code);
CONTAINER_TABLE(container_backup);
