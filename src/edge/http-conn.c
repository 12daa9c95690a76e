// SPDX-License-Identifier: Apache-2.0
// Connections. The library accepts, reads, times out and closes them; here is what it does not do:
// notice a client that leaves while its request waits, end one whose bytes come too slowly, make
// room when there are too many, and let a refused client hear why.
//
// A client that closed its connection and one that closed only its sending half look the same until
// something is sent to them: over TCP both are a FIN. A request without an answer is given up on a
// FIN that comes, or is found, after EDGE_WATCH_MS: going on for a client that has left would cost
// a box its time, and hardly any client half-closes. On a unix socket the two differ, and only one
// that has really left counts. A stream goes on after a FIN: writing to a client that has left
// fails, and where nothing is to be written for long, an event stream gets a comment
// (http_stream_probe) and any other TCP's keep-alive, which a closed socket answers with a reset.
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "edge/http-internal.h"
#include "edge/limits.h"
#include "edge/sse-internal.h"

enum {
    IDLE_MS = 1000,
    EVENTS_MAX = 512, // many at once: the library walks all that is suspended when any is resumed
};

// By descriptor, because that is all that recv(2) is told. Other threads may ask, for their own
// descriptors; they find nothing.
static _Atomic(struct conn *) conns[HTTP_FDS_MAX];

struct conn *conn_of_fd(int fd)
{
    if (fd < 0 || fd >= HTTP_FDS_MAX)
        return NULL;
    return atomic_load_explicit(&conns[fd], memory_order_relaxed);
}

// --- idle and busy

void conn_set_busy(struct conn *conn, struct http_request *req)
{
    if (conn->is_idle)
        TAILQ_REMOVE(&conn->listener->server->idle, conn, idle);
    conn->is_idle = false;
    conn->req = req;
}

void conn_set_idle(struct conn *conn)
{
    struct http_server *server = conn->listener->server;
    conn->req = NULL;
    conn->since = uv_now(server->loop); // bytes of the next message may have waited for us
    TAILQ_INSERT_TAIL(&server->idle, conn, idle);
    conn->is_idle = true;
}

// What was sent before is still read, and answered.
void conn_close_idle(struct http_server *server)
{
    struct conn *conn;
    TAILQ_FOREACH(conn, &server->idle, idle)
    {
        if (frame_is_idle(&conn->frame))
            (void)shutdown(conn->fd, SHUT_RD);
    }
}

// Before there are so many that the library stops accepting: those that were idle longest go, but
// for a moment's, which may only not have been read yet.
static void make_room(struct http_server *server, uint64_t now)
{
    unsigned enough = server->conns_max - server->conns_max / 8;
    struct conn *oldest;
    for (unsigned n = server->n_conns; n > enough; n--) {
        oldest = TAILQ_FIRST(&server->idle);
        if (oldest == NULL || now - oldest->since < IDLE_MS)
            return;
        (void)shutdown(oldest->fd, SHUT_RD);
        oldest->since = now;
        TAILQ_REMOVE(&server->idle, oldest, idle);
        TAILQ_INSERT_TAIL(&server->idle, oldest, idle);
    }
}

// --- lingering

static void linger_free(struct http_server *server, struct leaver *linger)
{
    TAILQ_REMOVE(&server->lingering, linger, all);
    server->n_lingering--;
    fd_close(linger->fd);
    free(linger);
}

void linger_start(struct http_server *server, int fd)
{
    if (server->n_lingering == EDGE_LINGERING_MAX || server->is_stopping)
        return;
    struct leaver *linger = calloc(1, sizeof *linger);
    if (linger == NULL)
        return;
    linger->watched.is_linger = true;
    linger->until = uv_now(server->loop) + EDGE_LINGER_MS;
    linger->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    TAILQ_INSERT_TAIL(&server->lingering, linger, all);
    server->n_lingering++;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = linger};
    if (linger->fd < 0 || epoll_ctl(server->watch_fd, EPOLL_CTL_ADD, linger->fd, &event) < 0)
        linger_free(server, linger);
    else
        server_tick(server);
}

static void linger_event(struct http_server *server, struct leaver *linger)
{
    static char scratch[64 * 1024];
    ssize_t n;
    unsigned rounds = 16; // others wait
    do {
        n = recvfrom(linger->fd, scratch, sizeof scratch, MSG_DONTWAIT, NULL, NULL);
    } while (n > 0 && --rounds > 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        linger_free(server, linger);
}

void linger_sweep(struct http_server *server, uint64_t now)
{
    struct leaver *linger;
    while ((linger = TAILQ_FIRST(&server->lingering)) != NULL && linger->until <= now)
        linger_free(server, linger);
}

// --- begin and end

static void conn_new(struct listener *listener, struct MHD_Connection *mhd, void **socket_context)
{
    struct http_server *server = listener->server;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    // No bytes of it would be looked at; or it would be one of too many. The local socket is for
    // whoever comes to see why.
    if (info->connect_fd >= HTTP_FDS_MAX || (!listener->local && fd_is_scarce(info->connect_fd))) {
        (void)shutdown(info->connect_fd, SHUT_RDWR);
        return;
    }
    struct conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL)
        abort();
    conn->listener = listener;
    conn->fd = info->connect_fd;
    frame_init(&conn->frame);
    conn->frame.is_raw = server->is_raw;
    conn->frame.raw_data = server->data;
    buf_init(&conn->early, HTTP_POOL);
    TAILQ_INSERT_TAIL(&server->conns, conn, all);
    conn_set_idle(conn);
    atomic_store_explicit(&conns[conn->fd], conn, memory_order_relaxed);
    *socket_context = conn;
    if (server->n_conns++ == 0)
        server_sweep(server, true);
    make_room(server, uv_now(server->loop));
}

