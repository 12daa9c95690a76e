// SPDX-License-Identifier: Apache-2.0
// What the bridge has: as OpenAPI, and as a page to read, which needs no script.
#include <stdio.h>
#include <string.h>

#include "api/bridge/bridge.h"
#include "api/bridge/error.h"
#include "api/openapi.h"

const struct shape bridge_id_shape = {"BridgeId", "id:string"};
const struct shape bridge_ok_shape = {"BridgeOk", "ok:boolean"};
const struct shape bridge_running_shape = {"BridgeRunning", "running:boolean state:string"};
const struct shape bridge_deleted_shape = {"BridgeDeleted",
                                           "success:boolean sessionId:string timestamp:string"};
const struct shape bridge_pool_shape = {
    "BridgePool",
    "warm:integer assigned:integer total:integer config:BridgePoolConfig maxInstances:integer"};
static const struct shape pool_config_shape = {"BridgePoolConfig",
                                               "warmTarget:integer refreshInterval:integer"};
const struct shape bridge_stopped_shape = {"BridgeStopped", "ok:boolean stopped:integer"};

static const struct shape *const all_shapes[] = {
    &bridge_id_shape,   &bridge_ok_shape,   &bridge_running_shape, &bridge_deleted_shape,
    &bridge_pool_shape, &pool_config_shape, &bridge_stopped_shape, NULL,
};

static void handle_openapi(struct call *call)
{
    struct buf buf;
    openapi_write(&buf, &(struct openapi){
                            .title = "Cay: the bridge",
                            .description = "What the bridge of Cloudflare's sandboxes speaks, over "
                                           "Cay's. docs/CLIENTS.md has the rest.",
                            .family = &family_bridge,
                            .shapes = all_shapes,
                            .put_error = bridge_put_error,
                        });
    call_reply(call, 200, "application/json", &buf);
}

// -- the page

enum { PAGE_MAX = 256 * 1024 };

static void put_text(struct buf *page, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<')
            (void)buf_append_str(page, "&lt;");
        else if (*text == '&')
            (void)buf_append_str(page, "&amp;");
        else
            (void)buf_append_char(page, *text);
    }
}

static void put_rows(struct buf *page, const char *kind, const struct query *rows, size_t max)
{
    for (size_t i = 0; i < max && rows != NULL && rows[i].name != NULL; i++) {
        (void)buf_printf(page, "<li>%s <code>%s</code>: ", kind, rows[i].name);
        put_text(page, rows[i].help != NULL ? rows[i].help : "");
        (void)buf_append_str(page, "</li>\n");
    }
}

static void put_fields(struct buf *page, const struct schema *schema)
{
    for (size_t i = 0; schema != NULL && i < schema->n; i++) {
        const struct field *f = &schema->fields[i];
        (void)buf_printf(page, "<li>body <code>%s</code>%s", f->name,
                         f->required ? " (required)" : "");
        if (f->help != NULL) {
            (void)buf_append_str(page, ": ");
            put_text(page, f->help);
        }
        (void)buf_append_str(page, "</li>\n");
    }
}

static const char *method_of(const struct route *r)
{
    switch ((int)r->method) {
    case HTTP_POST:
        return "POST";
    case HTTP_PUT:
        return "PUT";
    case HTTP_DELETE:
        return "DELETE";
    default:
        return "GET";
    }
}

static void put_route(struct buf *page, const struct route *r)
{
    (void)buf_printf(page, "<h2><code>%s %s</code></h2>\n<p>", method_of(r), r->pattern);
    put_text(page, r->summary);
    (void)buf_append_str(page, ".</p>\n<ul>\n");
    put_fields(page, r->body);
    put_rows(page, "query", r->query, ROUTE_QUERY_MAX);
    put_rows(page, "header", r->headers, ROUTE_QUERY_MAX);
    (void)buf_printf(page, "<li>answers %u: ", r->status);
    put_text(page, r->answer);
    (void)buf_append_str(page, "</li>\n</ul>\n");
}

static void handle_page(struct call *call)
{
    struct buf page;
    buf_init(&page, PAGE_MAX);
    (void)buf_append_str(
        &page,
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Cay: the bridge</title>\n"
        "<style>body{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto;padding:0 1em}"
        "h2{font-size:1em;margin:2em 0 0}code{background:#8882;padding:.1em .3em}"
        ":root{color-scheme:light dark}</style>\n"
        "<h1>Cay: the bridge</h1>\n<p>What the bridge of Cloudflare's sandboxes speaks, over Cay's. "
        "A token is sent as <code>Authorization: Bearer TOKEN</code>; errors are <code>{\"error\", "
        "\"code\"}</code>. As OpenAPI: <a href=\"openapi.json\">openapi.json</a>.</p>\n");
    for (const struct route_table *t = family_bridge.tables; t->routes != NULL; t++) {
        for (size_t i = 0; i < *t->n; i++)
            put_route(&page, &t->routes[i]);
    }
    call_add_header(call, "Content-Security-Policy",
                    "default-src 'none'; style-src 'unsafe-inline'");
    call_reply(call, 200, "text/html; charset=utf-8", &page);
}

#define PAGE(path, operation)                                                                      \
    BRIDGE_ROUTE(HTTP_GET, path, 200, handle_page, .flags = ROUTE_PUBLIC, .name = (operation),     \
                 .summary = "The same as a page to read", .answer = "HTML", .type = "text/html")

const struct route bridge_about[] = {
    BRIDGE_ROUTE(HTTP_GET, "/openapi.json", 200, handle_openapi, .flags = ROUTE_PUBLIC,
                 .name = "getOpenApiSchema", .summary = "This description",
                 .answer = "OpenAPI 3.1"),
    PAGE("/openapi.html", "getOpenApiPage"),
    PAGE("/openapi", "getOpenApi"),
};
const size_t n_bridge_about = sizeof bridge_about / sizeof *bridge_about;
