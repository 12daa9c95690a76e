// SPDX-License-Identifier: Apache-2.0
#include "api/container/error.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/show.h"

enum { RETRY_MS = 1000 }; // as call.c's Retry-After

static const struct {
    const char *name;
    unsigned status;
} codes[CONTAINER_CODE_MAX] = {
#define X(code, status) {#code, (status)},
    CONTAINER_CODES(X)
#undef X
};

unsigned container_status(enum container_code code)
{
    assert(code < CONTAINER_CODE_MAX);
    return codes[code].status;
}

const char *container_name(enum container_code code)
{
    assert(code < CONTAINER_CODE_MAX);
    return codes[code].name;
}

// -- from ours to theirs

static const enum container_code missing[SUBJECT_MAX] = {
    [SUBJECT_NONE] = CONTAINER_UNKNOWN_ERROR,
    [SUBJECT_FILE] = CONTAINER_FILE_NOT_FOUND,
    [SUBJECT_COMMAND] = CONTAINER_UNKNOWN_ERROR,
    [SUBJECT_PROCESS] = CONTAINER_PROCESS_NOT_FOUND,
    [SUBJECT_SESSION] = CONTAINER_UNKNOWN_ERROR,
    [SUBJECT_PORT] = CONTAINER_PROCESS_NOT_FOUND, // whose port is waited for
    [SUBJECT_GIT] = CONTAINER_GIT_REPOSITORY_NOT_FOUND,
    [SUBJECT_CODE] = CONTAINER_CONTEXT_NOT_FOUND,
    [SUBJECT_WATCH] = CONTAINER_FILE_NOT_FOUND,
    [SUBJECT_BACKUP] = CONTAINER_BACKUP_NOT_FOUND,
};

#define IS(code) (1 + CONTAINER_##code) // 0: none of theirs
static const unsigned char known[ERROR_KIND_MAX] = {
    [ERROR_INVALID_REQUEST] = IS(VALIDATION_FAILED),
    [ERROR_CANNOT_START] = IS(COMMAND_EXECUTION_ERROR),
    [ERROR_IS_DIRECTORY] = IS(IS_DIRECTORY),
    [ERROR_NOT_DIRECTORY] = IS(NOT_DIRECTORY),
    [ERROR_FORBIDDEN] = IS(PERMISSION_DENIED),
    [ERROR_PERMISSION_DENIED] = IS(PERMISSION_DENIED),
    [ERROR_GIT_AUTH_FAILED] = IS(GIT_AUTH_FAILED),
    [ERROR_GIT_NETWORK_DENIED] = IS(GIT_NETWORK_ERROR),
    [ERROR_GIT_REPO_NOT_FOUND] = IS(GIT_REPOSITORY_NOT_FOUND),
    [ERROR_GIT_BRANCH_NOT_FOUND] = IS(GIT_BRANCH_NOT_FOUND),
    [ERROR_GIT_OPERATION_FAILED] = IS(GIT_OPERATION_FAILED),
    [ERROR_GIT_CLONE_FAILED] = IS(GIT_CLONE_FAILED),
    [ERROR_CONFLICT] = IS(RESOURCE_BUSY),
    [ERROR_CONTEXT_DEAD] = IS(RESOURCE_BUSY),
    [ERROR_FILE_EXISTS] = IS(FILE_EXISTS),
    [ERROR_SESSION_TERMINATED] = IS(SESSION_TERMINATED),
    [ERROR_PAYLOAD_TOO_LARGE] = IS(FILE_TOO_LARGE),
    [ERROR_INTERNAL] = IS(INTERNAL_ERROR),
    [ERROR_NOT_IMPLEMENTED] = IS(NOT_IMPLEMENTED),
    [ERROR_BAD_GATEWAY] = IS(SERVICE_NOT_RESPONDING),
    [ERROR_UNAVAILABLE] = IS(CONTAINER_UNAVAILABLE),
    [ERROR_STORE_UNAVAILABLE] = IS(CONTAINER_UNAVAILABLE),
    [ERROR_NO_SPACE] = IS(NO_SPACE),
};

enum container_code container_code_of(enum error_kind kind, enum route_subject subject)
{
    if (kind == ERROR_NOT_FOUND)
        return missing[subject];
    if (kind == ERROR_CANNOT_START && subject == SUBJECT_PROCESS)
        return CONTAINER_PROCESS_ERROR;
    return known[kind] != 0 ? (enum container_code)(known[kind] - 1) : CONTAINER_CODE_MAX;
}

// -- the body

