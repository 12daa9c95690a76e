// SPDX-License-Identifier: Apache-2.0
#include "api/preview.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

#include "api/auth.h"
#include "api/call.h"
#include "api/preview-head.h"
#include "api/preview-internal.h"
#include "base/fd.h"
#include "base/log.h"
#include "h1/exchange.h"
#include "sandbox/reach.h"

enum {
    CONNECTIONS_MAX = 4096, // each may hold 128 KiB
    PER_SANDBOX_MAX = 1024,
    HEAD_MAX = 64 * 1024,
    ID_MAX = 48,
    TOUCH_MS = 1000, // activity is noted so often
};

struct preview {
    struct previews *all;
    TAILQ_ENTRY(preview) link;
    unsigned refs;
    struct http_taken taken;
    struct exchange *x; // NULL: the connection is over
    struct sandbox *s;
    struct follower *follower;
    struct token *token; // that let it in by path; NULL: the port's did
    uint16_t port;
    struct preview_rules rules;
    char *host;   // of all its requests
    char *prefix; // of the path
    char peer[64];
    char id[ID_MAX]; // of the request at hand
    bool wants_html;
    uint64_t touched;
    struct buf head; // of the request that waits for its connection
};

TAILQ_HEAD(preview_list, preview);

struct previews {
    struct api *api;
    struct preview_where where;
    struct preview_list list;
    unsigned n;
    bool draining;
};

// --- life

static void preview_unref(struct preview *p)
{
    if (--p->refs > 0)
        return;
    sandbox_unref(p->s);
    token_unref(p->token);
    buf_done(&p->head);
    free(p->host);
    free(p->prefix);
    free(p);
}

static void on_closed(void *data)
{
    struct preview *p = data;
    TAILQ_REMOVE(&p->all->list, p, link);
    p->all->n--;
    p->x = NULL;
    follower_free(p->follower);
    p->follower = NULL;
    http_taken_close(&p->taken); // the descriptor is gone; the server counts
    preview_unref(p);
}

static void on_event(void *data, const struct event_row *row)
{
    struct preview *p = data;
    if (row == NULL && p->x != NULL)
        exchange_stop(p->x);
}

static int on_moved(void *data, uint64_t to_upstream, uint64_t to_client)
{
    struct preview *p = data;
    uint64_t now = uv_now(p->all->api->loop);
    (void)to_upstream;
    (void)to_client;
    if (now - p->touched >= TOUCH_MS) {
        p->touched = now;
        sandbox_touch(p->s);
    }
    return 0;
}

// --- errors

static void write_error(struct preview *p, enum error_kind kind, const char *message,
                        struct buf *ret)
{
    auto_buf body;
    char fields[128];
    buf_init(&body, HEAD_MAX / 2);
    struct preview_error error = {kind, message, p->id, p->wants_html};
    const char *type = preview_write_error(&error, &body);
    (void)snprintf(fields, sizeof fields, "X-Request-Id: %s\r\nCache-Control: no-store\r\n%s",
                   p->id, kind == ERROR_UNAVAILABLE ? "Retry-After: 1\r\n" : "");
    exchange_write_answer_with(p->x, ret, error_status(kind), type, fields, buf_str(&body));
}

static void refuse(struct preview *p, enum error_kind kind, const char *message)
{
    auto_buf answer;
    buf_init(&answer, HEAD_MAX);
    write_error(p, kind, message, &answer);
    exchange_refuse_raw(p->x, &answer);
}

static void refuse_err(struct preview *p, const struct err *err)
{
    char message[300];
    enum error_kind kind = preview_error_of(err, p->port, message, sizeof message);
    if (kind == ERROR_INTERNAL)
        log_line(LOG_ERROR, "preview failed", "error", err->msg, "req", p->id, "sandbox",
                 sandbox_row(p->s)->id, NULL);
    refuse(p, kind, message);
}

