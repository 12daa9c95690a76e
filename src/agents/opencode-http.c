// SPDX-License-Identifier: Apache-2.0
#include "agents/opencode-http.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "h1/head.h"
#include "sandbox/reach.h"

enum {
    HEAD_MAX = 4 * 1024, // of a request
    READ_SIZE = 64 * 1024,
    READS_A_TURN = 16, // others are served, too
    INTERIM_MAX = 8,   // answers before the answer
};

struct opencode_http {
    unsigned refs;       // the caller's until it is told, and those of dial, timer and poll
    opencode_http_fn fn; // NULL: over
    void *data;
    struct sandbox *s;
    int fd;
    uv_poll_t poll;
    uv_timer_t timer;
    bool has_poll, has_timer;
    struct buf out;
    size_t sent;
    struct buf in;   // what came of the head, then nothing
    struct buf body; // without the frame of its chunks
    struct h1_framing framing;
    unsigned status, interim;
    bool has_head, closes;
    struct err err; // that is told by the timer
};

// --- life

static void http_unref(struct opencode_http *h)
{
    if (--h->refs > 0)
        return;
    fd_close(h->fd);
    buf_done(&h->out);
    buf_done(&h->in);
    buf_done(&h->body);
    free(h);
}

static void on_poll_closed(uv_handle_t *handle)
{
    http_unref(handle->data);
}

static void on_timer_closed(uv_handle_t *handle)
{
    http_unref(handle->data);
}

// The sandbox is let go of at once: its fleet may be freed before the loop turns.
static void let_go(struct opencode_http *h)
{
    sandbox_unref(h->s);
    h->s = NULL;
    if (h->has_poll)
        uv_close((uv_handle_t *)&h->poll, on_poll_closed);
    if (h->has_timer)
        uv_close((uv_handle_t *)&h->timer, on_timer_closed);
    h->has_poll = h->has_timer = false;
}

static void finish(struct opencode_http *h, const struct err *err)
{
    const struct opencode_answer answer = {h->status, buf_str(&h->body), h->body.len};
    const struct err why = err != NULL ? *err : (struct err){0};
    opencode_http_fn fn = h->fn;
    if (fn == NULL)
        return;
    h->fn = NULL;
    let_go(h);
    fn(h->data, err == NULL ? &answer : NULL, err != NULL ? &why : NULL);
    http_unref(h);
}

static void fail(struct opencode_http *h, enum err_code code, int sys_errno, const char *why)
{
    struct err err = {0};
    (void)err_set(&err, code, "%s", why);
    err.sys_errno = sys_errno;
    finish(h, &err);
}

void opencode_http_cancel(struct opencode_http *h)
{
    if (h == NULL || h->fn == NULL)
        return;
    h->fn = NULL;
    let_go(h);
    http_unref(h);
}

// --- the answer

static void take_body(struct opencode_http *h, const char *data, size_t len)
{
    while (len > 0 && !h->framing.done && !h->framing.bad) {
        bool is_data;
        size_t n = h1_framing_next(&h->framing, data, len, &is_data);
        if (is_data)
            (void)buf_append(&h->body, data, n);
        data += n;
        len -= n;
        if (n == 0)
            break;
    }
}

// 1 when the final head is there, 0 when more has to come, -1 and *why.
static int take_head(struct opencode_http *h, const char **why)
{
    for (;;) {
        struct h1_head head;
        int r =
            h1_parse_answer(&head, buf_str(&h->in), h->in.len, (struct h1_text){"POST", 4}, why);
        if (r <= 0)
            return r;
        bool interim = head.status < 200;
        if (interim && (head.status == 101 || ++h->interim > INTERIM_MAX)) {
            *why = "its answer has no end of heads";
            return -1;
        }
        if (!interim) {
            h->status = head.status;
            h->has_head = true;
            h1_framing_init(&h->framing, &head);
            take_body(h, h->in.data + head.len, h->in.len - head.len);
            buf_reset(&h->in);
            return 1;
        }
        buf_consume(&h->in, head.len);
    }
}

static void take(struct opencode_http *h, const char *data, size_t len)
{
    const char *why = NULL;
    if (h->has_head) {
        take_body(h, data, len);
    } else {
        (void)buf_append(&h->in, data, len);
        if (take_head(h, &why) < 0) {
            fail(h, ERR_INVALID, 0, why);
            return;
        }
        if (!h->has_head && h->in.failed != 0) {
            fail(h, ERR_INVALID, 0, "the head of its answer is too long");
            return;
        }
    }
    if (h->body.failed != 0)
        fail(h, ERR_INVALID, E2BIG, "its answer is too long");
    else if (h->has_head && h->framing.bad)
        fail(h, ERR_INVALID, 0, "its answer is cut in no sensible way");
    else if (h->has_head && h->framing.done)
        finish(h, NULL);
}