static void put_fault(struct json *j, const struct body_fault *fault, const char *message)
{
    json_open_object(j);
    json_key(j, "validationErrors");
    json_open_array(j);
    json_open_object(j);
    show_str(j, "field", fault->field[0] != '\0' ? fault->field : "body");
    show_str(j, "message", message);
    show_str(j, "code",
             fault->wrong == BODY_MISSING      ? "required"
             : fault->wrong == BODY_UNREADABLE ? "invalid_json"
                                               : "invalid");
    json_close_object(j);
    json_close_array(j);
    json_close_object(j);
}

static void put_unavailable(struct json *j, const char *reason)
{
    json_open_object(j);
    show_str(j, "reason", reason);
    show_bool(j, "retryable", true);
    show_int(j, "retryAfterMs", RETRY_MS);
    json_close_object(j);
}

// Everything but the context, which is between the two.
static void put_head(struct json *j, const char *code, const char *message)
{
    json_open_object(j);
    show_str(j, "code", code);
    show_str(j, "message", message);
    json_key(j, "context");
}

static void put_tail(struct json *j, unsigned status, struct buf *ret)
{
    show_int(j, "httpStatus", status);
    show_time_now(j, "timestamp");
    json_close_object(j);
    (void)buf_append_char(ret, '\n');
}

unsigned container_write_error(const struct refusal *r, struct buf *ret)
{
    struct json j;
    enum route_subject subject = r->route != NULL ? r->route->subject : SUBJECT_NONE;
    enum container_code code = container_code_of(r->kind, subject);
    bool is_ours = code == CONTAINER_CODE_MAX;
    unsigned status = is_ours ? error_status(r->kind) : container_status(code);
    const char *context = r->details != NULL ? r->details : r->about;
    json_init(&j, ret);
    put_head(&j, is_ours ? error_name(r->kind) : container_name(code), r->message);
    if (r->fault != NULL)
        put_fault(&j, r->fault, r->message);
    else if (code == CONTAINER_CONTAINER_UNAVAILABLE)
        put_unavailable(&j, r->message);
    else
        json_put_raw(&j, context != NULL ? context : "{}", context != NULL ? strlen(context) : 2);
    put_tail(&j, status, ret);
    return status;
}

static void fail(struct call *call, enum container_code code, const char *context,
                 const char *reason, const char *message)
{
    struct buf buf;
    struct json j;
    if (context == NULL)
        context = call->about != NULL ? call->about : "{}";
    buf_init(&buf, SIZE_MAX / 2);
    json_init(&j, &buf);
    put_head(&j, container_name(code), message);
    if (reason != NULL)
        put_unavailable(&j, reason);
    else
        json_put_raw(&j, context, strlen(context));
    put_tail(&j, container_status(code), &buf);
    if (container_status(code) == 503)
        call_header_n(call, "Retry-After", RETRY_MS / 1000);
    call_reply(call, container_status(code), "application/json", &buf);
}

void container_fail(struct call *call, enum container_code code, const char *context,
                    const char *fmt, ...)
{
    char message[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    fail(call, code, context, NULL, message);
}

void container_unavailable(struct call *call, const char *reason, const char *fmt, ...)
{
    char message[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    fail(call, CONTAINER_CONTAINER_UNAVAILABLE, NULL, reason, message);
}

// In the words of their client's types.
static const char *interruption(const struct call *call)
{
    bool is_over = sandbox_row(call->sandbox)->status == SANDBOX_DESTROYING;
    return is_over ? "sandbox_lifetime_changed" : "runtime_replaced";
}

void container_interrupted(struct call *call, const char *operation, bool began,
                           const char *message)
{
    auto_buf context;
    struct json j;
    buf_init(&context, 512);
    json_init(&j, &context);
    json_open_object(&j);
    show_str(&j, "reason", interruption(call));
    show_str(&j, "operation", operation);
    show_str(&j, "phase", "running");
    if (began)
        show_bool(&j, "admitted", true);
    else
        show_str(&j, "admitted", "unknown");
    show_bool(&j, "retryable", false);
    json_close_object(&j);
    fail(call, CONTAINER_OPERATION_INTERRUPTED, json_finish(&j) == 0 ? buf_str(&context) : NULL,
         NULL, message);
}

void container_invalid(struct call *call, const char *field, const char *fmt, ...)
{
    char message[512];
    struct body_fault fault = {.wrong = BODY_INVALID};
    auto_buf context;
    struct json j;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    (void)snprintf(fault.field, sizeof fault.field, "%s", field);
    buf_init(&context, 8 * sizeof message);
    json_init(&j, &context);
    put_fault(&j, &fault, message);
    fail(call, CONTAINER_VALIDATION_FAILED, json_finish(&j) == 0 ? buf_str(&context) : NULL, NULL,
         message);
}
