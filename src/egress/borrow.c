// SPDX-License-Identifier: Apache-2.0
// http://NAME.cay/ in a box is the upstream of the secret NAME: the request goes there over TLS
// with the credential put in (carrier.h), the answer comes back. The box never sees more than the
// name.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fd.h"
#include "egress/egress-internal.h"

bool borrow_is_name(const char *host, char ret_name[SECRET_NAME_MAX])
{
    static const char suffix[] = ".cay";
    size_t len = strlen(host), cut = sizeof suffix - 1;
    if (len <= cut || len - cut >= SECRET_NAME_MAX || strcmp(host + len - cut, suffix) != 0)
        return false;
    char name[SECRET_NAME_MAX] = "";
    (void)memcpy(name, host, len - cut);
    if (!secret_name_valid(name))
        return false;
    (void)memcpy(ret_name, name, sizeof name);
    return true;
}

// --- the way there

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// One character of a path, which may be written %2e.
static char next_char(const char **at, const char *end)
{
    const char *p = *at;
    if (*p == '%' && end - p >= 3 && hex(p[1]) >= 0 && hex(p[2]) >= 0) {
        *at = p + 3;
        return (char)(hex(p[1]) * 16 + hex(p[2]));
    }
    *at = p + 1;
    return *p;
}

// Whether a segment is "..", however it is written: it would lead out of the upstream's path.
static bool climbs(struct h1_text path)
{
    const char *at = path.at, *end = path.at + path.len;
    unsigned dots = 0;
    bool other = false;
    while (at < end && *at != '?' && *at != '#') {
        char c = next_char(&at, end);
        if (c == ';' && dots == 2 && !other)
            return true; // "..;x": what some servers take off before they look
        if (c == '/' || c == '\\') {
            if (dots == 2 && !other)
                return true;
            dots = 0;
            other = false;
        } else if (c == '.') {
            dots++;
        } else {
            other = true;
        }
    }
    return dots == 2 && !other;
}

static void append_host(const struct secret *secret, struct buf *ret)
{
    bool v6 = strchr(secret->upstream_host, ':') != NULL;
    (void)buf_printf(ret, "%s%s%s", v6 ? "[" : "", secret->upstream_host, v6 ? "]" : "");
    if (secret->upstream_port != (secret->tls ? 443 : 80))
        (void)buf_printf(ret, ":%u", secret->upstream_port);
}

static struct h1_text path_of(const struct conn *conn)
{
    struct h1_text target = conn->head->target;
    if (target.len > 0 && target.at[0] == '/')
        return target;
    const char *at = target.at + strlen("http://"), *end = target.at + target.len;
    while (at < end && *at != '/' && *at != '?' && *at != '#')
        at++;
    return (struct h1_text){at, (size_t)(end - at)};
}

// Besides the header that the secret has, which is replaced. A model's API takes a credential in
// either of two; and in whose name the installation's is used is not for a box to say.
static void append_fields(const struct conn *conn, const struct secret *secret, struct buf *ret)
{
    const char *without[16] = {"Host", "Accept-Encoding", "Sec-WebSocket-Extensions",
                               secret->header};
    unsigned n = 4;
    if (conn->model) {
        without[n++] = "X-Api-Key";
        without[n++] = "Authorization";
    }
    if (conn->model && bill_is_ours(conn)) {
        without[n++] = "Cookie";
        without[n++] = "Anthropic-Workspace-Id";
    }
    proxy_append_fields(conn->head, without, ret);
}

// The credential is not in it: the carrier puts it behind the first line.
static void forward(struct conn *conn, const struct secret *secret, struct upstream *up)
{
    auto_buf head;
    const struct h1_head *request = conn->head;
    struct h1_text path = path_of(conn);
    buf_init(&head, HEAD_MAX);
    (void)buf_append(&head, request->method.at, request->method.len);
    (void)buf_printf(&head, " %s", secret->upstream_prefix);
    if (path.len == 0 || path.at[0] != '/')
        (void)buf_append_char(&head, '/');
    (void)buf_append(&head, path.at, path.len);
    (void)buf_append_str(&head, " HTTP/1.1\r\nHost: ");
    append_host(secret, &head);
    // What is not encoded can be looked through.
    (void)buf_append_str(&head, "\r\nAccept-Encoding: identity\r\n");
    append_fields(conn, secret, &head);
    exchange_framing(conn->x, request, &head);
    (void)buf_append_str(&head, "\r\n");
    carrier_arm(conn->carrier, secret, h1_same(request->method, "HEAD"));
    proxy_forward(conn, &head, up);
}

