// SPDX-License-Identifier: Apache-2.0
// A connection leaves the library. It knows no such thing: a request can only be answered through
// it. So the library is left with a descriptor of the same number that is a dead socket, on which
// it reads an end at once and closes; the connection itself has gone to another number. The request
// is suspended at that moment, when the library has its descriptor in no epoll.
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "edge/http-internal.h"
#include "edge/limits.h"

enum { HEAD_MAX = 4 * 1024 };

bool http_is_raw(const struct http_request *req)
{
    return req->is_raw;
}

// The number of the connection's descriptor belongs to a socket without another end from now on.
static int put_dead_socket(int fd)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return -errno;
    fd_close(ends[1]);
    int r = dup3(ends[0], fd, O_CLOEXEC) < 0 ? -errno : 0;
    fd_close(ends[0]);
    return r;
}

static void write_headers(const struct http_request *req, struct buf *ret)
{
    buf_init(ret, HEAD_MAX);
    for (size_t at = 0; at < req->headers.len;) {
        const char *name = req->headers.data + at;
        const char *value = name + strlen(name) + 1;
        (void)buf_append_str(ret, name);
        (void)buf_append_str(ret, ": ");
        (void)buf_append_str(ret, value);
        (void)buf_append_str(ret, "\r\n");
        at += strlen(name) + 1 + strlen(value) + 1;
    }
}

static bool may_keep(const struct http_request *req)
{
    const char *connection = http_header(req, "Connection");
    return !req->is_old && (connection == NULL || strcasecmp(connection, "close") != 0);
}

// Bytes that the library has read beyond this request cannot be had back from it.
static bool is_clean(const struct http_request *req)
{
    const struct frame *frame = &req->conn->frame;
    return req->is_raw || (frame->heads == req->number && frame_is_idle(frame));
}

static void fill(struct http_request *req, int fd, struct http_taken *ret)
{
    struct conn *conn = req->conn;
    const char *expect = http_header(req, "Expect");
    *ret = (struct http_taken){
        .server = req->server,
        .fd = fd,
        .local = conn->listener->local,
        .keep = may_keep(req),
        .is_old = req->is_old,
        .early = conn->early,
    };
    buf_init(&conn->early, HTTP_POOL);
    write_headers(req, &ret->headers);
    if (!req->is_raw)
        return;
    ret->expects = expect != NULL && strcasecmp(expect, "100-continue") == 0;
    ret->chunked = conn->frame.peek.length == HTTP_CHUNKED;
    ret->length = ret->chunked ? 0 : conn->frame.peek.length;
}

int http_take(struct http_request *req, struct http_taken *ret, struct err *err)
{
    assert(req->phase == PHASE_WORK);
    struct conn *conn = req->conn;
    if (conn == NULL || req->is_cut)
        return err_set(err, ERR_UNAVAILABLE, "the client is gone");
    if (!is_clean(req))
        return err_set(
            err, ERR_CONFLICT,
            "a request was sent behind this one before it was answered: do not pipeline");
    auto_fd fd = fcntl(conn->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return err_sys(err, errno, "take a connection");
    if (!conn->listener->local && fd_is_scarce(fd))
        return err_set(err, ERR_UNAVAILABLE, "there are too many connections");
    if (!req->is_suspended)
        request_suspend(req);
    if (conn->is_watched)
        (void)epoll_ctl(req->server->watch_fd, EPOLL_CTL_DEL, conn->fd, NULL);
    conn->is_watched = false;
    int r = put_dead_socket(conn->fd);
    if (r < 0)
        return err_sys(err, -r, "take a connection");
    conn->is_taken = true;
    fill(req, TAKE_FD(fd), ret);
    req->server->n_taken++;
    req->phase = PHASE_REPLY;
    req->on_close = NULL;
    req->is_cut = true;
    request_resume(req);
    return 0;
}

static void forget(struct http_taken *taken)
{
    buf_done(&taken->early);
    buf_done(&taken->headers);
    if (taken->server != NULL)
        taken->server->n_taken--;
    taken->server = NULL;
}

void http_taken_close(struct http_taken *taken)
{
    fd_close(TAKE_FD(taken->fd));
    forget(taken);
}

void http_taken_linger(struct http_taken *taken)
{
    (void)shutdown(taken->fd, SHUT_WR);
    if (taken->server != NULL)
        linger_start(taken->server, taken->fd);
    http_taken_close(taken);
}

static struct listener *listener_of(const struct http_taken *taken)
{
    struct http_server *server = taken->server;
    for (unsigned i = 0; i < server->n_listeners; i++) {
        if (server->listeners[i].local == taken->local && server->listeners[i].daemon != NULL)
            return &server->listeners[i];
    }
    return NULL;
}

void http_give(struct http_taken *taken)
{
    struct sockaddr_storage peer = {0};
    socklen_t len = sizeof peer;
    struct http_server *server = taken->server;
    if (!taken->keep || server->is_draining || server->is_stopping || taken->early.len > 0 ||
        getpeername(taken->fd, (struct sockaddr *)&peer, &len) < 0) {
        http_taken_close(taken);
        return;
    }
    struct listener *listener = listener_of(taken);
    int fd = TAKE_FD(taken->fd);
    if (listener == NULL)
        fd_close(fd);
    else if (MHD_add_connection(listener->daemon, fd, (struct sockaddr *)&peer, len) == MHD_YES)
        listener_mark(listener); // else it has closed it
    forget(taken);
}

void http_taken_head(const struct http_taken *taken, unsigned status, struct buf *ret)
{
    char date[40];
    struct tm tm;
    time_t now = time(NULL);
    const char *reason = MHD_get_reason_phrase_for(status);
    (void)strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    (void)buf_printf(ret, "HTTP/1.1 %u %s\r\nDate: %s\r\n", status, reason != NULL ? reason : "",
                     date);
    (void)buf_append(ret, taken->headers.data, taken->headers.len);
}
