// SPDX-License-Identifier: Apache-2.0
// The way of a request: target, route, who asks and how often, body, sandbox, key, handler. Each
// step refuses with an answer of its own before the next one sees anything.
#include "api/api.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/call.h"
#include "api/capability.h"
#include "api/family-path.h"
#include "api/family.h"
#include "api/handlers.h"
#include "api/openapi.h"
#include "api/preview.h"
#include "api/stats.h"
#include "api/transfer.h"
#include "api/web.h"
#include "edge/target.h"
#include "edge/ws.h"

enum { TICK_MS = 5000 };

// -- browsers on other sites

static void add_cors(struct call *call)
{
    if (call->api->cors[0] == '\0')
        return;
    const char *origin = web_listed_origin(call->req, call->api->cors);
    http_add_header(call->req, "Vary", "Origin");
    if (origin == NULL)
        return;
    http_add_header(call->req, "Access-Control-Allow-Origin", origin);
    http_add_header(call->req, "Access-Control-Expose-Headers",
                    "X-Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, "
                    "Retry-After, X-Cay-Offset, X-Cay-Gap, Idempotency-Replayed, ETag, "
                    "Accept-Ranges, Content-Range");
}

static void answer_options(struct call *call, const char *allow)
{
    struct buf none;
    buf_init(&none, 0);
    http_add_header(call->req, "Allow", allow);
    if (call->api->cors[0] != '\0' && http_header(call->req, "Access-Control-Request-Method")) {
        http_add_header(call->req, "Access-Control-Allow-Methods", allow);
        http_add_header(call->req, "Access-Control-Allow-Headers",
                        "Authorization, Content-Type, Accept, Idempotency-Key, Last-Event-ID, "
                        "X-Request-Id, X-Cay-Tenant, If-Match, If-None-Match, If-Range, Range");
        http_add_header(call->req, "Access-Control-Max-Age", "600");
    }
    call_reply(call, 204, NULL, &none);
}

// -- the steps

// The container family's targets are as if they were written out: without a capability, and its
// root without a slash, which theirs has.
static int write_target(struct call *call, struct buf *ret)
{
    const char *rest, *raw = http_target(call->req);
    (void)family_of(raw, &rest);
    if (path_of_capability(raw) != NULL) {
        if (capability_enter(call, ret) < 0)
            return -1;
    } else {
        (void)buf_append(ret, raw, (size_t)(rest - raw));
    }
    bool is_root = strcmp(rest, "/") == 0 || strncmp(rest, "/?", 2) == 0;
    (void)buf_append_str(ret, rest + is_root);
    return 0;
}

static int read_target(struct call *call)
{
    struct err err;
    auto_buf text;
    const char *raw = http_target(call->req);
    buf_init(&text, EDGE_TARGET_MAX + EDGE_NAME_MAX + 64);
    if (call->family == &family_container) {
        if (write_target(call, &text) < 0)
            return -1;
        raw = buf_str(&text);
    }
    if (target_parse(&call->target, raw, &err) == 0)
        return 0;
    call_fail(call, &err);
    return -1;
}

static int find_route(struct call *call)
{
    auto_buf allow;
    enum http_method method = http_get_method(call->req);
    struct route_match match = family_find(call->family, method, &call->target);
    buf_init(&allow, 128);
    call->route = match.route;
    memcpy(call->param, match.param, sizeof call->param);
    if (match.allowed == 0) {
        call_error(call, ERROR_NOT_FOUND, NULL, "there is no such path%s",
                   call->family == &family_native ? "; GET /openapi.json lists them"
                                                  : " in this protocol");
        return -1;
    }
    if (match.route != NULL)
        return 0;
    route_allow(match.allowed, &allow);
    if (method == HTTP_OPTIONS) {
        answer_options(call, buf_str(&allow));
        return -1;
    }
    http_add_header(call->req, "Allow", buf_str(&allow));
    call_error(call, method == HTTP_OTHER ? ERROR_NOT_IMPLEMENTED : ERROR_METHOD_NOT_ALLOWED, NULL,
               "%.20s is not possible here, but %s", http_method_name(call->req), buf_str(&allow));
    return -1;
}

