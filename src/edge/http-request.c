// SPDX-License-Identifier: Apache-2.0
// A message becomes a request, is handed to the handler, and is answered.
//
// The library calls request_begin with the raw target, request_step when the head is there, for
// each piece of the body, when all of it is there, and again when it was suspended and resumed, and
// request_done when it is over, however it ended. All of that happens inside MHD_run, which is
// never called from there; what our side does in between (an answer, an event) marks the listener,
// and the library runs before the loop sleeps.
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/log.h"
#include "edge/error.h"
#include "edge/http-internal.h"
#include "edge/limits.h"

enum {
    SPARE_MAX = 256,        // requests kept for reuse
    SPARE_BODY = 64 * 1024, // with at most so much memory each
};

// --- begin and end

static struct http_request *request_new(struct http_server *server)
{
    struct http_request *req = TAILQ_FIRST(&server->spare);
    if (req != NULL) {
        TAILQ_REMOVE(&server->spare, req, all);
        server->n_spare--;
        return req;
    }
    req = calloc(1, sizeof *req);
    if (req == NULL)
        abort();
    buf_init(&req->target, EDGE_TARGET_MAX);
    buf_init(&req->body, EDGE_BODY_MAX);
    buf_init(&req->headers, EDGE_REPLY_HEADERS_MAX);
    buf_init(&req->queue, EDGE_STREAM_HARD_MAX);
    return req;
}

static void reuse(struct buf *buf)
{
    if (buf->cap > SPARE_BODY)
        buf_done(buf);
    buf_reset(buf);
}

static void request_forget(struct http_request *req)
{
    struct http_server *server = req->server;
    TAILQ_REMOVE(&server->requests, req, all);
    if (req->is_young)
        TAILQ_REMOVE(&server->young, req, young);
    if (req->is_drained)
        TAILQ_REMOVE(&server->drained, req, drained);
    if (req->is_active)
        server->n_active--;
    server->bodies -= req->room;
    if (req->context_free != NULL)
        req->context_free(req->context);
}

static void request_destroy(struct http_request *req)
{
    buf_done(&req->target);
    buf_done(&req->body);
    buf_done(&req->headers);
    buf_done(&req->queue);
    free(req);
}

void request_free_spare(struct http_server *server)
{
    struct http_request *req;
    while ((req = TAILQ_FIRST(&server->spare)) != NULL) {
        TAILQ_REMOVE(&server->spare, req, all);
        request_destroy(req);
    }
}

// It may have had a secret. Bodies that are larger than one can be are not worth the time.
static void wipe_body(struct http_request *req)
{
    enum { WIPED_MAX = 128 * 1024 };
    if (req->body.len > 0 && req->body.len <= WIPED_MAX)
        explicit_bzero(req->body.data, req->body.len);
}

void request_free(struct http_request *req)
{
    struct http_server *server = req->server;
    request_forget(req);
    wipe_body(req);
    if (server->n_spare == SPARE_MAX || server->is_stopping) {
        request_destroy(req);
        return;
    }
    reuse(&req->target);
    reuse(&req->body);
    reuse(&req->headers);
    reuse(&req->queue);
    *req = (struct http_request){
        .target = req->target, .body = req->body, .headers = req->headers, .queue = req->queue};
    TAILQ_INSERT_HEAD(&server->spare, req, all);
    server->n_spare++;
}

void *request_begin(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    struct listener *listener = cls;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct conn *conn = info->socket_context;
    if (conn == NULL || listener->server->is_stopping)
        return NULL; // request_step closes it
    struct http_request *req = request_new(listener->server);
    req->server = listener->server;
    req->conn = conn;
    req->mhd = mhd;
    req->number = ++conn->n_requests;
    (void)buf_append_str(&req->target, uri != NULL ? uri : "");
    TAILQ_INSERT_TAIL(&req->server->requests, req, all);
    conn_set_busy(conn, req);
    return req;
}

// Somebody who holds the request and was not told that it is over will still touch it.
void request_done(void *cls, struct MHD_Connection *mhd, void **con_cls,
                  enum MHD_RequestTerminationCode code)
{
    struct http_request *req = *con_cls;
    (void)cls;
    (void)mhd;
    (void)code; // says "completed" for clients that left while their request was suspended
    *con_cls = NULL;
    if (req == NULL)
        return;
    conn_set_idle(req->conn);
    req->conn = NULL;
    req->mhd = NULL;
    bool is_held = req->phase == PHASE_WORK || req->phase == PHASE_STREAM;
    http_close_fn on_close = req->on_close;
    if (is_held && on_close == NULL)
        return;
    req->on_close = NULL;
    if (is_held)
        on_close(req->close_data);
    request_free(req);
}