static void on_failed(void *data, struct exchange *x, const struct err *err, struct buf *ret)
{
    struct preview *p = data;
    char message[400];
    (void)x;
    (void)snprintf(message, sizeof message,
                   "the program on port %u of this sandbox gave no answer: %s", p->port, err->msg);
    if (err->sys_errno == ECONNREFUSED)
        (void)preview_error_of(err, p->port, message, sizeof message);
    write_error(p, ERROR_BAD_GATEWAY, message, ret);
}

// --- a request

static void on_dialled(void *data, int fd, const struct err *err)
{
    struct preview *p = data;
    struct upstream up = {.fd = fd};
    if (p->x == NULL)
        fd_close(fd);
    else if (fd < 0)
        refuse_err(p, err);
    else
        exchange_forward(p->x, &p->head, &up);
    preview_unref(p);
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct preview *p = data;
    (void)s;
    (void)created;
    if (p->x != NULL && (err == NULL || err->code == ERR_NONE)) {
        sandbox_dial(p->s, p->port, on_dialled, p);
        return;
    }
    if (p->x != NULL)
        refuse_err(p, err);
    preview_unref(p);
}

static bool has_host(const struct preview *p, const struct h1_head *head)
{
    const struct h1_field *host = h1_find(head, "Host");
    return host != NULL ? h1_is(host->value, p->host) : p->host[0] == '\0';
}

static bool accepts_html(const struct h1_head *head)
{
    const struct h1_field *accept = h1_find(head, "Accept");
    return accept != NULL && memmem(accept->value.at, accept->value.len, "text/html", 9) != NULL;
}

static void begin(struct preview *p, struct exchange *x, const struct h1_head *head)
{
    struct api *api = p->all->api;
    (void)snprintf(p->id, sizeof p->id, "%s-%" PRIx64, api->id_prefix, api->requests++);
    p->wants_html = accepts_html(head);
    buf_reset(&p->head);
    // Another one by path may be somebody else's, which is for the server to find out.
    if (p->rules.by_path || p->all->draining)
        exchange_close_after(x);
}

static void on_request(void *data, struct exchange *x, const struct h1_head *head)
{
    struct preview *p = data;
    begin(p, x, head);
    if (!has_host(p, head)) {
        exchange_close_after(x);
        refuse(p, ERROR_MISDIRECTED_REQUEST, "this connection is for another host");
    } else if (preview_write_request(&p->rules, x, head, &p->head) < 0) {
        exchange_close_after(x);
        refuse(p, ERROR_INVALID_REQUEST, "a target begins with '/' and stays with its preview");
    } else if (exchange_upstream_is_open(x)) {
        exchange_forward(x, &p->head, NULL);
    } else {
        p->refs++;
        sandbox_wake(p->s, on_awake, p);
    }
}

static int on_answer(void *data, struct exchange *x, const struct h1_head *head, struct buf *ret,
                     struct err *err)
{
    struct preview *p = data;
    (void)err;
    preview_write_answer(&p->rules, x, head, ret);
    return 0;
}

static const struct exchange_ops ops = {
    .request = on_request,
    .answer = on_answer,
    .failed = on_failed,
    .moved = on_moved,
    .closed = on_closed,
};

// --- a connection

static bool is_ours(void *data, const char *token)
{
    struct previews *all = data;
    return auth_knows(all->api, token);
}

static char *copy(const char *text)
{
    char *made = strdup(text);
    if (made == NULL)
        abort();
    return made;
}

// "127.0.0.1:5000" and "[::1]:5000" without their ports.
static void set_peer(struct preview *p, const char *peer)
{
    const char *colon = strrchr(peer, ':');
    if (colon == NULL)
        return;
    bool six = peer[0] == '[';
    (void)snprintf(p->peer, sizeof p->peer, "%.*s", (int)(colon - peer) - (six ? 2 : 0),
                   peer + six);
}

