// SPDX-License-Identifier: Apache-2.0
// HTTP of a box: to the proxy (CONNECT, and requests with a whole URL), and where it goes on its
// own way but has to be looked at. Every request is decided by itself.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "egress/egress-internal.h"

// --- answers of our own

static void answer(struct conn *conn, unsigned status, const char *text)
{
    auto_buf buf;
    if (!conn->model) {
        exchange_refuse(conn->x, status, "text/plain; charset=utf-8", text);
        return;
    }
    buf_init(&buf, HEAD_MAX);
    gate_write_error(conn, status, text, &buf);
    exchange_refuse_raw(conn->x, &buf);
}

void proxy_refuse(struct conn *conn, unsigned status, const char *fmt, ...)
{
    va_list ap;
    auto_free char *text = NULL;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        abort();
    conn->head = NULL;
    conn->forwarded = false;
    bill_drop(conn);
    answer(conn, status, text);
}

static void write_name(char *ret, size_t size, const char *host, uint16_t port)
{
    bool v6 = strchr(host, ':') != NULL;
    (void)snprintf(ret, size, "%s%s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

// Host and setting are ours by now: canonical, and of harmless characters.
void proxy_refuse_denied(struct conn *conn, const char *host, uint16_t port, const char *why)
{
    static const char *const modes[] = {
        [POLICY_NONE] = "none", [POLICY_ALLOW] = "allow", [POLICY_INTERNET] = "internet"};
    const enum policy_mode mode = policy_mode(conn->outlet->policy);
    char name[POLICY_HOST_MAX + 16];
    if (outlet_is_used_up(conn->outlet)) {
        proxy_refuse(conn, 403, "cay: this sandbox has used up its network.maxBytes\n");
        return;
    }
    write_name(name, sizeof name, host, port);
    proxy_refuse(conn, 403,
                 "cay: %s is not allowed by this sandbox's network setting (network: %s; %s).\n"
                 "To allow it: PATCH /sandbox/%s {\"network\": {\"allow\": [\"%s\"]}}%s\n",
                 name, modes[mode], why, outlet_id(conn->outlet), name,
                 mode == POLICY_ALLOW ? ", with all others that it shall reach" : "");
}

void proxy_refuse_hop(struct conn *conn, const struct err *err)
{
    char name[POLICY_HOST_MAX + 16];
    write_name(name, sizeof name, conn->host, conn->port);
    if (err->code == ERR_DENIED)
        proxy_refuse(
            conn, 403,
            "cay: %s is not reached from a sandbox: it is %s.\nWhoever runs the server can "
            "open it: egress-private\n",
            name, err->msg);
    else
        proxy_refuse(conn, 502, "cay: %s cannot be reached: %s\n", name, err->msg);
}

// --- where to

// "host", "host:port", "[address]:port". -1: nonsense.
static int parse_authority(struct h1_text text, uint16_t fallback, char host[POLICY_HOST_MAX],
                           uint16_t *ret_port)
{
    struct err err = {0};
    size_t len = text.len;
    unsigned port = fallback;
    const char *bracket = memchr(text.at, ']', text.len);
    const char *from = bracket != NULL ? bracket : text.at;
    const char *colon = memchr(from, ':', text.len - (size_t)(from - text.at));
    if (colon != NULL) {
        size_t digits = text.len - (size_t)(colon + 1 - text.at);
        len = (size_t)(colon - text.at);
        if (digits == 0 || digits > 5 || colon[1] == '0')
            return -1;
        port = 0;
        for (size_t i = 1; i <= digits; i++) {
            if (colon[i] < '0' || colon[i] > '9')
                return -1;
            port = port * 10 + (unsigned)(colon[i] - '0');
        }
    }
    if (port == 0 || port > UINT16_MAX || policy_host(text.at, len, host, &err) < 0)
        return -1;
    *ret_port = (uint16_t)port;
    return 0;
}

// "http://authority/path" in two.
static bool split_url(struct h1_text target, struct h1_text *ret_authority,
                      struct h1_text *ret_path)
{
    static const char scheme[] = "http://";
    size_t skip = sizeof scheme - 1;
    if (target.len < skip || strncasecmp(target.at, scheme, skip) != 0)
        return false;
    const char *at = target.at + skip;
    size_t left = target.len - skip, n = 0;
    while (n < left && at[n] != '/' && at[n] != '?' && at[n] != '#')
        n++;
    *ret_authority = (struct h1_text){at, n};
    *ret_path = (struct h1_text){at + n, left - n};
    return true;
}

// --- going on

static bool is_in(struct h1_text name, const char *const *list)
{
    for (; list != NULL && *list != NULL; list++) {
        if (h1_is(name, *list))
            return true;
    }
    return false;
}

static void append_field(const struct h1_field *f, struct buf *ret)
{
    (void)buf_append(ret, f->name.at, f->name.len);
    (void)buf_append_str(ret, ": ");
    (void)buf_append(ret, f->value.at, f->value.len);
    (void)buf_append_str(ret, "\r\n");
}

void proxy_append_fields(const struct h1_head *head, const char *const *without, struct buf *ret)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct h1_field *f = &head->fields[i];
        if (!h1_is(f->name, "Content-Length") && !h1_is_hop_by_hop(head, f->name) &&
            !is_in(f->name, without))
            append_field(f, ret);
    }
}