// --- asleep and awake

void request_suspend(struct http_request *req)
{
    req->is_suspended = true;
    MHD_suspend_connection(req->mhd);
}

void request_resume(struct http_request *req)
{
    if (!req->is_suspended)
        return;
    req->is_suspended = false;
    MHD_resume_connection(req->mhd);
    listener_mark(req->conn->listener);
}

void request_cut(struct http_request *req)
{
    if (req->conn == NULL || req->is_cut)
        return;
    req->is_cut = true;
    if (req->is_suspended)
        request_resume(req);
    else // the library waits for a client that may never read again
        (void)shutdown(req->conn->fd, SHUT_RDWR);
}

// --- the answer

static void add_headers(struct http_request *req, struct MHD_Response *response)
{
    for (size_t at = 0; at < req->headers.len;) {
        const char *name = req->headers.data + at;
        const char *value = name + strlen(name) + 1;
        (void)MHD_add_response_header(response, name, value);
        at += strlen(name) + 1 + strlen(value) + 1;
    }
}

void request_send(struct http_request *req, unsigned status, const char *type,
                  struct MHD_Response *response)
{
    if (response == NULL)
        abort();
    if (type != NULL)
        (void)MHD_add_response_header(response, "Content-Type", type);
    add_headers(req, response);
    if (req->must_close || req->server->is_draining)
        (void)MHD_add_response_header(response, "Connection", "close");
    bool is_queued = MHD_queue_response(req->mhd, status, response) == MHD_YES;
    MHD_destroy_response(response);
    if (!is_queued) {
        log_line(LOG_ERROR, "an answer could not be sent", "status", LOG_U64(status), NULL);
        req->is_cut = true;
    }
    request_resume(req);
}

static struct MHD_Response *response_of(struct buf *body)
{
    static char nothing[] = "";
    if (body == NULL || body->len == 0)
        return MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body->len, body->data, MHD_RESPMEM_MUST_FREE);
    if (response != NULL)
        *body = (struct buf){.max = body->max};
    return response;
}

void http_reply(struct http_request *req, unsigned status, const char *content_type,
                struct buf *body)
{
    assert(req->phase == PHASE_WORK);
    req->phase = PHASE_REPLY;
    req->on_close = NULL;
    bool has_body = body != NULL && body->len > 0 && status != 204 && status != 304;
    if (req->conn == NULL) { // gone, and nobody had asked to be told
        request_free(req);
        return;
    }
    request_send(req, status, has_body ? content_type : NULL, response_of(has_body ? body : NULL));
    if (body != NULL)
        buf_reset(body);
}

void http_reply_close(struct http_request *req, unsigned status, const char *content_type,
                      struct buf *body)
{
    req->must_close = true;
    http_reply(req, status, content_type, body);
}

static bool is_plain(const char *text, bool is_name)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == 0x7f || (c < 0x20 && c != '\t') || (is_name && (c <= 0x20 || c == ':')))
            return false;
    }
    return true;
}

void http_add_header(struct http_request *req, const char *name, const char *value)
{
    size_t n_name = strlen(name) + 1;
    size_t n_value = strlen(value) + 1;
    if (*name == '\0' || !is_plain(name, true) || !is_plain(value, false) ||
        req->headers.len + n_name + n_value > req->headers.max) {
        log_line(LOG_ERROR, "a header could not be sent, ignoring", "name", name, NULL);
        return;
    }
    (void)buf_append(&req->headers, name, n_name);
    (void)buf_append(&req->headers, value, n_value);
}

// --- messages that are no requests

static enum error_kind kind_of(unsigned status)
{
    switch (status) {
    case 413:
        return ERROR_PAYLOAD_TOO_LARGE;
    case 414:
        return ERROR_URI_TOO_LONG;
    case 431:
        return ERROR_HEADERS_TOO_LARGE;
    case 503:
        return ERROR_UNAVAILABLE;
    default:
        return ERROR_INVALID_REQUEST;
    }
}

static unsigned write_refusal(const struct http_request *req, const char *why, const char *id,
                              struct buf *ret)
{
    const struct http_server *server = req->server;
    const struct frame *frame = &req->conn->frame;
    enum error_kind kind = kind_of(frame->status);
    if (server->refusal != NULL)
        return server->refusal(server->data, frame->peek.target, kind, why, id, ret);
    error_write(ret, kind, why, id, NULL);
    return error_status(kind);
}

