// SPDX-License-Identifier: Apache-2.0
// Whether it works, and what it is.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/show.h"
#include "saved/saved.h"

static double load_1m(void)
{
    double load[1] = {0};
    return getloadavg(load, 1) == 1 ? load[0] : 0;
}

static void show_machine(struct json *j, const struct api *api)
{
    struct fleet_stats stats;
    fleet_stats(api->fleet, &stats);
    show_str(j, "tier", "namespaces");
    json_key(j, "pool");
    json_open_object(j);
    show_int(j, "ready", stats.ready);
    json_close_object(j);
    json_key(j, "load");
    json_open_object(j);
    show_ms(j, "load1m", load_1m());
    show_int(j, "running", stats.running);
    show_int(j, "waiting", stats.waiting);
    show_int(j, "boxes", stats.boxes_max);
    json_close_object(j);
    show_bool(j, "volume", stats.has_volume);
    show_int(j, "restarts", stats.restarts);
}

static void show_store(struct json *j, const struct saved *saved)
{
    struct err err = {0};
    bool ok = saved_store_ok(saved, &err);
    json_key(j, "store");
    json_open_object(j);
    show_str(j, "kind", saved_store_kind(saved));
    show_bool(j, "ok", ok);
    if (!ok)
        show_str(j, "error", err.msg);
    json_close_object(j);
}

// No database: it is asked often, and must answer when little else does.
void handle_health(struct call *call)
{
    struct buf buf;
    struct json j;
    bool known = auth_peek(call);
    buf_init(&buf, 4096);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "ok", !call->api->draining);
    show_str(&j, "status", call->api->draining ? "draining" : "healthy");
    show_str(&j, "service", "cay");
    show_str(&j, "version", CAY_VERSION);
    show_time_now(&j, "timestamp");
    if (known) {
        show_machine(&j, call->api);
        show_store(&j, call->api->saved);
    }
    json_close_object(&j);
    call_reply_json(call, call->api->draining ? 503 : 200, &j);
}

// Load balancers and people's scripts ask this more often than all else: the plain question, by
// nobody in particular, is answered without a call, and without a formatted print: its text is
// written once a second, but for the three digits behind it.
struct quick {
    char text[256];
    size_t len, digits; // where the milliseconds are
    time_t second;
};

static void quick_write(struct quick *q, time_t second)
{
    static const char tail[] = "000Z\"}\n";
    char time[32];
    struct tm tm;
    if (gmtime_r(&second, &tm) == NULL)
        return;
    (void)strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &tm);
    q->digits = (size_t)snprintf(
        q->text, sizeof q->text - sizeof tail,
        "{\"ok\":true,\"status\":\"healthy\",\"service\":\"cay\",\"version\":\"%s\","
        "\"timestamp\":\"%s.",
        CAY_VERSION, time);
    memcpy(q->text + q->digits, tail, sizeof tail);
    q->len = q->digits + sizeof tail - 1;
    q->second = second;
}

static void quick_id(const struct api *api, char *ret)
{
    static const char hex[] = "0123456789abcdef";
    size_t len = strlen(api->id_prefix);
    int shift = 60;
    memcpy(ret, api->id_prefix, len);
    ret[len++] = '-';
    while (shift > 0 && (api->requests >> shift & 15) == 0)
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        ret[len++] = hex[api->requests >> shift & 15];
    ret[len] = '\0';
}

bool health_quick(struct api *api, struct http_request *req)
{
    static struct quick q;
    char id[sizeof api->id_prefix + 20];
    struct buf buf;
    if (strcmp(http_target(req), "/health") != 0 || http_get_method(req) != HTTP_GET ||
        http_is_local(req) || api->anyone != NULL || api->draining || api->cors[0] != '\0' ||
        http_header(req, "Authorization") != NULL || http_header(req, "X-Request-Id") != NULL)
        return false;
    int64_t now = db_now_ms();
    int ms = (int)(now % 1000);
    if (now / 1000 != q.second)
        quick_write(&q, now / 1000);
    q.text[q.digits] = (char)('0' + ms / 100);
    q.text[q.digits + 1] = (char)('0' + ms / 10 % 10);
    q.text[q.digits + 2] = (char)('0' + ms % 10);
    quick_id(api, id);
    api->requests++;
    http_add_header(req, "X-Request-Id", id);
    http_add_header(req, "Cache-Control", "no-store");
    buf_init(&buf, sizeof q.text);
    (void)buf_append(&buf, q.text, q.len);
    api->requests_by[0][1]++; // GET, 2xx
    http_reply(req, 200, "application/json", &buf);
    buf_done(&buf);
    return true;
}

static const char index_text[] =
    "Cay " CAY_VERSION ": isolated Linux sandboxes over HTTP.\n\n"
    "  curl -X PUT  -H \"Authorization: Bearer $CAY_TOKEN\" http://HOST/sandbox/demo\n"
    "  curl -X POST -H \"Authorization: Bearer $CAY_TOKEN\" http://HOST/sandbox/demo/exec \\\n"
    "       -d '{\"command\":\"echo hello\"}'\n\n"
    "All routes: /openapi.json   Health: /health\n";

void handle_index(struct call *call)
{
    struct buf buf;
    struct json j;
    buf_init(&buf, 4096);
    if (call_accepts(call, "text/html")) {
        (void)buf_append_str(&buf, index_text);
        call_reply(call, 200, "text/plain; charset=utf-8", &buf);
        return;
    }
    json_init(&j, &buf);
    json_open_object(&j);
    show_str(&j, "service", "cay");
    show_str(&j, "version", CAY_VERSION);
    show_str(&j, "description", "Isolated Linux sandboxes over HTTP");
    show_str(&j, "openapi", "/openapi.json");
    show_str(&j, "health", "/health");
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}

void handle_openapi(struct call *call)
{
    struct buf buf;
    buf_init(&buf, call->api->openapi.len + 1);
    (void)buf_append(&buf, call->api->openapi.data, call->api->openapi.len);
    call_reply(call, 200, "application/json", &buf);
}
