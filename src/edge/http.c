// SPDX-License-Identifier: Apache-2.0
// The library's daemons on the loop, one for each listener, in its external epoll mode. Their
// epolls are polled by the loop; a resumed request does not stir an epoll, so whoever resumes one
// marks its listener too. A marked listener runs (MHD_run) once before the loop sleeps and once
// after it woke, however much has happened.
#include "edge/http.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "edge/http-internal.h"
#include "edge/limits.h"

enum {
    SWEEP_MS = 1000,
    STOP_ROUNDS = 8,
};

// --- running

static void on_spin(uv_idle_t *spin)
{
    (void)spin;
}

void listener_mark(struct listener *listener)
{
    if (listener->server->is_stopping)
        return;
    listener->is_dirty = true;
    (void)uv_idle_start(&listener->server->spin, on_spin); // nothing if it runs
}

static void run_listener(struct listener *listener)
{
    MHD_UNSIGNED_LONG_LONG wait;
    listener->is_dirty = false;
    (void)MHD_run(listener->daemon);
    // Timeouts are looked at by the sweep; here it matters only whether there is work left.
    if (MHD_get_timeout(listener->daemon, &wait) == MHD_YES && wait == 0)
        listener_mark(listener);
}

// Holders of streams are told when the library has returned: they write, which resumes.
static void tell_drained(struct http_server *server)
{
    struct http_request *req;
    while ((req = TAILQ_FIRST(&server->drained)) != NULL) {
        TAILQ_REMOVE(&server->drained, req, drained);
        req->is_drained = false;
        if (req->on_drain != NULL && http_stream_queued(req) == 0)
            req->on_drain(req->drain_data);
    }
}

static void run(struct http_server *server)
{
    bool is_dirty = false;
    for (unsigned i = 0; i < server->n_listeners; i++) {
        if (server->listeners[i].is_dirty)
            run_listener(&server->listeners[i]);
    }
    tell_drained(server);
    for (unsigned i = 0; i < server->n_listeners; i++)
        is_dirty |= server->listeners[i].is_dirty;
    if (!is_dirty)
        (void)uv_idle_stop(&server->spin);
}

static void on_prepare(uv_prepare_t *prepare)
{
    run(prepare->data);
}

static void on_check(uv_check_t *check)
{
    run(check->data);
}

static void on_epoll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    listener_mark(poll->data);
}

static void on_sweep(uv_timer_t *timer)
{
    struct http_server *server = timer->data;
    conn_sweep(server, uv_now(server->loop));
    for (unsigned i = 0; i < server->n_listeners; i++)
        listener_mark(&server->listeners[i]);
}