static void at_end(struct opencode_http *h)
{
    if (h->has_head && h->framing.body == H1_TO_END)
        finish(h, NULL);
    else
        fail(h, ERR_UNAVAILABLE, ECONNRESET, "it closed the connection before it had answered");
}

static void receive(struct opencode_http *h)
{
    char piece[READ_SIZE];
    for (int i = 0; i < READS_A_TURN && h->fn != NULL; i++) {
        ssize_t n = recv(h->fd, piece, sizeof piece, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0)
            fail(h, ERR_UNAVAILABLE, errno, "the connection to it broke");
        else if (n == 0)
            at_end(h);
        else
            take(h, piece, (size_t)n);
    }
}

// --- the request

static void on_poll(uv_poll_t *poll, int status, int events);

static void send_more(struct opencode_http *h)
{
    while (h->sent < h->out.len) {
        ssize_t n = send(h->fd, h->out.data + h->sent, h->out.len - h->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EPIPE || errno == ECONNRESET))
            break; // one that answers without reading all may have said why
        if (n < 0) {
            int e = errno;
            fail(h, ERR_UNAVAILABLE, e,
                 e == ECONNREFUSED ? "nobody listens" : "it cannot be reached");
            return;
        }
        h->sent += (size_t)n;
    }
    int events = UV_READABLE | (h->sent < h->out.len && errno == EAGAIN ? UV_WRITABLE : 0);
    (void)uv_poll_start(&h->poll, events, on_poll);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct opencode_http *h = poll->data;
    h->refs++;
    if (status < 0 || (events & UV_READABLE))
        receive(h);
    if (h->fn != NULL && (events & UV_WRITABLE))
        send_more(h);
    http_unref(h);
}

static void on_time(uv_timer_t *timer)
{
    struct opencode_http *h = timer->data;
    if (h->err.code != ERR_NONE)
        finish(h, &h->err);
    else
        fail(h, ERR_UNAVAILABLE, ETIMEDOUT, "it did not answer in time");
}

static void fail_soon(struct opencode_http *h, const struct err *err)
{
    h->err = *err;
    (void)uv_timer_start(&h->timer, on_time, 0, 0);
}

static void on_dialled(void *data, int fd, const struct err *err)
{
    struct opencode_http *h = data;
    struct err own = {0};
    if (h->fn == NULL) {
        fd_close(fd);
    } else if (fd < 0) {
        fail_soon(h, err);
    } else if (uv_poll_init(h->timer.loop, &h->poll, fd) < 0) {
        fd_close(fd);
        (void)err_set(&own, ERR_INTERNAL, "a socket cannot be watched");
        fail_soon(h, &own);
    } else {
        h->fd = fd;
        h->poll.data = h;
        h->has_poll = true;
        h->refs++;
        (void)uv_poll_start(&h->poll, UV_READABLE | UV_WRITABLE, on_poll);
    }
    http_unref(h);
}

static void write_request(struct opencode_http *h, const struct opencode_request *r)
{
    buf_init(&h->out, HEAD_MAX + r->body_len);
    (void)buf_printf(&h->out,
                     "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nAccept: application/json\r\n",
                     r->method, r->target, r->port);
    (void)buf_append_str(&h->out, "Connection: close\r\n");
    if (r->body != NULL)
        (void)buf_printf(&h->out, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                         r->body_len);
    (void)buf_append_str(&h->out, "\r\n");
    (void)buf_append(&h->out, r->body, r->body != NULL ? r->body_len : 0);
}

struct opencode_http *opencode_http_ask(const struct opencode_request *request, opencode_http_fn fn,
                                        void *data)
{
    struct err err = {0};
    struct opencode_http *h = calloc(1, sizeof *h);
    if (h == NULL)
        abort();
    h->refs = 3; // the caller's, the dial's, the timer's
    h->fn = fn;
    h->data = data;
    h->s = sandbox_ref(request->s);
    h->fd = -1;
    buf_init(&h->in, 2 * H1_HEAD_MAX + READ_SIZE);
    buf_init(&h->body, request->max);
    write_request(h, request);
    (void)uv_timer_init(request->loop, &h->timer);
    h->timer.data = h;
    h->has_timer = true;
    if (request->timeout_ms > 0)
        (void)uv_timer_start(&h->timer, on_time, (uint64_t)request->timeout_ms, 0);
    if (h->out.failed != 0) {
        (void)err_set(&err, ERR_INVALID, "the request is too long");
        fail_soon(h, &err);
        http_unref(h);
    } else {
        sandbox_dial(h->s, request->port, on_dialled, h);
    }
    return h;
}
