// SPDX-License-Identifier: Apache-2.0
// libmicrohttpd 0.9.75 reads its sockets with recv(2) and shows nobody the bytes. It takes a bare
// LF for a line's end, unfolds headers and forgets NULs, and none of that can be seen in what it
// hands out afterwards. So the program has a recv of its own, which the library is linked to: it
// asks the kernel, looks at what came (http-frame.h), and hands on what is sound. A socket that is
// not a connection of this server, which other libraries may read, goes straight through.
//
// Were the library linked to another recv, no request would have a head that was looked at, and all
// would be refused: http_start finds that out first.
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "edge/http-internal.h"

__attribute__((visibility("default"))) ssize_t recv(int fd, void *buf, size_t len, int flags);

bool recv_is_ours(void)
{
    return dlsym(RTLD_DEFAULT, "recv") == (void *)recv;
}

static ssize_t again(void)
{
    errno = EAGAIN;
    return -1;
}

static ssize_t reset(void)
{
    errno = ECONNRESET;
    return -1;
}

// The end of a message that was refused, behind the n bytes that are handed on of it. Then there is
// nothing more to read: the connection is closed with the answer.
static ssize_t give_ending(struct conn *conn, char *buf, size_t n, size_t len)
{
    size_t more = strlen(conn->ending);
    if (more > len - n)
        more = len - n;
    memcpy(buf + n, conn->ending, more);
    conn->ending += more;
    return n + more > 0 ? (ssize_t)(n + more) : again();
}

// Of the `have` bytes in buf the first `held` were looked at before.
static ssize_t look(struct conn *conn, char *buf, size_t held, size_t have, size_t len)
{
    struct frame *frame = &conn->frame;
    conn->is_asked = false;
    if (frame_is_idle(frame))
        conn->since = uv_now(conn->listener->server->loop);
    size_t good = held + frame_feed(frame, buf + held, have - held);
    if (frame->state == FRAME_REFUSED) {
        conn->ending = frame_ending(frame);
        return conn->ending == NULL ? reset()
                                    : give_ending(conn, buf, good - frame_held(frame), len);
    }
    if (frame->state == FRAME_RAW)
        (void)buf_append(&conn->early, buf + good, have - good);
    // The library takes a buffer that is not full for the last one until the socket stirs again.
    if (have == len)
        frame_release(frame);
    size_t n = good - frame_held(frame);
    memcpy(conn->held, buf + n, frame_held(frame));
    return n > 0 ? (ssize_t)n : again();
}

static ssize_t receive(struct conn *conn, char *buf, size_t len, int flags)
{
    if (conn->ending != NULL)
        return give_ending(conn, buf, 0, len);
    if (conn->frame.state == FRAME_REFUSED)
        return reset();
    if (conn->frame.state == FRAME_RAW) // the rest is for whoever takes the connection
        return again();
    size_t held = frame_held(&conn->frame);
    if (len <= held) // never with the library's buffers
        return reset();
    ssize_t n = recvfrom(conn->fd, buf + held, len - held, flags, NULL, NULL);
    if (n <= 0)
        return n;
    memcpy(buf, conn->held, held);
    return look(conn, buf, held, held + (size_t)n, len);
}

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
    struct conn *conn = conn_of_fd(fd);
    if (conn == NULL)
        return recvfrom(fd, buf, len, flags, NULL, NULL);
    return receive(conn, buf, len, flags);
}
