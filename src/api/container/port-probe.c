// SPDX-License-Identifier: Apache-2.0
#include "api/container/port-probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/container/port-status.h"
#include "base/fd.h"
#include "sandbox/reach.h"

enum { REQUEST_MAX = PROBE_PATH_MAX + 256 };

struct probe {
    struct sandbox *s; // counted
    probe_fn fn;       // NULL: it was cancelled, or has called back
    void *data;
    uv_loop_t *loop;
    int fd; // -1: none yet
    bool dialling, connected;
    char request[REQUEST_MAX];
    size_t n_request, sent;
    char line[PROBE_LINE_MAX];
    size_t n_line;
    uv_poll_t poll;
    uv_timer_t timer;
    bool polling;
    unsigned handles;
};

// -- the end

static void closed(uv_handle_t *handle)
{
    struct probe *probe = handle->data;
    if (--probe->handles > 0)
        return;
    fd_close(probe->fd);
    free(probe);
}

static void let_go(struct probe *probe)
{
    struct sandbox *s = probe->s;
    probe->fn = NULL;
    if (probe->dialling) // its descriptor comes still
        return;
    if (probe->polling)
        uv_close((uv_handle_t *)&probe->poll, closed);
    probe->polling = false;
    uv_close((uv_handle_t *)&probe->timer, closed);
    sandbox_unref(s);
}

static void finish(struct probe *probe, unsigned status, const struct err *err)
{
    struct probe_result result = {.listens = probe->connected, .status = status, .err = err};
    probe_fn fn = probe->fn;
    void *data = probe->data;
    let_go(probe);
    if (fn != NULL)
        fn(data, &result);
}

void probe_cancel(struct probe *probe)
{
    let_go(probe);
}

// -- asking

static void on_time(uv_timer_t *timer)
{
    struct probe *probe = timer->data;
    if (probe->fn != NULL)
        finish(probe, 0, NULL);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct probe *probe = poll->data;
    (void)events;
    ssize_t n = status < 0 ? 0
                           : read(probe->fd, probe->line + probe->n_line,
                                  sizeof probe->line - probe->n_line);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        probe->n_line += (size_t)n;
    int answer = probe_status(probe->line, probe->n_line);
    if (n <= 0 || answer >= 0)
        finish(probe, answer > 0 ? (unsigned)answer : 0, NULL);
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
    struct probe *probe = poll->data;
    int error = 0;
    socklen_t len = sizeof error;
    (void)events;
    if (status < 0 || getsockopt(probe->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error != 0) {
        finish(probe, 0, NULL);
        return;
    }
    probe->connected = true;
    ssize_t n = probe->sent < probe->n_request ? send(probe->fd, probe->request + probe->sent,
                                                      probe->n_request - probe->sent, MSG_NOSIGNAL)
                                               : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    probe->sent += n > 0 ? (size_t)n : 0;
    if (probe->n_request == 0 || n < 0)
        finish(probe, 0, NULL);
    else if (probe->sent == probe->n_request)
        (void)uv_poll_start(&probe->poll, UV_READABLE, on_readable);
}

static void on_dialled(void *data, int fd, const struct err *err)
{
    struct probe *probe = data;
    probe->dialling = false;
    probe->fd = fd;
    if (probe->fn == NULL) {
        let_go(probe);
    } else if (fd < 0) {
        finish(probe, 0, err->sys_errno != ECONNREFUSED ? err : NULL);
    } else if (uv_poll_init(probe->loop, &probe->poll, fd) < 0) {
        finish(probe, 0, NULL);
    } else {
        probe->poll.data = probe;
        probe->polling = true;
        probe->handles++;
        (void)uv_poll_start(&probe->poll, UV_WRITABLE, on_writable);
    }
}

struct probe *probe_new(uv_loop_t *loop, struct sandbox *s, const char *path, probe_fn fn,
                        void *data)
{
    struct probe *probe = calloc(1, sizeof *probe);
    if (probe == NULL)
        abort();
    *probe = (struct probe){.s = sandbox_ref(s), .fn = fn, .data = data, .loop = loop, .fd = -1};
    if (path != NULL)
        probe->n_request = (size_t)snprintf(probe->request, sizeof probe->request,
                                            "GET %s HTTP/1.1\r\nHost: localhost\r\n"
                                            "User-Agent: cay\r\nAccept: */*\r\n"
                                            "Connection: close\r\n\r\n",
                                            path);
    (void)uv_timer_init(loop, &probe->timer);
    probe->timer.data = probe;
    probe->handles = 1;
    return probe;
}

void probe_begin(struct probe *probe, uint16_t port)
{
    (void)uv_timer_start(&probe->timer, on_time, PROBE_MS, 0);
    probe->dialling = true;
    sandbox_dial(probe->s, port, on_dialled, probe);
}