void server_sweep(struct http_server *server, bool on)
{
    if (on && !server->is_stopping)
        (void)uv_timer_start(&server->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    else if (!on)
        (void)uv_timer_stop(&server->sweep);
}

// A request that has seen two ticks is old enough to be worth a watch on its client. Most are
// answered before, and cost nothing here.
static void on_tick(uv_timer_t *timer)
{
    struct http_server *server = timer->data;
    struct http_request *req;
    server->ticks++;
    while ((req = TAILQ_FIRST(&server->young)) != NULL && server->ticks - req->born >= 2) {
        TAILQ_REMOVE(&server->young, req, young);
        req->is_young = false;
        if (req->conn != NULL && req->phase != PHASE_REPLY)
            conn_watch(req->conn, false);
    }
    linger_sweep(server, uv_now(server->loop));
    if (TAILQ_EMPTY(&server->young) && TAILQ_EMPTY(&server->lingering))
        (void)uv_timer_stop(&server->tick);
}

void server_tick(struct http_server *server)
{
    if (!server->is_stopping && !uv_is_active((uv_handle_t *)&server->tick))
        (void)uv_timer_start(&server->tick, on_tick, EDGE_WATCH_MS, EDGE_WATCH_MS);
}

// --- start

// The library decodes targets in place, for arguments that nobody asks for.
static size_t leave_escaped(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls;
    (void)mhd;
    return strlen(text);
}

// Accepted sockets inherit it: a client that vanished without a word is noticed.
static void set_keepalive(int fd)
{
    const int on = 1, idle = EDGE_KEEPALIVE_IDLE, interval = 10, count = 3;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

static int start_listener(struct listener *listener, int fd, struct err *err)
{
    struct http_server *server = listener->server;
    int r = fd_set_nonblock(fd, 1);
    if (r < 0)
        return err_sys(err, -r, "listening socket");
    if (!listener->local)
        set_keepalive(fd);
    // clang-format off
    listener->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, request_step, listener,
        MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_NOTIFY_CONNECTION, conn_notify, listener,
        MHD_OPTION_URI_LOG_CALLBACK, request_begin, listener,
        MHD_OPTION_NOTIFY_COMPLETED, request_done, listener,
        MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL,
        MHD_OPTION_CONNECTION_LIMIT, server->conns_max,
        MHD_OPTION_CONNECTION_TIMEOUT, server->idle_seconds,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_POOL,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, // else there is no sendfile
        MHD_OPTION_END);
    // clang-format on
    if (listener->daemon == NULL)
        return err_set(err, ERR_INTERNAL, "libmicrohttpd does not start");
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    r = uv_poll_init(server->loop, &listener->poll, info->epoll_fd);
    if (r < 0)
        return err_sys(err, -r, "poll libmicrohttpd");
    server->n_handles++;
    listener->poll.data = listener;
    (void)uv_poll_start(&listener->poll, UV_READABLE, on_epoll);
    listener_mark(listener); // it has not put its socket into its epoll yet
    return 0;
}

static int start_watch(struct http_server *server, struct err *err)
{
    server->watch_fd = epoll_create1(EPOLL_CLOEXEC);
    if (server->watch_fd < 0)
        return err_sys(err, errno, "epoll");
    int r = uv_poll_init(server->loop, &server->poll, server->watch_fd);
    if (r < 0) {
        fd_close(TAKE_FD(server->watch_fd));
        return err_sys(err, -r, "poll clients");
    }
    server->n_handles++;
    server->poll.data = server;
    (void)uv_poll_start(&server->poll, UV_READABLE, conn_watch_event);
    return 0;
}

static void start_handles(struct http_server *server)
{
    (void)uv_prepare_init(server->loop, &server->prepare);
    (void)uv_check_init(server->loop, &server->check);
    (void)uv_idle_init(server->loop, &server->spin);
    (void)uv_timer_init(server->loop, &server->sweep);
    (void)uv_timer_init(server->loop, &server->tick);
    server->n_handles += 5;
    server->prepare.data = server->check.data = server->spin.data = server;
    server->sweep.data = server->tick.data = server;
    (void)uv_prepare_start(&server->prepare, on_prepare);
    (void)uv_check_start(&server->check, on_check);
}

// Connections get at most half of the descriptors that there may be.
static unsigned most_conns(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 2 > EDGE_CONNECTIONS_MAX)
        return EDGE_CONNECTIONS_MAX;
    return limit.rlim_cur / 2 > 16 ? (unsigned)limit.rlim_cur / 2 : 16;
}

static struct http_server *server_new(const struct http_config *config)
{
    struct http_server *server = calloc(1, sizeof *server);
    struct listener *listeners = calloc(config->n_listeners, sizeof *listeners);
    if (server == NULL || listeners == NULL)
        abort();
    server->loop = config->loop;
    server->handler = config->handler;
    server->is_raw = config->is_raw;
    server->is_known = config->is_known;
    server->refusal = config->refusal;
    server->data = config->data;
    server->idle_seconds = config->idle_seconds != 0 ? config->idle_seconds : EDGE_IDLE_SECONDS;
    server->conns_max = most_conns();
    server->listeners = listeners;
    server->watch_fd = -1;
    TAILQ_INIT(&server->conns);
    TAILQ_INIT(&server->idle);
    TAILQ_INIT(&server->requests);
    TAILQ_INIT(&server->young);
    TAILQ_INIT(&server->drained);
    TAILQ_INIT(&server->spare);
    TAILQ_INIT(&server->lingering);
    return server;
}

