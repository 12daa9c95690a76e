// SPDX-License-Identifier: Apache-2.0
#include "api/call.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/auth.h"
#include "api/show.h"
#include "api/stats.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

enum { ERROR_MAX = 64 * 1024 }; // of an error's body

// -- life

static bool is_plain_id(const char *id)
{
    size_t n = 0;
    for (; id[n] != '\0'; n++) {
        char c = id[n];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
        if (!ok || n == EDGE_REQUEST_ID_MAX)
            return false;
    }
    return n > 0;
}

static void client_gone(void *data)
{
    struct call *call = data;
    call->req = NULL;
    if (call->streaming)
        stream_forget(call);
    void (*stop)(struct call *) = call->stop;
    call->stop = NULL;
    if (stop != NULL)
        stop(call);
}

static void request_over(void *data)
{
    struct call *call = data;
    call->req = NULL;
    call_unref(call);
}

struct call *call_new(struct api *api, struct http_request *req)
{
    struct call *call = calloc(1, sizeof *call);
    if (call == NULL)
        abort();
    call->api = api;
    call->req = req;
    call->family = family_of(http_target(req), NULL);
    call->refs = 1;
    call->start_ns = clock_ns();
    call->method = http_get_method(req);
    call->is_head = call->method == HTTP_HEAD;
    const char *id = http_header(req, "X-Request-Id");
    call->id_is_ours = id == NULL || !is_plain_id(id);
    if (!call->id_is_ours)
        (void)snprintf(call->id, sizeof call->id, "%s", id);
    else
        (void)snprintf(call->id, sizeof call->id, "%s-%" PRIx64, api->id_prefix, api->requests);
    api->requests++;
    http_set_context(req, call, request_over);
    http_on_close(req, client_gone, call);
    return call;
}

struct call *call_ref(struct call *call)
{
    call->refs++;
    return call;
}

void call_unref(struct call *call)
{
    assert(call->refs > 0);
    if (--call->refs > 0)
        return;
    assert(!call->streaming);
    call_drop(call);
    call_hold_nothing(call);
    free(call->state);
    free(call->about);
    body_done(&call->body);
    target_done(&call->target);
    free(call->idem.key);
    free(call->idem.process);
    if (call->sandbox != NULL)
        sandbox_unref(call->sandbox);
    token_unref(call->token);
    free(call);
}

void call_go_on(struct call *call, const struct err *err, void (*next)(struct call *call))
{
    if (err != NULL && err->code != ERR_NONE)
        call_fail(call, err);
    else if (call->req != NULL || call->idem.active)
        next(call);
    call_unref(call);
}

// -- what was asked

const char *call_query(const struct call *call, const char *name)
{
    return target_query(&call->target, name);
}

int call_query_u64(struct call *call, const char *name, uint64_t max, uint64_t fallback,
                   uint64_t *ret)
{
    struct err err;
    const char *text = call_query(call, name);
    *ret = fallback;
    if (text == NULL || parse_u64(text, 0, max, ret, &err) == 0)
        return 0;
    (void)err_wrap(&err, "?%s", name);
    call_fail(call, &err);
    return -1;
}

int call_query_bool(struct call *call, const char *name, bool fallback, bool *ret)
{
    const char *text = call_query(call, name);
    *ret = fallback;
    if (text == NULL)
        return 0;
    if (*text == '\0' || strcmp(text, "1") == 0 || strcmp(text, "true") == 0)
        *ret = true;
    else if (strcmp(text, "0") == 0 || strcmp(text, "false") == 0)
        *ret = false;
    else {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "?%s: must be 1 or 0", name);
        return -1;
    }
    return 0;
}

bool call_accepts(const struct call *call, const char *type)
{
    const char *accept = call->req != NULL ? http_header(call->req, "Accept") : NULL;
    return accept != NULL && strcasestr(accept, type) != NULL;
}

// -- the answer

static const char *sandbox_of(const struct call *call)
{
    return call->route != NULL && (call->route->flags & ROUTE_SANDBOX) ? call->param[0] : NULL;
}

static void log_call(const struct call *call, unsigned status)
{
    enum log_level level = status >= 500 && status != 503 ? LOG_INFO : LOG_DEBUG;
    if (!log_is_on(level))
        return;
    const char *taken = call->method == HTTP_PUT ? "PUT" : call->is_head ? "HEAD" : "GET";
    log_line(level, "request", "method", call->req != NULL ? http_method_name(call->req) : taken,
             "route", call->route != NULL ? call->route->pattern : "-", "status", LOG_U64(status),
             "us", LOG_U64((uint64_t)(clock_ns() - call->start_ns) / 1000), "req", call->id,
             "sandbox", sandbox_of(call), "peer", call->req != NULL ? http_peer(call->req) : NULL,
             NULL);
}