void proxy_forward(struct conn *conn, const struct buf *head, struct upstream *up)
{
    if (head->failed != 0) {
        if (up != NULL) {
            if (up->ops != NULL)
                up->ops->close(up->stream);
            fd_close(up->fd);
        }
        proxy_refuse(conn, 431, "cay: the request's head is too long\n");
        return;
    }
    conn->head = NULL;
    conn->forwarded = true;
    bill_sent(conn);
    exchange_forward(conn->x, head, up);
}

// The request as the host gets it: origin form, and a Host that is the one that was decided on.
static void forward(struct conn *conn, struct h1_text path, struct upstream *up)
{
    auto_buf head;
    const struct h1_head *request = conn->head;
    buf_init(&head, HEAD_MAX);
    (void)buf_append(&head, request->method.at, request->method.len);
    (void)buf_append_char(&head, ' ');
    if (path.len == 0 || path.at[0] == '?')
        (void)buf_append_char(&head, '/');
    (void)buf_append(&head, path.at, path.len);
    (void)buf_append_str(&head, " HTTP/1.1\r\nHost: ");
    const struct h1_field *host = conn->kind == CONN_FIXED ? h1_find(request, "Host") : NULL;
    char name[POLICY_HOST_MAX + 16];
    write_name(name, sizeof name, conn->host, conn->port);
    if (host != NULL)
        (void)buf_append(&head, host->value.at, host->value.len);
    else
        (void)buf_append(&head, name, strlen(name) - (conn->port == 80 ? strlen(":80") : 0));
    (void)buf_append_str(&head, "\r\n");
    proxy_append_fields(request, (const char *const[]){"Host", NULL}, &head);
    exchange_framing(conn->x, request, &head);
    (void)buf_append_str(&head, "\r\n");
    proxy_forward(conn, &head, up);
}

static struct h1_text path_of(const struct h1_head *head)
{
    struct h1_text authority, path;
    return split_url(head->target, &authority, &path) ? path : head->target;
}

static void forward_to(struct conn *conn, int fd)
{
    struct upstream up = {.fd = pace_wrap(conn, fd)};
    if (up.fd < 0) {
        proxy_refuse(conn, 503, "cay: there are too many connections\n");
        return;
    }
    carrier_unref(conn->carrier);
    conn->carrier = NULL;
    (void)snprintf(conn->up_host, sizeof conn->up_host, "%s", conn->host);
    conn->up_port = conn->port;
    forward(conn, path_of(conn->head), &up);
}

static void on_http_hop(void *data, int fd, const struct err *err)
{
    struct conn *conn = data;
    conn->hop = NULL;
    conn_note_hop(conn, err);
    if (fd < 0)
        proxy_refuse_hop(conn, err);
    else
        forward_to(conn, fd);
}

