// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"
#include "h1/exchange-internal.h"

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct side *side = poll->data;
    if (side->x == NULL)
        return;
    if (status < 0) { // libuv has stopped watching; reading or writing tells why
        side->armed = 0;
        events = UV_READABLE | UV_WRITABLE;
    }
    // A TLS stream may have to read in order to write.
    side->can_read |= (events & UV_READABLE) != 0 || side->ops != NULL;
    side->can_write |= (events & UV_WRITABLE) != 0 || side->ops != NULL;
    exchange_pump(side->x);
}

struct side *side_open(struct exchange *x, int fd, const struct stream_ops *ops, void *stream)
{
    struct side *side = calloc(1, sizeof *side);
    if (side == NULL)
        abort();
    *side = (struct side){.x = x, .fd = fd, .ops = ops, .stream = stream, .can_write = true};
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); // not of a unix socket
    if (uv_poll_init(x->loop, &side->poll, fd) < 0) {
        if (ops != NULL)
            ops->close(stream);
        free(side);
        return NULL;
    }
    side->poll.data = side;
    return side;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

int side_release(struct side *side)
{
    if (side == NULL)
        return -1;
    int fd = side->fd;
    side->x = NULL;
    uv_close((uv_handle_t *)&side->poll, on_closed);
    if (side->ops != NULL)
        side->ops->close(side->stream);
    return fd;
}

void side_close(struct side *side)
{
    fd_close(side_release(side));
}

ssize_t side_read(struct side *side, void *data, size_t len)
{
    ssize_t n;
    if (side->ops != NULL) {
        n = side->ops->read(side->stream, data, len);
    } else {
        // Not recv(2): the daemon has one of its own. And it does not wait, whoever else has a hand
        // on the socket: one that leads into a box was made there.
        do
            n = recvfrom(side->fd, data, len, MSG_DONTWAIT, NULL, NULL);
        while (n < 0 && errno == EINTR);
        n = n < 0 ? -errno : n;
    }
    if (n == 0)
        side->eof = true;
    // A socket that gave less than asked for has no more; a TLS stream may.
    if (n == -EAGAIN || (n > 0 && (size_t)n < len && side->ops == NULL))
        side->can_read = false;
    return n;
}

static size_t total(const struct iovec *parts, int n)
{
    size_t len = 0;
    for (int i = 0; i < n; i++)
        len += parts[i].iov_len;
    return len;
}

static ssize_t write_stream(struct side *side, const struct iovec *parts, int n)
{
    size_t sent = 0;
    for (int i = 0; i < n; i++) {
        ssize_t now = side->ops->write(side->stream, parts[i].iov_base, parts[i].iov_len);
        if (now < 0)
            return sent > 0 && now == -EAGAIN ? (ssize_t)sent : now;
        sent += (size_t)now;
        if ((size_t)now < parts[i].iov_len)
            break;
    }
    return (ssize_t)sent;
}

ssize_t side_write(struct side *side, const struct iovec *parts, int n)
{
    ssize_t sent;
    if (side->ops != NULL) {
        sent = write_stream(side, parts, n);
    } else {
        struct iovec copy[2] = {parts[0], n > 1 ? parts[1] : parts[0]};
        struct msghdr msg = {.msg_iov = copy, .msg_iovlen = (size_t)n};
        do
            sent = sendmsg(side->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (sent < 0 && errno == EINTR);
        sent = sent < 0 ? -errno : sent;
    }
    if (sent == -EAGAIN || (sent >= 0 && (size_t)sent < total(parts, n)))
        side->can_write = false;
    return sent;
}

static int wanted(const struct side *side, bool wants_read, bool wants_write)
{
    bool reads = wants_read && !side->can_read && !side->eof;
    bool writes = wants_write && !side->can_write;
    if (side->ops != NULL && (reads || writes)) {
        int mask = side->ops->waits_for(side->stream);
        return mask | (reads ? UV_READABLE : 0) | (writes && mask == 0 ? UV_WRITABLE : 0);
    }
    int mask = writes ? UV_WRITABLE : 0;
    // What is watched already may stay so for as long as it says nothing: changing it costs two
    // system calls.
    bool watched = (side->armed & UV_READABLE) != 0 && !side->can_read && !side->eof;
    return mask | (reads || watched ? UV_READABLE : 0);
}

void side_arm(struct side *side, bool wants_read, bool wants_write)
{
    int mask = wanted(side, wants_read, wants_write);
    if (mask == side->armed)
        return;
    side->armed = mask;
    if (mask == 0)
        uv_poll_stop(&side->poll);
    else
        uv_poll_start(&side->poll, mask, on_event);
}

bool side_is_stale(struct side *side)
{
    char byte;
    ssize_t n = recvfrom(side->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT, NULL, NULL);
    return n >= 0 || errno != EAGAIN;
}