static int check_query(struct call *call)
{
    for (size_t i = 0; i < call->target.n_query; i++) {
        const char *name = call->target.query[i].name;
        if (strcmp(name, "token") == 0 || strcmp(name, "access_token") == 0) {
            call_error(call, ERROR_INVALID_REQUEST, NULL,
                       "tokens do not belong into URLs, which end in logs: send 'Authorization: "
                       "Bearer TOKEN'");
            return -1;
        }
        if (!call->family->lenient && !route_takes_query(call->route, name)) {
            const char *near = route_near_query(call->route, name);
            call_error(call, ERROR_INVALID_REQUEST, NULL, "unknown query parameter '%.80s'%s%s%s",
                       name, near != NULL ? ": did you mean '" : "", near != NULL ? near : "",
                       near != NULL ? "'?" : "");
            return -1;
        }
    }
    return 0;
}

static bool is_raw_body(const struct call *call)
{
    const char *type = http_header(call->req, "Content-Type");
    return (call->route->flags & ROUTE_RAW_BODY) && type != NULL &&
           strncasecmp(type, "application/octet-stream", 24) == 0;
}

static int read_body(struct call *call)
{
    struct err err;
    size_t len;
    const char *data = http_body(call->req, &len);
    if (is_raw_body(call) || (call->route->flags & ROUTE_STREAM_BODY))
        return 0;
    if (http_is_raw(call->req)) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "this request takes no such body");
        return -1;
    }
    if (call->route->body == NULL) {
        if (len == 0 || call->family->lenient)
            return 0;
        call_error(call, ERROR_INVALID_REQUEST, NULL, "this request takes no body");
        return -1;
    }
    if (body_read(&call->body, call->route->body, data, len, &err) == 0)
        return 0;
    call_fail(call, &err);
    return -1;
}

static void handle(struct call *call)
{
    if ((call->route->flags & ROUTE_IDEMPOTENT) && idem_begin(call) < 0)
        return;
    call->route->handle(call);
}

static void on_made(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct call *call = data;
    (void)created;
    if (s != NULL)
        call->sandbox = sandbox_ref(s);
    call_go_on(call, err, handle);
}

// First seen by a family that makes it: as theirs has it, with a network; and with a disk, if this
// machine keeps any.
static void make_sandbox(struct call *call)
{
    struct fleet_stats stats;
    fleet_stats(call->api->fleet, &stats);
    const struct sandbox_settings settings = {
        .id = call->param[0],
        .sleep_after_ms = -1,
        .network = "\"internet\"",
        .ephemeral = !stats.has_volume,
    };
    if (!sandbox_id_valid(settings.id)) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "a sandbox's id has 1 to %d letters, digits, '.', '_' and '-', with a letter or "
                   "digit at both ends",
                   EDGE_NAME_MAX);
        return;
    }
    fleet_create(call->api->fleet, call->tenant, &settings, on_made, call_ref(call));
}

// 0: go on; -1: it was answered, or goes on by itself.
static int find_sandbox(struct call *call)
{
    struct err err = {0};
    if (!(call->route->flags & ROUTE_SANDBOX))
        return 0;
    struct sandbox *s = fleet_find(call->api->fleet, call->tenant, call->param[0], &err);
    if (s != NULL)
        call->sandbox = sandbox_ref(s);
    else if (err.code != ERR_NOT_FOUND) {
        call_fail(call, &err);
        return -1;
    }
    if (capability_check(call) < 0)
        return -1;
    if (s != NULL)
        return 0;
    if (call->family->creates && !(call->route->flags & ROUTE_EXISTING))
        make_sandbox(call);
    else
        call_error(call, ERROR_NOT_FOUND, "{\"missing\":\"sandbox\"}",
                   "there is no sandbox '%.128s'; PUT /sandbox/{id} makes one", call->param[0]);
    return -1;
}

static int check_draining(struct call *call)
{
    if (!call->api->draining || (call->route->flags & ROUTE_PUBLIC) ||
        call->route->method == HTTP_GET)
        return 0;
    call_error(call, ERROR_UNAVAILABLE, NULL, "the server is being stopped; try again shortly");
    return -1;
}

// Where no token is asked for: see web.h. What comes to a preview's host is not seen here.
static int check_host(struct call *call)
{
    const struct api *api = call->api;
    if (api->anyone == NULL || http_is_local(call->req) || web_is_for_us(call->req, api->port))
        return 0;
    call_error(call, ERROR_MISDIRECTED_REQUEST, NULL,
               "this server asks for no token, so that it answers to localhost:%u only, and not "
               "to other names that lead here",
               api->port);
    return -1;
}