static void on_found(void *data)
{
    struct conn *conn = data;
    note_decision(conn->outlet, conn->host, conn->port, false,
                  "the answer has the credential in it: it was cut off", VIA_SECRET);
}

static void forward_to(struct conn *conn, const struct secret *secret, int fd)
{
    struct upstream up = {.fd = pace_wrap(conn, fd), .ops = &carrier_ops};
    struct tls *tls = NULL;
    if (up.fd >= 0 && secret->tls)
        tls = tls_new(conn->outlet->egress->tls, up.fd, secret->upstream_host);
    if (up.fd < 0 || (secret->tls && tls == NULL)) {
        fd_close(up.fd);
        proxy_refuse(conn, 503, "cay: no connection to the upstream of this secret can be made\n");
        return;
    }
    carrier_unref(conn->carrier);
    conn->carrier = carrier_new(up.fd, tls, on_found, conn);
    up.stream = conn->carrier;
    (void)snprintf(conn->up_secret, sizeof conn->up_secret, "%s", conn->secret);
    (void)snprintf(conn->up_host, sizeof conn->up_host, "%s", secret->upstream_host);
    (void)snprintf(conn->up_prefix, sizeof conn->up_prefix, "%s", secret->upstream_prefix);
    conn->up_port = secret->upstream_port;
    conn->up_tls = secret->tls;
    forward(conn, secret, &up);
}

// --- the credential

// What a request is sent on with, lent: a tenant's secret, or, where `access` is, the
// installation's key. `fd` is taken.
typedef void (*lent_fn)(struct conn *conn, const struct secret *secret,
                        const struct model_access *access, int fd);

struct borrow {        // waits for a key that is being renewed
    struct conn *conn; // NULL: it has ended
    lent_fn fn;
    int fd;
};

static void refuse_without(struct conn *conn, const char *name, int r)
{
    if (r < 0)
        proxy_refuse(conn, 502, "cay: the secret '%s' cannot be read\n", name);
    else if (conn->model)
        proxy_refuse(conn, 401,
                     "cay: there is no key for models. Whoever runs the server sets "
                     "ANTHROPIC_API_KEY; a tenant brings its own: PUT /secrets/%s\n",
                     name);
    else
        proxy_refuse(conn, 404, "cay: there is no secret '%s'. To make it: PUT /secrets/%s\n", name,
                     name);
}

void borrow_forget(struct conn *conn)
{
    if (conn->wait == NULL)
        return;
    conn->wait->conn = NULL;
    fd_close(TAKE_FD(conn->wait->fd));
    conn->wait = NULL;
}

static void on_key(void *data, const struct model_access *access, const struct err *err)
{
    struct borrow *wait = data;
    struct conn *conn = wait->conn;
    struct secret secret;
    struct err why = {0};
    (void)err;
    auto_fd fd = TAKE_FD(wait->fd);
    lent_fn fn = wait->fn;
    free(wait);
    if (conn == NULL)
        return;
    conn->wait = NULL;
    if (access == NULL || model_key_secret(access, &secret, &why) < 0) {
        // Why is nothing for a box: others who use the key are told.
        note_decision(conn->outlet, conn->host, conn->port, false,
                      "the installation's key cannot be used", VIA_SECRET);
        proxy_refuse(conn, 502, "cay: the installation's key cannot be used now\n");
        return;
    }
    fn(conn, &secret, access, TAKE_FD(fd));
    secret_done(&secret);
}

