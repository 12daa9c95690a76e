// SPDX-License-Identifier: Apache-2.0
#include "api/preview.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agents/opencode.h"
#include "api/auth.h"
#include "api/call.h"
#include "api/preview-head.h"
#include "api/preview-internal.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "h1/exchange.h"
#include "sandbox/reach.h"

enum {
    CONNECTIONS_MAX = 4096, // each may hold 128 KiB
    PER_SANDBOX_MAX = 1024,
    HEAD_MAX = 64 * 1024,
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
    bool opencode;
    bool waits, again; // for OpenCode; a second time for one request
    struct preview_rules rules;
    char *host;   // of all its requests
    char *prefix; // of the path
    char *origin; // of the page, or NULL
    char peer[64];
    char id[PREVIEW_ID_MAX]; // of the request at hand
    bool wants_html;
    uint64_t touched;
    struct buf head; // of the request that waits for its connection
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
    free(p->origin);
    free(p);
}

static void on_closed(void *data)
{
    struct preview *p = data;
    TAILQ_REMOVE(&p->all->list, p, link);
    p->all->n--;
    p->x = NULL;
    if (p->waits) {
        p->waits = false;
        opencode_unready(p->all->api->agents, p->s, p);
        preview_unref(p);
    }
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
    auto_buf body, fields;
    buf_init(&body, HEAD_MAX / 2);
    buf_init(&fields, HEAD_MAX / 2);
    struct preview_error error = {kind, message, p->id, p->wants_html};
    const char *type = preview_write_error(&error, &body);
    (void)buf_printf(&fields, "X-Request-Id: %s\r\nCache-Control: no-store\r\n%s", p->id,
                     kind == ERROR_UNAVAILABLE ? "Retry-After: 1\r\n" : "");
    preview_write_cors(&p->rules, &fields);
    exchange_write_answer_with(p->x, ret, error_status(kind), type, buf_str(&fields),
                               buf_str(&body));
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

static void on_opencode(void *data, const struct failure *failure);

static void wait_for_opencode(struct preview *p)
{
    p->waits = true;
    opencode_ready(p->all->api->agents, p->s, on_opencode, p);
}

static void on_dialled(void *data, int fd, const struct err *err)
{
    struct preview *p = data;
    struct upstream up = {.fd = fd};
    if (p->x == NULL) {
        fd_close(fd);
    } else if (fd < 0 && p->opencode && !p->again && err->sys_errno == ECONNREFUSED) {
        p->again = true; // it has died since
        opencode_missing(p->all->api->agents, p->s);
        wait_for_opencode(p);
        return;
    } else if (fd < 0)
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

static void on_opencode(void *data, const struct failure *failure)
{
    struct preview *p = data;
    p->waits = false;
    if (failure == NULL) {
        sandbox_dial(p->s, p->port, on_dialled, p);
        return;
    }
    refuse(p,
           failure->status == 501   ? ERROR_NOT_IMPLEMENTED
           : failure->status == 503 ? ERROR_UNAVAILABLE
                                    : ERROR_BAD_GATEWAY,
           failure->message);
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
    preview_make_id(api, p->id);
    p->wants_html = accepts_html(head);
    p->again = false;
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
        if (p->opencode)
            wait_for_opencode(p);
        else
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

static struct preview *preview_new(struct previews *all, const struct preview_visit *visit)
{
    struct preview *p = calloc(1, sizeof *p);
    if (p == NULL)
        abort();
    const char *host = http_header(visit->req, "Host");
    p->all = all;
    p->refs = 1;
    p->s = sandbox_ref(visit->s);
    p->port = visit->port;
    p->opencode = visit->opencode;
    p->host = mem_copy_text(host != NULL ? host : "");
    p->prefix = visit->prefix != NULL ? mem_copy_text(visit->prefix) : NULL;
    p->origin = visit->origin != NULL ? mem_copy_text(visit->origin) : NULL;
    p->token = visit->token;
    if (p->token != NULL)
        p->token->refs++;
    p->rules = (struct preview_rules){
        .by_path = p->prefix != NULL,
        .prefix = p->prefix,
        .origin = p->origin,
        .peer = p->peer,
        .tls = all->where.tls,
        .is_ours = is_ours,
        .data = all,
    };
    set_peer(p, http_peer(visit->req));
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
static int take(struct preview *p, struct http_request *req, struct err *err)
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

int preview_start(struct previews *all, const struct preview_visit *visit, struct err *err)
{
    struct preview *p = preview_new(all, visit);
    int r = take(p, visit->req, err);
    if (r < 0)
        preview_unref(p);
    return r;
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