static void dispatch(struct call *call)
{
    if (check_host(call) < 0)
        return;
    if (preview_is_path(http_target(call->req))) { // the rest of it is for somebody else to read
        call->route = route_of(preview_by_path);
        preview_by_path(call);
        return;
    }
    if (read_target(call) < 0 || find_route(call) < 0)
        return;
    if (!(call->route->flags & ROUTE_PUBLIC) && auth_check(call) < 0)
        return;
    if (check_query(call) < 0 || check_draining(call) < 0 || read_body(call) < 0)
        return;
    if ((call->route->check != NULL && call->route->check(call) < 0) || find_sandbox(call) < 0)
        return;
    handle(call);
}

unsigned api_refusal(void *data, const char *target, enum error_kind kind, const char *message,
                     const char *request_id, struct buf *ret)
{
    const struct refusal refusal = {.kind = kind, .message = message, .request_id = request_id};
    (void)data;
    return family_of(target, NULL)->write_error(&refusal, ret);
}

void api_handle(struct http_request *req, void *data)
{
    struct api *api = data;
    auth_arrived(api, req);
    if (preview_is_host(api->previews, http_header(req, "Host"))) {
        preview_by_host(api->previews, req);
        return;
    }
    if (health_quick(data, req))
        return;
    struct call *call = call_new(data, req);
    http_add_header(req, "X-Request-Id", call->id);
    http_add_header(req, "Cache-Control", "no-store");
    http_add_header(req, "X-Content-Type-Options", "nosniff");
    add_cors(call);
    dispatch(call);
}

// -- opening and closing

static void tick(uv_timer_t *timer)
{
    struct api *api = timer->data;
    capabilities_tick(api);
    streams_tick(api);
    stats_tick(api->stats);
}

static int fill(struct api *api, const struct api_config *config, struct err *err)
{
    uint8_t bytes[4];
    randombytes_buf(bytes, sizeof bytes);
    (void)sodium_bin2hex(api->id_prefix, sizeof api->id_prefix, bytes, sizeof bytes);
    api->loop = config->loop;
    api->db = config->db;
    api->fleet = config->fleet;
    api->mover = config->mover;
    api->secrets = config->secrets;
    api->egress = config->egress;
    api->agents = config->agents;
    api->saved = config->saved;
    api->rate = config->rate;
    api->run = config->run;
    api->port = config->port;
    api->cors = strdup(config->cors != NULL ? config->cors : "");
    if (api->cors == NULL)
        abort();
    openapi_native(&api->openapi);
    struct preview_where where;
    if (preview_where_read(&where, config->preview_domain, config->port, config->behind_proxy,
                           err) < 0)
        return -1;
    api->previews = previews_open(api, &where);
    return auth_open(api, config, err);
}

static void api_release(uv_handle_t *handle)
{
    struct api *api = handle->data;
    auth_close(api);
    buf_done(&api->openapi);
    stats_free(api->stats);
    free(api->cors);
    free(api);
}

int api_open(const struct api_config *config, struct api **ret, struct err *err)
{
    if (sodium_init() < 0)
        return err_set(err, ERR_INTERNAL, "libsodium does not start");
    body_wipe_freed();
    struct api *api = calloc(1, sizeof *api);
    if (api == NULL)
        abort();
    (void)uv_timer_init(config->loop, &api->tick);
    api->tick.data = api;
    api->stats = stats_new();
    if (fill(api, config, err) < 0) {
        api_free(api);
        return -1;
    }
    (void)uv_timer_start(&api->tick, tick, 0, TICK_MS);
    uv_unref((uv_handle_t *)&api->tick);
    *ret = api;
    return 0;
}

void api_free(struct api *api)
{
    if (api == NULL)
        return;
    ws_end_all();
    previews_close(api->previews);
    api->previews = NULL;
    transfers_drop(api);
    uv_close((uv_handle_t *)&api->tick, api_release);
}

void api_drain(struct api *api)
{
    api->draining = true;
    streams_end(api, NULL); // their readers come again, to whoever serves then
}