static int start(struct http_server *server, const struct http_config *config, struct err *err)
{
    start_handles(server);
    if (start_watch(server, err) < 0)
        return -1;
    for (unsigned i = 0; i < config->n_listeners; i++) {
        struct listener *listener = &server->listeners[i];
        listener->server = server;
        listener->local = config->listeners[i].local;
        server->n_listeners++;
        if (start_listener(listener, config->listeners[i].fd, err) < 0)
            return -1;
    }
    return 0;
}

int http_start(const struct http_config *config, struct http_server **ret, struct err *err)
{
    if (!recv_is_ours())
        return err_set(err, ERR_INTERNAL, "libmicrohttpd is linked to another recv than ours");
    (void)signal(SIGPIPE, SIG_IGN); // a client that left is an EPIPE
    struct http_server *server = server_new(config);
    if (start(server, config, err) < 0) {
        http_stop(server);
        return -1;
    }
    *ret = server;
    return 0;
}

// --- stop

// A daemon that is stopped without this would shut the listening socket down, in some of its modes:
// for every process that has it, also the next one of ours.
static void stop_accepting(struct http_server *server)
{
    for (unsigned i = 0; i < server->n_listeners; i++) {
        if (server->listeners[i].daemon != NULL)
            (void)MHD_quiesce_daemon(server->listeners[i].daemon);
    }
}

void http_drain(struct http_server *server)
{
    if (server->is_draining)
        return;
    server->is_draining = true;
    stop_accepting(server);
    conn_close_idle(server);
}

unsigned http_active(const struct http_server *server)
{
    return server->n_active + server->n_taken;
}

static bool resume_all(struct http_server *server)
{
    struct http_request *req;
    bool any = false;
    TAILQ_FOREACH(req, &server->requests, all)
    {
        if (!req->is_suspended)
            continue;
        any = true;
        request_cut(req);
    }
    return any;
}

// The library aborts the program when it is stopped with a request suspended.
static void stop_daemons(struct http_server *server)
{
    for (unsigned round = 0; resume_all(server) && round < STOP_ROUNDS; round++) {
        for (unsigned i = 0; i < server->n_listeners; i++)
            (void)MHD_run(server->listeners[i].daemon);
    }
    for (unsigned i = 0; i < server->n_listeners; i++) {
        struct listener *listener = &server->listeners[i];
        if (listener->daemon != NULL)
            MHD_stop_daemon(listener->daemon);
        listener->daemon = NULL;
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct http_server *server = handle->data;
    if (--server->n_handles > 0)
        return;
    free(server->listeners);
    free(server);
}

static void close_handle(struct http_server *server, void *handle)
{
    uv_handle_t *h = handle;
    if (h->loop == NULL) // was never begun
        return;
    h->data = server;
    uv_close(h, on_closed);
}

// Handles go with the loop's next turn, and what they stand in with the last of them.
static void close_handles(struct http_server *server)
{
    close_handle(server, &server->prepare);
    close_handle(server, &server->check);
    close_handle(server, &server->spin);
    close_handle(server, &server->sweep);
    close_handle(server, &server->tick);
    close_handle(server, &server->poll);
    for (unsigned i = 0; i < server->n_listeners; i++)
        close_handle(server, &server->listeners[i].poll);
}

void http_stop(struct http_server *server)
{
    struct http_request *req;
    stop_accepting(server);
    server->is_stopping = true;
    close_handles(server);
    stop_daemons(server);
    linger_sweep(server, UINT64_MAX);
    if (server->watch_fd >= 0)
        fd_close(server->watch_fd);
    // Whoever holds one of these did not ask to be told.
    while ((req = TAILQ_FIRST(&server->requests)) != NULL)
        request_free(req);
    request_free_spare(server);
}