static struct preview *preview_new(struct previews *all, struct http_request *req,
                                   struct sandbox *s, uint16_t port)
{
    struct preview *p = calloc(1, sizeof *p);
    if (p == NULL)
        abort();
    p->all = all;
    p->refs = 1;
    p->s = sandbox_ref(s);
    p->port = port;
    p->host = copy(http_header(req, "Host") != NULL ? http_header(req, "Host") : "");
    p->rules = (struct preview_rules){
        .peer = p->peer, .tls = all->where.tls, .is_ours = is_ours, .data = all};
    set_peer(p, http_peer(req));
    buf_init(&p->head, HEAD_MAX);
    return p;
}

static unsigned count_of(const struct previews *all, const struct sandbox *s)
{
    const struct preview *p;
    unsigned n = 0;
    TAILQ_FOREACH(p, &all->list, link)
    {
        n += p->s == s;
    }
    return n;
}

static int check_room(const struct preview *p, struct err *err)
{
    const struct previews *all = p->all;
    if (all->n >= CONNECTIONS_MAX ||
        (all->n >= PER_SANDBOX_MAX && count_of(all, p->s) >= PER_SANDBOX_MAX))
        return err_set(err, ERR_UNAVAILABLE, "there are too many connections to previews");
    return 0;
}

// Takes the connection. The request, whose head the server has read, is read once more.
static int start(struct preview *p, struct http_request *req, struct err *err)
{
    auto_buf early;
    buf_init(&early, 4 * HEAD_MAX);
    http_write_head(req, &early);
    if (check_room(p, err) < 0)
        return -1;
    if (!http_is_raw(req))
        return err_set(err, ERR_INVALID, "this host is too long");
    if (http_take(req, &p->taken, err) < 0)
        return -1;
    (void)buf_append(&early, p->taken.early.data, p->taken.early.len);
    buf_done(&p->taken.early);
    p->x = exchange_start(&(struct exchange_config){
        .loop = p->all->api->loop,
        .client = TAKE_FD(p->taken.fd),
        .early = early.data,
        .early_len = early.len,
        .ops = &ops,
        .data = p,
        .idle_ms = EDGE_IDLE_SECONDS * INT64_C(1000),
    });
    TAILQ_INSERT_TAIL(&p->all->list, p, link);
    p->all->n++;
    if (p->x == NULL)
        on_closed(p);
    else
        p->follower = sandbox_follow(p->s, on_event, p);
    return 0;
}

// --- by host

bool preview_is_host(const struct previews *all, const char *host)
{
    struct preview_name name;
    return host != NULL && preview_read_host(host, all->where.domain, &name) != PREVIEW_NONE;
}

static void reply_error(struct previews *all, struct http_request *req, enum error_kind kind,
                        const char *message)
{
    struct buf body;
    char id[ID_MAX];
    const char *accept = http_header(req, "Accept");
    (void)snprintf(id, sizeof id, "%s-%" PRIx64, all->api->id_prefix, all->api->requests++);
    struct preview_error error = {kind, message, id,
                                  accept != NULL && strstr(accept, "text/html") != NULL};
    buf_init(&body, HEAD_MAX);
    const char *type = preview_write_error(&error, &body);
    http_add_header(req, "X-Request-Id", id);
    http_add_header(req, "Cache-Control", "no-store");
    http_reply_close(req, error_status(kind), type, &body);
    buf_done(&body);
}

// The sandbox that has this slug, if its port has this token; else NULL, and err when that could
// not be found out. An unknown slug takes as long to tell as a wrong token.
static struct sandbox *find_by_name(struct previews *all, const struct preview_name *name,
                                    struct err *err)
{
    struct sandbox_row row = {0};
    struct port_row port = {0};
    struct sandbox *s = NULL;
    int found = db_sandbox_by_slug(all->api->db, name->slug, &row, err);
    int open = found < 0 ? -1 : db_port_get(all->api->db, row.number, name->port, &port, err);
    if (open >= 0 && preview_token_same(open > 0 ? port.token : "", name->token) && found > 0)
        s = fleet_find(all->api->fleet, row.tenant, row.id, err);
    if (s == NULL && err->code == ERR_NOT_FOUND)
        *err = (struct err){0};
    sandbox_row_done(&row);
    port_row_done(&port);
    return s;
}

