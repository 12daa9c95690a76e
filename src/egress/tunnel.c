// SPDX-License-Identifier: Apache-2.0
// Bytes between a program in a box and a host. Where the host was allowed by its name, the first
// bytes must not ask for another one behind the same address: a TLS hello must name it, and HTTP
// goes through an exchange that looks at every request. A host that speaks first is asked for by
// nobody.
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "egress/egress-internal.h"
#include "egress/hello.h"

// --- relaying

static void on_relayed(void *data, const struct relay_result *result)
{
    struct conn *conn = data;
    conn->relay = NULL;
    conn->bytes += result->a_to_b + result->b_to_a;
    conn->outlet->egress->stats.bytes += result->a_to_b + result->b_to_a;
    conn_free(conn);
}

static void on_stopped(void *data)
{
    conn_free(data);
}

static void relay(struct conn *conn)
{
    struct err err = {0};
    const struct relay_config config = {
        .a = conn->client,
        .b = conn->up,
        .from_a = conn->early.data,
        .from_a_len = conn->early.len,
        .stall_ms = IDLE_MS,
        .share = &conn->outlet->share,
        .done = on_relayed,
        .data = conn,
    };
    conn->relay = relay_start(conn->outlet->egress->config.mover, &config, &err);
    buf_done(&conn->early);
    if (conn->relay == NULL)
        conn_end(conn);
}

// --- looking at the first bytes

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void stop_looking(struct conn *conn)
{
    if (conn->client_poll != NULL)
        uv_close((uv_handle_t *)conn->client_poll, free_handle);
    if (conn->up_poll != NULL)
        uv_close((uv_handle_t *)conn->up_poll, free_handle);
    if (conn->timer != NULL)
        uv_close((uv_handle_t *)conn->timer, free_handle);
    conn->client_poll = conn->up_poll = NULL;
    conn->timer = NULL;
}

static void refuse(struct conn *conn, const char *why)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    note_decision(conn->outlet, conn->host, conn->port, false, why, conn->via);
    (void)setsockopt(conn->client, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    conn_end(conn);
}

static void check_hello(struct conn *conn, const struct hello *hello)
{
    char name[POLICY_HOST_MAX];
    struct err err = {0};
    if (hello->encrypted)
        refuse(conn, "its TLS hello is encrypted (ECH), which hides the host");
    else if (hello->has_name && (policy_host(hello->name, strlen(hello->name), name, &err) < 0 ||
                                 strcmp(name, conn->host) != 0))
        refuse(conn, "its TLS hello asks for another host");
    else
        relay(conn);
}

static bool is_token(char c)
{
    return isalnum((unsigned char)c) || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool says_http(const char *line, size_t len)
{
    static const char version[] = "HTTP/";
    size_t n = sizeof version - 1;
    for (size_t i = 0; i + n <= len; i++) {
        if (strncasecmp(line + i, version, n) == 0)
            return true;
    }
    return false;
}

// HTTP/0.9 says only this.
static bool begins_with_get(const char *line, size_t len)
{
    return len > 4 && memcmp(line, "GET ", 4) == 0;
}

// 1: HTTP, 0: not, -1: more bytes are needed to tell. Servers skip empty lines before a request,
// and answer methods that they do not know without ending the connection.
static int looks_like_http(const char *data, size_t len)
{
    const char *at = data, *end = data + len;
    while (at < end && (*at == '\r' || *at == '\n'))
        at++;
    const char *line = at;
    while (at < end && is_token(*at))
        at++;
    if (at == end)
        return -1;
    if (at == line || (*at != ' ' && *at != '\t'))
        return 0;
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (stop == NULL)
        return -1;
    size_t n = (size_t)(stop - line);
    return says_http(line, n) || begins_with_get(line, n);
}

static void go_on_as_http(struct conn *conn)
{
    struct buf early = conn->early;
    buf_init(&conn->early, 0);
    conn->kind = CONN_FIXED;
    proxy_start(conn, early.data, early.len);
    buf_done(&early);
}

// True: it is clear what it is, and the connection has gone on.
static bool look(struct conn *conn)
{
    struct hello hello;
    const struct buf *early = &conn->early;
    size_t len = early->len < HELLO_MAX ? early->len : HELLO_MAX;
    switch (hello_parse((const uint8_t *)early->data, len, &hello)) {
    case HELLO_MORE:
        return false;
    case HELLO_BAD:
        stop_looking(conn);
        refuse(conn, "its TLS hello cannot be read");
        return true;
    case HELLO_WHOLE:
        stop_looking(conn);
        check_hello(conn, &hello);
        return true;
    case HELLO_NOT_TLS:
        break;
    }
    int http = looks_like_http(early->data, early->len);
    if (http < 0 && early->len < HELLO_MAX)
        return false;
    stop_looking(conn);
    if (http < 0) {
        refuse(conn, "its first bytes do not tell which host they are for");
        return true;
    }
    if (http == 1)
        go_on_as_http(conn);
    else
        relay(conn);
    return true;
}

static void on_client(uv_poll_t *poll, int status, int events)
{
    struct conn *conn = poll->data;
    char data[HELLO_MAX];
    (void)status;
    (void)events;
    ssize_t n = read(conn->client, data, HELLO_MAX - conn->early.len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 && conn->early.len == 0) {
        conn_end(conn);
        return;
    }
    if (n <= 0) { // what there is, is all there is
        stop_looking(conn);
        relay(conn);
        return;
    }
    (void)buf_append(&conn->early, data, (size_t)n);
    (void)look(conn);
}

static void on_up(uv_poll_t *poll, int status, int events)
{
    struct conn *conn = poll->data;
    char byte;
    (void)status;
    (void)events;
    if (recvfrom(conn->up, &byte, 1, MSG_PEEK, NULL, NULL) == 0) {
        conn_end(conn);
        return;
    }
    if (conn->early.len > 0) { // it has been asked something that is not clear yet
        (void)uv_poll_stop(poll);
        return;
    }
    stop_looking(conn);
    relay(conn);
}

static void on_idle(uv_timer_t *timer)
{
    conn_end(timer->data);
}

static uv_poll_t *watch(struct conn *conn, int fd, uv_poll_cb fn)
{
    uv_poll_t *poll = calloc(1, sizeof *poll);
    if (poll == NULL)
        abort();
    if (uv_poll_init(conn->outlet->egress->config.loop, poll, fd) < 0) {
        free(poll);
        return NULL;
    }
    poll->data = conn;
    (void)uv_poll_start(poll, UV_READABLE, fn);
    return poll;
}

void tunnel_start(struct conn *conn)
{
    if (!conn->by_name) {
        relay(conn);
        return;
    }
    if (conn->early.len > 0 && look(conn))
        return; // it may be gone
    conn->client_poll = watch(conn, conn->client, on_client);
    conn->up_poll = watch(conn, conn->up, on_up);
    conn->timer = calloc(1, sizeof *conn->timer);
    if (conn->timer == NULL)
        abort();
    (void)uv_timer_init(conn->outlet->egress->config.loop, conn->timer);
    conn->timer->data = conn;
    (void)uv_timer_start(conn->timer, on_idle, IDLE_MS, 0);
    if (conn->client_poll == NULL || conn->up_poll == NULL)
        conn_end(conn);
}

void tunnel_stop(struct conn *conn)
{
    stop_looking(conn);
    if (conn->relay == NULL) {
        conn_free(conn);
        return;
    }
    struct relay *going = conn->relay;
    conn->relay = NULL;
    conn->bytes += relay_bytes(going);
    relay_cancel(going, on_stopped, conn);
}