static bool up_is_for(const struct conn *conn, const char *host, uint16_t port)
{
    return exchange_upstream_is_open(conn->x) && conn->carrier == NULL && conn->up_port == port &&
           strcmp(conn->up_host, host) == 0;
}

static void go_http(struct conn *conn, const char *host, uint16_t port)
{
    const char *why;
    if (!conn_decide(conn, host, port, &why)) {
        conn->has_target = false;
        proxy_refuse_denied(conn, host, port, why);
        return;
    }
    conn_set_target(conn, host, port);
    if (conn->up >= 0) {
        forward_to(conn, TAKE_FD(conn->up));
    } else if (up_is_for(conn, host, port)) {
        conn_note_hop(conn, NULL);
        forward(conn, path_of(conn->head), NULL);
    } else {
        conn_hop(conn, host, port, TRUST_POLICY, on_http_hop);
    }
}

// --- CONNECT

static void become_tunnel(struct conn *conn, int fd)
{
    static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    struct sockaddr_storage address;
    conn->up = fd;
    conn->client = exchange_release(conn->x, &conn->early);
    conn->x = NULL;
    conn->head = NULL;
    conn->kind = CONN_TUNNEL;
    conn->by_name = policy_mode(conn->outlet->policy) == POLICY_ALLOW &&
                    policy_address(conn->host, &address) == 0;
    // Nothing was sent on it that would be in the way.
    if (conn->client < 0 || conn->early.failed != 0 ||
        write(conn->client, ok, sizeof ok - 1) != (ssize_t)(sizeof ok - 1)) {
        conn_end(conn);
        return;
    }
    tunnel_start(conn);
}

static void on_connect_hop(void *data, int fd, const struct err *err)
{
    struct conn *conn = data;
    conn->hop = NULL;
    conn_note_hop(conn, err);
    if (fd < 0)
        proxy_refuse_hop(conn, err);
    else
        become_tunnel(conn, fd);
}

static void go_connect(struct conn *conn, struct h1_text authority)
{
    char host[POLICY_HOST_MAX], secret[SECRET_NAME_MAX];
    uint16_t port;
    const char *why;
    conn->via = VIA_CONNECT;
    if (parse_authority(authority, 0, host, &port) < 0) {
        proxy_refuse(conn, 400, "cay: CONNECT wants a host and a port\n");
    } else if (borrow_is_name(host, secret)) {
        proxy_refuse(conn, 403, "cay: %s is reached by http://%s/ and not by https\n", host, host);
    } else if (!conn_decide(conn, host, port, &why)) {
        proxy_refuse_denied(conn, host, port, why);
    } else {
        conn_set_target(conn, host, port);
        conn_hop(conn, host, port, TRUST_POLICY, on_connect_hop);
    }
}

// --- requests

static void go_absolute(struct conn *conn, struct h1_text authority, struct h1_text path)
{
    char host[POLICY_HOST_MAX], secret[SECRET_NAME_MAX];
    uint16_t port;
    conn->via = VIA_HTTP;
    if (parse_authority(authority, 80, host, &port) < 0)
        proxy_refuse(conn, 400, "cay: the URL's host makes no sense\n");
    else if (borrow_is_name(host, secret) && port == 80)
        borrow_request(conn, secret, path);
    else
        go_http(conn, host, port);
}

// A path alone: where it goes stands in Host, which must be where the connection was made to.
static void go_origin(struct conn *conn)
{
    const struct h1_field *field = h1_find(conn->head, "Host");
    char host[POLICY_HOST_MAX] = "", secret[SECRET_NAME_MAX];
    uint16_t port = 0;
    uint16_t fallback = conn->kind == CONN_FIXED && conn->port != 443 ? conn->port : 80;
    if (field == NULL || parse_authority(field->value, fallback, host, &port) < 0) {
        proxy_refuse(conn, 400, "cay: the request has no Host that makes sense\n");
    } else if (borrow_is_name(host, secret) && port == 80 &&
               (conn->kind == CONN_PROXY || strcmp(host, conn->host) == 0)) {
        borrow_request(conn, secret, conn->head->target);
    } else if (conn->kind == CONN_PROXY) {
        proxy_refuse(conn, 400, "cay: this is a proxy: it wants whole URLs\n");
    } else if (strcmp(host, conn->host) != 0) {
        note_decision(conn->outlet, host, conn->port, false,
                      "Host is another than was connected to", conn->via);
        proxy_refuse(conn, 403, "cay: this connection is for %s, and Host says %s\n", conn->host,
                     host);
    } else {
        go_http(conn, conn->host, conn->port);
    }
}