void preview_by_host(struct previews *all, struct http_request *req)
{
    struct err err = {0};
    struct preview_name name;
    struct sandbox *s = NULL;
    const char *host = http_header(req, "Host");
    if (preview_read_host(host, all->where.domain, &name) == PREVIEW_GOOD)
        s = find_by_name(all, &name, &err);
    if (s == NULL) {
        bool broken = err.code != ERR_NONE;
        reply_error(all, req, broken ? ERROR_INTERNAL : ERROR_INVALID_TOKEN,
                    broken ? "something went wrong inside Cay"
                           : "there is no such preview: its port may have been closed, or the "
                             "address is not complete");
        return;
    }
    if (all->draining) {
        reply_error(all, req, ERROR_UNAVAILABLE, "the server is being stopped; try again shortly");
        return;
    }
    struct preview *p = preview_new(all, req, s, name.port);
    if (start(p, req, &err) < 0) {
        reply_error(all, req, error_of(err.code), err.msg);
        preview_unref(p);
    }
}

// --- by path

bool preview_is_path(const char *target)
{
    static const char prefix[] = "/sandbox/";
    if (strncmp(target, prefix, sizeof prefix - 1) != 0)
        return false;
    const char *rest = strchr(target + sizeof prefix - 1, '/');
    return rest != NULL && strncmp(rest, "/proxy/", 7) == 0;
}

struct by_path {
    char id[EDGE_NAME_MAX + 1];
    uint16_t port;
    size_t len; // of the target, up to the port
    bool has_rest;
};

// The id is not decoded: those that there are need no escape.
static int read_path(struct call *call, const char *target, struct by_path *ret)
{
    const char *id = target + sizeof "/sandbox/" - 1;
    size_t n_id = strcspn(id, "/");
    const char *port = id + n_id + sizeof "/proxy/" - 1;
    size_t n_port = strcspn(port, "/?");
    if (n_id == 0 || n_id > EDGE_NAME_MAX) {
        call_error(call, ERROR_NOT_FOUND, NULL, "there is no such sandbox");
        return -1;
    }
    if (!preview_read_port(port, n_port, &ret->port)) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "'%.*s' is no port: 1 to 65535, in digits",
                   (int)(n_port < 20 ? n_port : 20), port);
        return -1;
    }
    (void)snprintf(ret->id, sizeof ret->id, "%.*s", (int)n_id, id);
    ret->len = (size_t)(port + n_port - target);
    ret->has_rest = port[n_port] == '/';
    return 0;
}

struct search {
    struct api *api;
    uint16_t port;
    const char *token;
    int64_t tenant; // found
};

// Several tenants may have a sandbox of this id; the token is one's port's.
static int see_sandbox(void *data, const struct sandbox_row *row)
{
    struct search *search = data;
    struct port_row port = {0};
    struct err err = {0};
    if (db_port_get(search->api->db, row->number, search->port, &port, &err) > 0 &&
        preview_token_same(port.token, search->token))
        search->tenant = row->tenant;
    port_row_done(&port);
    return 0;
}

// Who asks, by the port's token or by the API's. 0, or -1 when it was refused.
static int let_in(struct call *call, const struct by_path *path, bool *ret_by_token)
{
    struct err err = {0};
    char token[PREVIEW_TOKEN_MAX + 1];
    const char *target = http_target(call->req);
    int given = preview_query_token(target, strlen(target), token, sizeof token);
    *ret_by_token = given != 0;
    if (given == 0)
        return auth_check(call);
    struct search search = {.api = call->api, .port = path->port, .token = token};
    if (given > 0 &&
        db_sandbox_each_by_id(call->api->db, path->id, see_sandbox, &search, &err) < 0) {
        call_fail(call, &err);
        return -1;
    }
    if (search.tenant == 0) {
        call_error(call, ERROR_INVALID_TOKEN, NULL, "there is no such preview");
        return -1;
    }
    call->tenant = search.tenant;
    return 0;
}