static void lend_key(struct conn *conn, int fd, lent_fn fn)
{
    struct borrow *wait = malloc(sizeof *wait);
    if (wait == NULL)
        abort();
    *wait = (struct borrow){.conn = conn, .fn = fn, .fd = fd};
    conn->wait = wait;
    model_keys_get(conn->outlet->egress->config.keys, on_key, wait);
}

static void lend(struct conn *conn, const char *name, int up, lent_fn fn)
{
    const struct egress_config *config = &conn->outlet->egress->config;
    struct err err = {0};
    struct secret secret;
    auto_fd fd = up;
    const struct sandbox_row *row = sandbox_row(conn->outlet->s);
    int r = config->secrets != NULL
                ? secrets_get_for(config->secrets, row->tenant, row->number, name, &secret, &err)
                : 0;
    if (r > 0) {
        fn(conn, &secret, NULL, TAKE_FD(fd));
        secret_done(&secret);
    } else if (r == 0 && conn->model && model_keys_has_any(config->keys)) {
        lend_key(conn, TAKE_FD(fd), fn);
    } else {
        refuse_without(conn, name, r);
    }
}

static void on_lent_again(struct conn *conn, const struct secret *secret,
                          const struct model_access *access, int up)
{
    auto_fd fd = up;
    (void)access;
    // It was changed meanwhile?
    if (strcmp(secret->upstream_host, conn->hop_host) != 0 ||
        secret->upstream_port != conn->hop_port || secret->tls != conn->hop_tls ||
        (access != NULL) != conn->hop_trusted)
        proxy_refuse(conn, 503, "cay: the secret has just been changed: try again\n");
    else
        forward_to(conn, secret, TAKE_FD(fd));
}

static void on_hop(void *data, int fd, const struct err *err)
{
    struct conn *conn = data;
    conn->hop = NULL;
    conn_note_hop(conn, err);
    if (fd < 0)
        proxy_refuse_hop(conn, err);
    else
        lend(conn, conn->secret, fd, on_lent_again);
}

// What is open is that of the last request that went on, which may not be the one before this.
static bool up_is_for(const struct conn *conn, const struct secret *secret)
{
    return conn->carrier != NULL && exchange_upstream_is_open(conn->x) &&
           strcmp(conn->up_secret, conn->secret) == 0 && conn->up_port == secret->upstream_port &&
           conn->up_tls == secret->tls && strcmp(conn->up_host, secret->upstream_host) == 0 &&
           carrier_knows(conn->carrier, secret);
}

static bool may_go(struct conn *conn, const char *host, const char *name, struct h1_text path)
{
    struct outlet *outlet = conn->outlet;
    if (!outlet_may_use(outlet, name)) {
        note_decision(outlet, host, 80, false, "not in the sandbox's secrets", VIA_SECRET);
        proxy_refuse(conn, 403,
                     "cay: this sandbox may not use the secret '%s'.\nTo allow it: PATCH "
                     "/sandbox/%s {\"secrets\": [\"%s\"]}\n",
                     name, outlet_id(outlet), name);
    } else if (outlet_is_used_up(outlet)) {
        note_decision(outlet, host, 80, false, "network.maxBytes is used up", VIA_SECRET);
        proxy_refuse(conn, 403, "cay: this sandbox has used up its network.maxBytes\n");
    } else if (h1_same(conn->head->method, "TRACE")) {
        proxy_refuse(conn, 405, "cay: TRACE would answer with the secret\n");
    } else if (climbs(path)) {
        proxy_refuse(conn, 400, "cay: a path to a secret's upstream has no '..'\n");
    } else {
        return true;
    }
    return false;
}

static void on_lent(struct conn *conn, const struct secret *secret,
                    const struct model_access *access, int fd)
{
    fd_close(fd); // there is none yet
    if (conn->model && !gate_admit(conn, access, path_of(conn)))
        return;
    if (up_is_for(conn, secret)) {
        conn_note_hop(conn, NULL);
        forward(conn, secret, NULL);
        return;
    }
    (void)snprintf(conn->hop_host, sizeof conn->hop_host, "%s", secret->upstream_host);
    conn->hop_port = secret->upstream_port;
    conn->hop_tls = secret->tls;
    conn->hop_trusted = access != NULL;
    conn_hop(conn, secret->upstream_host, secret->upstream_port,
             access != NULL ? TRUST_UPSTREAM
             : secret->tls  ? TRUST_POLICY
                            : TRUST_OPENED,
             on_hop);
}

