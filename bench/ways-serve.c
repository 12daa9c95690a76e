// SPDX-License-Identifier: Apache-2.0
// A server for both sides of a comparison: one thread, epoll, a few instructions per request. It
// knows as much of HTTP as nginx, wrk and our own preview send: heads without bodies.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "bench.h"
#include "ways-end.h"
#include "ways-ws.h"

enum { IN_MAX = 16 * 1024, EVENTS = 64 };

struct conn {
    int fd;
    bool is_ws;
    size_t len;
    char in[IN_MAX];
};

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                             "Content-Length: 20\r\n\r\ntwenty bytes of text";
static const char last_answer[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    "Content-Length: 20\r\n\r\ntwenty bytes of text";
static const char switching[] =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Accept: " WS_ACCEPT "\r\n\r\n";

static bool put(const struct conn *c, const char *data, size_t len)
{
    return send(c->fd, data, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static void consumed(struct conn *c, size_t n)
{
    c->len -= n;
    memmove(c->in, c->in + n, c->len);
}

// One request that is there as a whole. false: the connection is over.
static bool answer_head(struct conn *c, char *end)
{
    *end = '\0';
    bool goes_on;
    if (strcasestr(c->in, "\r\nUpgrade: websocket") != NULL) {
        c->is_ws = true;
        goes_on = put(c, switching, sizeof switching - 1);
    } else if (strcasestr(c->in, "\r\nConnection: close") != NULL ||
               strstr(c->in, " HTTP/1.0\r\n") != NULL) {
        (void)put(c, last_answer, sizeof last_answer - 1);
        goes_on = false;
    } else {
        goes_on = put(c, answer, sizeof answer - 1);
    }
    consumed(c, (size_t)(end + 4 - c->in));
    return goes_on;
}

static bool echo_frame(struct conn *c, size_t len)
{
    unsigned char out[2 + WS_SMALL];
    const char *mask = c->in + 2;
    out[0] = (unsigned char)c->in[0];
    out[1] = (unsigned char)len;
    for (size_t i = 0; i < len; i++)
        out[2 + i] = (unsigned char)(c->in[6 + i] ^ mask[i % 4]);
    consumed(c, 6 + len);
    return out[0] == WS_BINARY && put(c, (char *)out, 2 + len);
}

// Whatever is there as a whole. false: the connection is over.
static bool work(struct conn *c)
{
    for (;;) {
        char *end = c->is_ws ? NULL : memmem(c->in, c->len, "\r\n\r\n", 4);
        size_t frame = c->len >= 2 ? (unsigned char)c->in[1] & 0x7f : IN_MAX;
        if (end != NULL && !answer_head(c, end))
            return false;
        if (end != NULL)
            continue;
        if (!c->is_ws || c->len < 6 + frame)
            return c->len < IN_MAX;
        if (frame > WS_SMALL || !echo_frame(c, frame))
            return false;
    }
}

static void on_event(struct conn *c)
{
    ssize_t n = recv(c->fd, c->in + c->len, IN_MAX - c->len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    c->len += n > 0 ? (size_t)n : 0;
    if (n > 0 && work(c))
        return;
    fd_close(c->fd);
    free(c);
}

static void on_client(int epoll, int listener)
{
    struct conn *c = calloc(1, sizeof *c);
    if (c == NULL)
        die("no memory");
    c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (c->fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event) == 0)
        return;
    fd_close(c->fd);
    free(c);
}

_Noreturn void end_serve(uint16_t port)
{
    int listener = end_listen(port);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) < 0)
        die("epoll: %m");
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == NULL)
                on_client(epoll, listener);
            else
                on_event(events[i].data.ptr);
        }
    }
}