static void redirect_to_slash(struct call *call, const struct by_path *path)
{
    auto_buf to;
    struct buf none;
    const char *target = http_target(call->req);
    buf_init(&to, EDGE_REPLY_HEADERS_MAX / 2);
    buf_init(&none, 0);
    (void)buf_append(&to, target, path->len);
    (void)buf_append_char(&to, '/');
    (void)buf_append_str(&to, target + path->len);
    if (to.failed == 0)
        http_add_header(call->req, "Location", buf_str(&to));
    call_reply(call, 308, NULL, &none);
}

static void start_by_path(struct call *call, struct sandbox *s, const struct by_path *path,
                          bool by_token)
{
    struct err err = {0};
    struct previews *all = call->api->previews;
    struct preview *p = preview_new(all, call->req, s, path->port);
    p->prefix = strndup(http_target(call->req), path->len);
    if (p->prefix == NULL)
        abort();
    p->rules.by_path = true;
    p->rules.prefix = p->prefix;
    if (!by_token && call->token != NULL) {
        p->token = call->token;
        p->token->refs++;
    }
    if (start(p, call->req, &err) < 0) {
        call_fail(call, &err);
        preview_unref(p);
        return;
    }
    call->req = NULL;
    call->stop = NULL;
    call_count(call, 200);
}

void preview_by_path(struct call *call)
{
    struct err err = {0};
    struct by_path path = {0};
    bool by_token;
    if (read_path(call, http_target(call->req), &path) < 0 || let_in(call, &path, &by_token) < 0)
        return;
    struct sandbox *s = fleet_find(call->api->fleet, call->tenant, path.id, &err);
    if (s == NULL && err.code == ERR_NOT_FOUND)
        call_error(call, ERROR_NOT_FOUND, NULL, "there is no sandbox '%.128s'", path.id);
    else if (s == NULL)
        call_fail(call, &err);
    else if (call->api->previews->draining)
        call_error(call, ERROR_UNAVAILABLE, NULL, "the server is being stopped; try again shortly");
    else if (!path.has_rest)
        redirect_to_slash(call, &path);
    else
        start_by_path(call, s, &path, by_token);
}

// --- all of them

struct previews *previews_open(struct api *api, const struct preview_where *where)
{
    struct previews *all = calloc(1, sizeof *all);
    if (all == NULL)
        abort();
    *all = (struct previews){.api = api, .where = *where};
    TAILQ_INIT(&all->list);
    return all;
}

const struct preview_where *previews_where(const struct previews *all)
{
    return &all->where;
}

// Ending one takes no other with it.
#define EACH(p, all, next)                                                                         \
    for (struct preview *p = TAILQ_FIRST(&(all)->list), *next;                                     \
         p != NULL && (next = TAILQ_NEXT(p, link), true); p = next)

void previews_close(struct previews *all)
{
    if (all == NULL)
        return;
    EACH(p, all, next)
    {
        exchange_stop(p->x);
    }
    free(all);
}

void previews_end_port(struct previews *all, int64_t sandbox, uint16_t port)
{
    EACH(p, all, next)
    {
        if (p->token == NULL && sandbox_row(p->s)->number == sandbox &&
            (port == 0 || p->port == port))
            exchange_stop(p->x);
    }
}

void previews_end_token(struct previews *all, const struct token *token)
{
    all->draining |= token == NULL;
    EACH(p, all, next)
    {
        if (token == NULL && !exchange_is_idle(p->x))
            exchange_close_after(p->x);
        else if (token == NULL || p->token == token)
            exchange_stop(p->x);
    }
}