void borrow_request(struct conn *conn, const char *name, struct h1_text path)
{
    char host[POLICY_HOST_MAX];
    (void)snprintf(host, sizeof host, "%s.cay", name);
    conn->via = VIA_SECRET;
    conn->model = strcmp(name, MODEL_SECRET) == 0;
    if (!may_go(conn, host, name, path))
        return;
    conn_set_target(conn, host, 80);
    (void)snprintf(conn->secret, sizeof conn->secret, "%s", name);
    lend(conn, name, -1, on_lent);
}

// --- the way back

// Cuts "https://host:port" off the front, if it is the upstream's.
static bool cut_origin(const struct conn *conn, struct h1_text *text)
{
    char origin[POLICY_HOST_MAX + 32];
    bool v6 = strchr(conn->up_host, ':') != NULL;
    int n = snprintf(origin, sizeof origin, "%s://%s%s%s", conn->up_tls ? "https" : "http",
                     v6 ? "[" : "", conn->up_host, v6 ? "]" : "");
    size_t len = (size_t)n;
    if (text->len < len || strncasecmp(text->at, origin, len) != 0)
        return false;
    struct h1_text rest = {text->at + len, text->len - len};
    if (rest.len > 0 && rest.at[0] == ':') {
        n = snprintf(origin, sizeof origin, ":%u", conn->up_port);
        if (rest.len < (size_t)n || memcmp(rest.at, origin, (size_t)n) != 0)
            return false;
        rest.at += n;
        rest.len -= (size_t)n;
    } else if (conn->up_port != (conn->up_tls ? 443 : 80)) {
        return false;
    }
    if (rest.len > 0 && strchr("/?#", rest.at[0]) == NULL)
        return false;
    *text = rest;
    return true;
}

static bool cut_prefix(const struct conn *conn, struct h1_text *path)
{
    size_t len = strlen(conn->up_prefix);
    if (path->len < len || memcmp(path->at, conn->up_prefix, len) != 0)
        return false;
    if (len > 0 && path->len > len && strchr("/?#", path->at[len]) == NULL)
        return false;
    path->at += len;
    path->len -= len;
    return true;
}

void borrow_location(const struct conn *conn, struct h1_text value, struct buf *ret)
{
    struct h1_text path = value;
    bool relative = value.len > 0 && value.at[0] == '/' && !(value.len > 1 && value.at[1] == '/');
    if ((relative || cut_origin(conn, &path)) && cut_prefix(conn, &path)) {
        (void)buf_printf(ret, "http://%s.cay", conn->secret);
        if (path.len == 0 || path.at[0] != '/')
            (void)buf_append_char(ret, '/');
        (void)buf_append(ret, path.at, path.len);
        return;
    }
    // Beside the upstream's path: the box may go there by itself, with nothing of ours.
    if (relative)
        (void)buf_printf(ret, "%s://%s:%u", conn->up_tls ? "https" : "http", conn->up_host,
                         conn->up_port);
    else if (value.len > 1 && value.at[0] == '/')
        (void)buf_append_str(ret, conn->up_tls ? "https:" : "http:");
    (void)buf_append(ret, value.at, value.len);
}

void borrow_answer(struct conn *conn, const struct h1_head *head, struct buf *ret)
{
    static const char *const without[] = {"Location", "Alt-Svc", NULL};
    const struct h1_field *location = h1_find(head, "Location");
    proxy_append_fields(head, without, ret);
    if (location == NULL)
        return;
    (void)buf_append_str(ret, "Location: ");
    borrow_location(conn, location->value, ret);
    (void)buf_append_str(ret, "\r\n");
}