static void conn_free(struct conn *conn)
{
    struct http_server *server = conn->listener->server;
    if (conn->frame.status != 0 || conn->is_unread ||
        (conn->frame.state == FRAME_RAW && !conn->is_taken))
        linger_start(server, conn->fd);
    // The library closes the descriptor next; a lingering copy would keep the watch alive.
    if (conn->is_watched)
        (void)epoll_ctl(server->watch_fd, EPOLL_CTL_DEL, conn->fd, NULL);
    atomic_store_explicit(&conns[conn->fd], NULL, memory_order_relaxed);
    if (conn->is_idle)
        TAILQ_REMOVE(&server->idle, conn, idle);
    TAILQ_REMOVE(&server->conns, conn, all);
    if (--server->n_conns == 0)
        server_sweep(server, false);
    // Where there were too many, the library accepts again only when it is run once more.
    listener_mark(conn->listener);
    buf_done(&conn->early);
    free(conn);
}

void conn_notify(void *cls, struct MHD_Connection *mhd, void **socket_context,
                 enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        conn_new(cls, mhd, socket_context);
    else if (*socket_context != NULL)
        conn_free(*socket_context);
}

// --- clients that leave

void conn_watch(struct conn *conn, bool only_reset)
{
    struct http_server *server = conn->listener->server;
    struct epoll_event event = {
        .events = EPOLLONESHOT | (only_reset ? 0u : (unsigned)EPOLLRDHUP),
        .data.ptr = conn,
    };
    int how = conn->is_watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(server->watch_fd, how, conn->fd, &event) == 0)
        conn->is_watched = true;
}

static void conn_event(struct conn *conn, uint32_t events)
{
    struct http_request *req = conn->req;
    if (req == NULL || (req->phase != PHASE_WORK && req->phase != PHASE_STREAM))
        return; // the library notices by itself
    bool is_reset = (events & (EPOLLERR | EPOLLHUP)) != 0;
    if (is_reset || (req->phase == PHASE_WORK && !conn->listener->local)) {
        if (req->on_close != NULL) // a holder that cannot be told will answer
            request_cut(req);
        return;
    }
    conn_watch(conn, true);
    if (req->phase == PHASE_STREAM && req->probe != NULL)
        http_stream_write(req, req->probe, strlen(req->probe));
}

void conn_watch_event(uv_poll_t *poll, int status, int ready)
{
    struct http_server *server = poll->data;
    struct epoll_event events[EVENTS_MAX];
    (void)status;
    (void)ready;
    int n = epoll_wait(server->watch_fd, events, EVENTS_MAX, 0);
    for (int i = 0; i < n; i++) {
        struct watched *watched = events[i].data.ptr;
        if (watched->is_linger)
            linger_event(server, (struct leaver *)watched);
        else
            conn_event((struct conn *)watched, events[i].events);
    }
}

// --- clients that dawdle

// The library ends a connection on which nothing moves. One byte a minute is something.
static bool is_too_slow(const struct conn *conn, uint64_t now)
{
    uint64_t seconds = conn->listener->server->idle_seconds + conn->frame.bytes / EDGE_RATE_MIN;
    return !frame_is_idle(&conn->frame) && now - conn->since > seconds * 1000;
}

// The library takes a read that did not fill its buffer for the last until its epoll tells of more.
// But an end that came together with those bytes has been told of already. So each connection is
// asked once after bytes have come: at most once a second, and not at all while it is quiet.
static bool has_ended(struct conn *conn)
{
    char byte;
    if (conn->is_asked)
        return false;
    conn->is_asked = true;
    return recvfrom(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT, NULL, NULL) == 0;
}

void conn_sweep(struct http_server *server, uint64_t now)
{
    struct conn *conn;
    make_room(server, now);
    TAILQ_FOREACH(conn, &server->conns, all)
    {
        bool is_receiving = conn->req == NULL || conn->req->phase <= PHASE_BODY;
        if (!is_receiving || conn->is_taken || conn->frame.state == FRAME_REFUSED)
            continue;
        if (has_ended(conn) || is_too_slow(conn, now))
            (void)shutdown(conn->fd, SHUT_RDWR);
    }
}