static void on_request(void *data, struct exchange *x, const struct h1_head *head)
{
    struct conn *conn = data;
    struct h1_text authority, path;
    (void)x;
    conn->head = head;
    conn->model = conn->kind == CONN_MODEL;
    bill_drop(conn); // it is asked again
    if (conn->kind == CONN_DENIED)
        proxy_refuse_denied(conn, conn->host, conn->port, conn->why);
    else if (h1_same(head->method, "CONNECT") && conn->kind == CONN_PROXY)
        go_connect(conn, head->target);
    else if (h1_same(head->method, "CONNECT"))
        proxy_refuse(conn, 400, "cay: CONNECT is for the proxy\n");
    else if (conn->kind == CONN_MODEL && head->target.len > 0 && head->target.at[0] == '/')
        borrow_request(conn, MODEL_SECRET, head->target); // whatever Host says
    else if (conn->kind == CONN_MODEL)
        proxy_refuse(conn, 400, "cay: this socket wants paths, such as /v1/messages\n");
    else if (head->target.len > 0 && head->target.at[0] == '/')
        go_origin(conn);
    else if (conn->kind == CONN_PROXY && split_url(head->target, &authority, &path))
        go_absolute(conn, authority, path);
    else
        proxy_refuse(conn, 400, "cay: http:// URLs are asked for as such, all others by CONNECT\n");
}

static int on_answer(void *data, struct exchange *x, const struct h1_head *head, struct buf *ret,
                     struct err *err)
{
    struct conn *conn = data;
    (void)err;
    (void)buf_printf(ret, "HTTP/1.1 %u %.*s\r\n", head->status, (int)head->reason.len,
                     head->reason.at);
    if (conn->secret[0] != '\0')
        borrow_answer(conn, head, ret);
    else
        proxy_append_fields(head, NULL, ret);
    bill_answer(conn, head, ret);
    exchange_framing(x, head, ret);
    (void)buf_append_str(ret, "\r\n");
    return 0;
}

static void on_failed(void *data, struct exchange *x, const struct err *err, struct buf *ret)
{
    struct conn *conn = data;
    char text[POLICY_HOST_MAX + 512];
    const char *more = conn->carrier != NULL ? carrier_error(conn->carrier) : "";
    (void)snprintf(text, sizeof text, "cay: %s does not answer as it should: %s%s%s\n", conn->host,
                   err->msg, *more != '\0' ? ": " : "", more);
    bill_failed(conn);
    if (conn->model)
        gate_write_error(conn, 502, text, ret);
    else
        exchange_write_answer(x, ret, 502, "text/plain; charset=utf-8", text);
}

static void on_closed(void *data)
{
    struct conn *conn = data;
    conn->x = NULL;
    conn_free(conn);
}

static const struct exchange_ops ops = {
    .request = on_request,
    .answer = on_answer,
    .failed = on_failed,
    .moved = conn_moved,
    .payload = bill_payload,
    .closed = on_closed,
};

void proxy_start(struct conn *conn, const void *early, size_t early_len)
{
    const struct exchange_config config = {
        .loop = conn->outlet->egress->config.loop,
        .client = TAKE_FD(conn->client),
        .early = early,
        .early_len = early_len,
        .ops = &ops,
        .data = conn,
        .idle_ms = IDLE_MS,
    };
    conn->x = exchange_start(&config);
    if (conn->x == NULL)
        conn_end(conn);
}