void call_count(struct call *call, unsigned status)
{
    unsigned method = (unsigned)call->method;
    unsigned m = method == 0 ? API_METHODS - 1u : (unsigned)__builtin_ctz(method);
    unsigned class = status / 100;
    if (m < API_METHODS && class >= 1 && class <= API_CLASSES)
        call->api->requests_by[m][class - 1]++;
    stats_answered(call->api->stats, clock_ns() - call->start_ns);
    log_call(call, status);
}

void call_list_begin(struct call_list *list, const char *key)
{
    buf_init(&list->buf, SHOW_MAX);
    json_init(&list->json, &list->buf);
    json_open_object(&list->json);
    show_bool(&list->json, "success", true);
    json_key(&list->json, key);
    json_open_array(&list->json);
}

void call_list_end(struct call *call, struct call_list *list, int r, const struct err *err)
{
    if (r < 0) {
        buf_done(&list->buf);
        call_fail(call, err);
        return;
    }
    json_close_array(&list->json);
    json_close_object(&list->json);
    call_reply_json(call, 200, &list->json);
}

void call_add_header(struct call *call, const char *name, const char *value)
{
    if (call->req != NULL)
        http_add_header(call->req, name, value);
    else if (call->taken != NULL)
        (void)buf_printf(&call->taken->headers, "%s: %s\r\n", name, value);
}

void call_header_n(struct call *call, const char *name, int64_t n)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, n);
    call_add_header(call, name, text);
}

// What was only looked at can be looked at later.
static bool is_scarce(const struct call *call, unsigned status, const struct buf *body)
{
    return status == 200 && (call->method == HTTP_GET || call->is_head) &&
           !call_has_room(call, body->len);
}

void call_reply(struct call *call, unsigned status, const char *type, struct buf *body)
{
    if (is_scarce(call, status, body)) {
        buf_done(body);
        call_scarce(call);
        return;
    }
    call_holds(call, body->len);
    idem_answer(call, status, body->data, body->len);
    call->stop = NULL;
    if (call->req == NULL) {
        if (call->taken != NULL)
            call_taken_reply(call, status, type, body);
        buf_done(body);
        return;
    }
    struct http_request *req = call->req;
    call_count(call, status);
    http_on_close(req, NULL, NULL);
    // The request may be over, and the call with it, before http_reply returns.
    call->req = NULL;
    http_reply(req, status, type, body);
    buf_done(body);
}

void call_reply_json(struct call *call, unsigned status, struct json *json)
{
    struct err err;
    (void)buf_append_char(json->buf, '\n');
    int e = json_finish(json);
    if (e < 0) {
        buf_done(json->buf);
        (void)err_sys(&err, -e, "write the answer");
        err.code = ERR_INTERNAL;
        call_fail(call, &err);
        return;
    }
    call_reply(call, status, "application/json", json->buf);
}

void call_reply_ok(struct call *call)
{
    struct buf buf;
    buf_init(&buf, 64);
    (void)buf_append_str(&buf, "{\"success\":true}\n");
    call_reply(call, 200, "application/json", &buf);
}

void call_about(struct call *call, const char *json)
{
    free(call->about);
    call->about = mem_copy_text(json);
}

static void send_error(struct call *call, enum error_kind kind, const char *details,
                       const char *message)
{
    struct buf buf;
    const struct refusal refusal = {
        .kind = kind,
        .message = message,
        .request_id = call->id,
        .details = details,
        .fault = call->body.fault.wrong != BODY_FINE ? &call->body.fault : NULL,
        .route = call->route,
        .about = call->about,
        .is_at_work = call->is_at_work,
    };
    buf_init(&buf, SIZE_MAX / 2);
    unsigned status = call->family->write_error(&refusal, &buf);
    if (kind == ERROR_UNAVAILABLE || kind == ERROR_REQUEST_IN_PROGRESS)
        call_header_n(call, "Retry-After", 1);
    if (kind == ERROR_STORE_UNAVAILABLE)
        call_header_n(call, "Retry-After", 10);
    call_reply(call, status, "application/json", &buf);
}

void call_error(struct call *call, enum error_kind kind, const char *details, const char *fmt, ...)
{
    char message[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    send_error(call, kind, details, message);
}

// What the kernel said, and paths of the machine, are for the log.
void call_fail(struct call *call, const struct err *err)
{
    enum error_kind kind = error_of_err(err);
    if (kind != ERROR_INTERNAL) {
        send_error(call, kind, NULL, err->msg);
        return;
    }
    log_line(LOG_ERROR, "request failed", "error", err->msg, "errno",
             LOG_U64((uint64_t)err->sys_errno), "req", call->id, "route",
             call->route != NULL ? call->route->pattern : "-", "sandbox", sandbox_of(call), NULL);
    call_error(call, kind, NULL,
               "something went wrong inside Cay; its log says what, under request id %s", call->id);
}