static void refuse(struct http_request *req)
{
    const struct frame *frame = &req->conn->frame;
    unsigned char random[8];
    char id[2 * sizeof random + 1];
    auto_buf body;
    const char *why = frame->why != NULL ? frame->why : "the message is not HTTP/1.1";
    randombytes_buf(random, sizeof random);
    (void)sodium_bin2hex(id, sizeof id, random, sizeof random);
    buf_init(&body, 4096);
    unsigned status = write_refusal(req, why, id, &body);
    log_line(LOG_DEBUG, "message refused", "req", id, "peer", http_peer(req), "why", why, NULL);
    req->phase = PHASE_WORK;
    http_add_header(req, "X-Request-Id", id);
    http_reply_close(req, status, "application/json", &body);
}

// --- steps

static enum http_method method_of(const char *name)
{
    static const struct {
        const char *name;
        enum http_method method;
    } methods[] = {
        {"GET",     HTTP_GET    },
        {"POST",    HTTP_POST   },
        {"PUT",     HTTP_PUT    },
        {"DELETE",  HTTP_DELETE },
        {"HEAD",    HTTP_HEAD   },
        {"PATCH",   HTTP_PATCH  },
        {"OPTIONS", HTTP_OPTIONS},
    };
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(name, methods[i].name) == 0)
            return methods[i].method;
    }
    return HTTP_OTHER;
}

// A request that is answered at once is never suspended, nor is its client watched.
static void work(struct http_request *req)
{
    struct http_server *server = req->server;
    req->phase = PHASE_WORK;
    req->is_active = true;
    server->n_active++;
    server->handler(req, server->data);
    if (req->phase == PHASE_REPLY)
        return;
    if (req->phase == PHASE_WORK)
        request_suspend(req);
    req->is_young = true;
    req->born = server->ticks;
    TAILQ_INSERT_TAIL(&server->young, req, young);
    server_tick(server);
}

// What is left of its body would be taken for the next request.
static void work_raw(struct http_request *req)
{
    req->is_raw = true;
    req->must_close = true;
    work(req);
}

// --- bodies that are kept

void http_set_owner(struct http_request *req, uint64_t owner)
{
    req->owner = owner;
}

// Bodies of the same owner's other requests.
static uint64_t room_of_others(const struct http_request *req)
{
    uint64_t bytes = 0;
    const struct http_request *other;
    TAILQ_FOREACH(other, &req->server->requests, all)
    bytes += other != req && other->owner == req->owner ? other->room : 0;
    return bytes;
}

// Half is for the others: whoever sends what is never taken takes nothing from them.
static bool has_room(const struct http_request *req, uint64_t bytes)
{
    uint64_t all = req->server->bodies - req->room + bytes, share = EDGE_BODIES_MAX / 2;
    if (bytes <= EDGE_BODY_FREE || all <= share)
        return true;
    return all <= EDGE_BODIES_MAX && room_of_others(req) + bytes <= share;
}

// As bytes come: whoever only says that they will takes nothing from others.
static bool take_room(struct http_request *req, uint64_t bytes)
{
    if (!has_room(req, bytes))
        return false;
    if (bytes > EDGE_BODY_FREE) {
        req->server->bodies += bytes - req->room;
        req->room = bytes;
    }
    return true;
}

static void refuse_full(struct http_request *req)
{
    struct frame *frame = &req->conn->frame;
    frame->status = 503;
    frame->why = "too many large bodies are being sent; try again shortly";
    http_add_header(req, "Retry-After", "1");
    refuse(req);
}

// A body that is not let in: the request is answered now.
static void admit(struct http_request *req)
{
    const struct http_server *server = req->server;
    const struct frame *frame = &req->conn->frame;
    uint64_t length = frame->peek.length;
    if (frame->heads != req->number || length <= EDGE_BODY_FREE) // else all of it is there already
        return;
    req->conn->is_unread = true;
    if (server->is_known != NULL && !server->is_known(server->data, req))
        work_raw(req);
    else if (!has_room(req, length == HTTP_CHUNKED ? 0 : length))
        refuse_full(req);
    else
        req->conn->is_unread = false;
}

static enum MHD_Result collect(struct http_request *req, const char *upload, size_t *upload_len)
{
    int r = take_room(req, req->body.len + *upload_len)
                ? buf_append(&req->body, upload, *upload_len)
                : -ENOMEM;
    *upload_len = 0;
    return r == 0 ? MHD_YES : MHD_NO;
}

