// SPDX-License-Identifier: Apache-2.0
// Who may come in, and to which sandbox.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/opencode.h"
#include "api/auth.h"
#include "api/call.h"
#include "api/preview-head.h"
#include "api/preview-internal.h"
#include "api/web.h"

enum { ERROR_MAX = 16 * 1024 }; // of an error's body

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
    char id[PREVIEW_ID_MAX];
    const char *accept = http_header(req, "Accept");
    preview_make_id(all->api, id);
    struct preview_error error = {kind, message, id,
                                  accept != NULL && strstr(accept, "text/html") != NULL};
    buf_init(&body, ERROR_MAX);
    const char *type = preview_write_error(&error, &body);
    http_add_header(req, "X-Request-Id", id);
    http_add_header(req, "Cache-Control", "no-store");
    http_reply_close(req, error_status(kind), type, &body);
    buf_done(&body);
}

// The sandbox that has this slug, if its port has this token; else NULL, and err when that could
// not be found out. An unknown slug takes as long to tell as a wrong token.
static struct sandbox *find_by_name(struct previews *all, const struct preview_name *name,
                                    bool *ret_opencode, struct err *err)
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
    *ret_opencode =
        name->port == OPENCODE_PORT && port.name != NULL && strcmp(port.name, OPENCODE_NAME) == 0;
    sandbox_row_done(&row);
    port_row_done(&port);
    return s;
}

void preview_by_host(struct previews *all, struct http_request *req)
{
    struct err err = {0};
    struct preview_name name;
    struct sandbox *s = NULL;
    bool opencode = false;
    const char *host = http_header(req, "Host");
    if (preview_read_host(host, all->where.domain, &name) == PREVIEW_GOOD)
        s = find_by_name(all, &name, &opencode, &err);
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
    const struct preview_visit visit = {
        .req = req, .s = s, .port = name.port, .opencode = opencode};
    if (preview_start(all, &visit, &err) < 0)
        reply_error(all, req, error_of(err.code), err.msg);
}

// --- by path

#define OPENCODE_PATH "/opencode"

// "/opencode", "/opencode/...", "/opencode?..."
static bool is_opencode(const char *rest)
{
    size_t len = sizeof OPENCODE_PATH - 1;
    return strncmp(rest, OPENCODE_PATH, len) == 0 &&
           (rest[len] == '\0' || rest[len] == '/' || rest[len] == '?');
}

bool preview_is_path(const char *target)
{
    static const char prefix[] = "/sandbox/";
    if (strncmp(target, prefix, sizeof prefix - 1) != 0)
        return false;
    const char *rest = strchr(target + sizeof prefix - 1, '/');
    return rest != NULL && (strncmp(rest, "/proxy/", 7) == 0 || is_opencode(rest));
}

struct by_path {
    char id[EDGE_NAME_MAX + 1];
    uint16_t port;
    bool opencode;
    size_t len; // of the target, up to the port
    bool has_rest;
};

// The port behind "/proxy/", or that of OpenCode behind its own name.
static int read_port(struct call *call, const char *target, const char *rest, struct by_path *ret)
{
    ret->opencode = is_opencode(rest);
    const char *port = rest + (ret->opencode ? 0 : sizeof "/proxy/" - 1);
    size_t n = ret->opencode ? sizeof OPENCODE_PATH - 1 : strcspn(port, "/?");
    if (ret->opencode) {
        ret->port = OPENCODE_PORT;
    } else if (!preview_read_port(port, n, &ret->port)) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "'%.*s' is no port: 1 to 65535, in digits",
                   (int)(n < 20 ? n : 20), port);
        return -1;
    }
    ret->len = (size_t)(port + n - target);
    ret->has_rest = port[n] == '/';
    return 0;
}

// The id is not decoded: those that there are need no escape.
static int read_path(struct call *call, const char *target, struct by_path *ret)
{
    const char *id = target + sizeof "/sandbox/" - 1;
    size_t n_id = strcspn(id, "/");
    if (n_id == 0 || n_id > EDGE_NAME_MAX) {
        call_error(call, ERROR_NOT_FOUND, NULL, "there is no such sandbox");
        return -1;
    }
    (void)snprintf(ret->id, sizeof ret->id, "%.*s", (int)n_id, id);
    return read_port(call, target, id + n_id, ret);
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
    char *prefix = strndup(http_target(call->req), path->len);
    if (prefix == NULL)
        abort();
    const struct preview_visit visit = {
        .req = call->req,
        .s = s,
        .port = path->port,
        .opencode = path->opencode,
        .prefix = prefix,
        .token = by_token ? NULL : call->token,
        .origin = by_token ? NULL : web_listed_origin(call->req, call->api->cors),
    };
    int r = preview_start(call->api->previews, &visit, &err);
    free(prefix);
    if (r < 0) {
        call_fail(call, &err);
        return;
    }
    call->req = NULL;
    call->stop = NULL;
    call_count(call, 200);
}

// A page that asks whether it may ask a program in a sandbox, with our token. The program is not
// asked: without the token nothing goes to it. Who comes with a port's token is between page and
// program.
static bool is_preflight(const struct call *call)
{
    char token[PREVIEW_TOKEN_MAX + 1];
    const char *target = http_target(call->req);
    return http_get_method(call->req) == HTTP_OPTIONS &&
           http_header(call->req, "Access-Control-Request-Method") != NULL &&
           http_header(call->req, "Authorization") == NULL &&
           web_listed_origin(call->req, call->api->cors) != NULL &&
           preview_query_token(target, strlen(target), token, sizeof token) == 0;
}

static void answer_preflight(struct call *call)
{
    struct buf none;
    buf_init(&none, 0);
    http_add_header(call->req, "Access-Control-Allow-Methods", "*");
    http_add_header(call->req, "Access-Control-Allow-Headers", "Authorization, *");
    http_add_header(call->req, "Access-Control-Max-Age", "600");
    call_reply(call, 204, NULL, &none);
}

void preview_by_path(struct call *call)
{
    struct err err = {0};
    struct by_path path = {0};
    bool by_token;
    if (is_preflight(call)) {
        answer_preflight(call);
        return;
    }
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