enum MHD_Result request_step(void *cls, struct MHD_Connection *mhd, const char *url,
                             const char *method, const char *version, const char *upload,
                             size_t *upload_len, void **con_cls)
{
    struct http_request *req = *con_cls;
    (void)cls;
    (void)mhd;
    (void)url; // decoded, and cut at a NUL: nobody shall use it
    if (req == NULL || req->is_cut || req->server->is_stopping)
        return MHD_NO;
    switch (req->phase) {
    case PHASE_HEAD:
        req->method_name = method;
        req->method = method_of(method);
        req->phase = PHASE_BODY;
        req->is_old = strcmp(version, "HTTP/1.0") == 0;
        if (frame_refuses(&req->conn->frame, req->number))
            refuse(req);
        else if (req->conn->frame.state == FRAME_RAW && req->number == req->conn->frame.heads)
            work_raw(req);
        else
            admit(req);
        return MHD_YES;
    case PHASE_BODY:
        if (*upload_len > 0)
            return collect(req, upload, upload_len);
        if (frame_refuses(&req->conn->frame, req->number))
            refuse(req);
        else
            work(req);
        return MHD_YES;
    case PHASE_WORK: // nobody has resumed it: it sleeps on
        request_suspend(req);
        return MHD_YES;
    case PHASE_STREAM:
    case PHASE_REPLY:
    case PHASE_MAX:
        break;
    }
    return MHD_NO;
}

// --- what was asked

enum http_method http_get_method(const struct http_request *req)
{
    return req->method;
}

const char *http_method_name(const struct http_request *req)
{
    return req->method_name;
}

const char *http_target(const struct http_request *req)
{
    return buf_str(&req->target);
}

const char *http_header(const struct http_request *req, const char *name)
{
    return req->mhd != NULL ? MHD_lookup_connection_value(req->mhd, MHD_HEADER_KIND, name) : NULL;
}

struct count {
    const char *name;
    unsigned n;
};

static enum MHD_Result count_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    struct count *count = cls;
    (void)kind;
    (void)value;
    count->n += strcasecmp(name, count->name) == 0;
    return MHD_YES;
}

bool http_header_twice(const struct http_request *req, const char *name)
{
    struct count count = {.name = name};
    if (req->mhd != NULL)
        (void)MHD_get_connection_values(req->mhd, MHD_HEADER_KIND, count_header, &count);
    return count.n > 1;
}

static enum MHD_Result write_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    struct buf *ret = cls;
    (void)kind;
    (void)buf_append_str(ret, name);
    (void)buf_append_str(ret, ": ");
    (void)buf_append_str(ret, value != NULL ? value : "");
    (void)buf_append_str(ret, "\r\n");
    return MHD_YES;
}

void http_write_head(const struct http_request *req, struct buf *ret)
{
    (void)buf_printf(ret, "%s %s HTTP/1.%d\r\n", req->method_name, http_target(req), !req->is_old);
    if (req->mhd != NULL)
        (void)MHD_get_connection_values(req->mhd, MHD_HEADER_KIND, write_header, ret);
    (void)buf_append_str(ret, "\r\n");
}

const char *http_body(const struct http_request *req, size_t *ret_len)
{
    if (ret_len != NULL)
        *ret_len = req->body.len;
    return buf_str(&req->body);
}

bool http_is_local(const struct http_request *req)
{
    return req->conn != NULL && req->conn->listener->local;
}

const char *http_peer(const struct http_request *req)
{
    struct conn *conn = req->conn;
    char text[INET6_ADDRSTRLEN];
    if (conn == NULL || conn->listener->local)
        return conn == NULL ? "" : "unix";
    if (conn->peer[0] != '\0')
        return conn->peer;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (info->client_addr->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)info->client_addr;
        (void)inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
        (void)snprintf(conn->peer, sizeof conn->peer, "%s:%u", text, ntohs(in->sin_port));
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)info->client_addr;
        (void)inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof text);
        (void)snprintf(conn->peer, sizeof conn->peer, "[%s]:%u", text, ntohs(in6->sin6_port));
    }
    return conn->peer;
}

void http_on_close(struct http_request *req, http_close_fn fn, void *data)
{
    req->on_close = fn;
    req->close_data = data;
}

void http_set_context(struct http_request *req, void *context, http_close_fn free_fn)
{
    req->context = context;
    req->context_free = free_fn;
}

void *http_context(const struct http_request *req)
{
    return req->context;
}
