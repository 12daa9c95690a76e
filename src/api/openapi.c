// SPDX-License-Identifier: Apache-2.0
#include "api/openapi.h"

#include <stdio.h>
#include <string.h>

#include "api/schemas.h"
#include "api/show.h"
#include "base/json.h"
#include "edge/error.h"
#include "edge/limits.h"

enum { OPENAPI_MAX = 1024 * 1024 };

static void open_key(struct json *j, const char *key)
{
    json_key(j, key);
    json_open_object(j);
}

static void put_ref(struct json *j, const char *name)
{
    char text[96];
    (void)snprintf(text, sizeof text, "#/components/schemas/%s", name);
    json_open_object(j);
    show_str(j, "$ref", text);
    json_close_object(j);
}

// -- shapes

static void put_type(struct json *j, const char *type, size_t len)
{
    char name[64];
    if (type[0] == '[') {
        json_open_object(j);
        show_str(j, "type", "array");
        json_key(j, "items");
        put_type(j, type + 1, len - 2);
        json_close_object(j);
        return;
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)len, type);
    if (name[0] >= 'A' && name[0] <= 'Z') {
        put_ref(j, name);
        return;
    }
    json_open_object(j);
    if (strcmp(name, "any") != 0) {
        json_key(j, "type");
        json_open_array(j);
        json_put_str(j, name);
        json_put_str(j, "null");
        json_close_array(j);
    }
    json_close_object(j);
}

static void put_shape(struct json *j, const struct shape *shape)
{
    char name[64];
    open_key(j, shape->name);
    show_str(j, "type", "object");
    open_key(j, "properties");
    for (const char *p = shape->fields; *p != '\0';) {
        size_t colon = strcspn(p, ":");
        size_t end = strcspn(p, " ");
        (void)snprintf(name, sizeof name, "%.*s", (int)colon, p);
        json_key(j, name);
        put_type(j, p + colon + 1, end - colon - 1);
        p += end + (p[end] == ' ');
    }
    json_close_object(j);
    json_close_object(j);
}

// -- one route

static void put_parameter(struct json *j, const char *in, const char *name, const char *help)
{
    json_open_object(j);
    show_str(j, "name", name);
    show_str(j, "in", in);
    if (strcmp(in, "path") == 0)
        show_bool(j, "required", true);
    if (help != NULL)
        show_str(j, "description", help);
    open_key(j, "schema");
    show_str(j, "type", "string");
    json_close_object(j);
    json_close_object(j);
}

static void put_parameters(struct json *j, const struct route *r)
{
    char name[32];
    json_key(j, "parameters");
    json_open_array(j);
    for (const char *p = strchr(r->pattern, '{'); p != NULL; p = strchr(p + 1, '{')) {
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(p + 1, "*}"), p + 1);
        put_parameter(j, "path", name, NULL);
    }
    for (size_t i = 0; i < ROUTE_QUERY_MAX && r->query[i].name != NULL; i++)
        put_parameter(j, "query", r->query[i].name, r->query[i].help);
    if (r->flags & ROUTE_IDEMPOTENT)
        put_parameter(j, "header", "Idempotency-Key",
                      "The same key and request: the first answer again, for 24 hours");
    if (r->flags & ROUTE_SSE)
        put_parameter(j, "header", "Last-Event-ID", "Go on behind this event");
    for (const struct query *h = r->headers; h != NULL && h->name != NULL; h++)
        put_parameter(j, "header", h->name, h->help);
    json_close_array(j);
}

static void put_body(struct json *j, const struct route *r)
{
    if (r->body == NULL && !(r->flags & ROUTE_STREAM_BODY))
        return;
    open_key(j, "requestBody");
    open_key(j, "content");
    if (r->body == NULL) { // bytes, of any length
        open_key(j, "application/octet-stream");
        json_close_object(j);
        json_close_object(j);
        json_close_object(j);
        return;
    }
    open_key(j, "application/json");
    json_key(j, "schema");
    put_ref(j, r->body->name);
    json_close_object(j);
    if (r->flags & ROUTE_RAW_BODY) {
        open_key(j, "application/octet-stream");
        json_close_object(j);
    }
    json_close_object(j);
    json_close_object(j);
}

static void put_answer(struct json *j, const struct route *r)
{
    char status[8];
    (void)snprintf(status, sizeof status, "%u", r->status);
    open_key(j, status);
    show_str(j, "description", r->answer);
    if (r->status == 204) {
        json_close_object(j);
        return;
    }
    open_key(j, "content");
    open_key(j, r->type != NULL ? r->type : "application/json");
    if (r->shape != NULL) {
        json_key(j, "schema");
        put_ref(j, r->shape->name);
    }
    json_close_object(j);
    if (r->flags & ROUTE_SSE) {
        open_key(j, "text/event-stream");
        json_close_object(j);
    }
    json_close_object(j);
    json_close_object(j);
}

static bool is_about_files(const struct route *r)
{
    return strstr(r->pattern, "/files") != NULL;
}

static bool is_of_models(const struct route *r)
{
    return strncmp(r->pattern, "/execute", strlen("/execute")) == 0;
}

static bool is_of_store(const struct route *r)
{
    return r->body == &backup_schema || r->body == &restore_schema ||
           strstr(r->pattern, "/stored") || strcmp(r->name, "archive") == 0 ||
           strcmp(r->name, "sync") == 0;
}

static bool may_answer(const struct route *r, enum error_kind kind)
{
    bool has_id = strchr(r->pattern, '{') != NULL;
    switch (kind) {
    case ERROR_INVALID_REQUEST:
    case ERROR_METHOD_NOT_ALLOWED:
    case ERROR_INTERNAL:
        return true;
    case ERROR_UNAUTHORIZED:
    case ERROR_FORBIDDEN:
    case ERROR_RATE_LIMITED:
    case ERROR_UNAVAILABLE:
        return !(r->flags & ROUTE_PUBLIC);
    case ERROR_NOT_FOUND:
        return has_id || r->body != NULL;
    case ERROR_CONFLICT:
        return !(r->flags & ROUTE_PUBLIC) && r->method != HTTP_GET;
    case ERROR_PAYLOAD_TOO_LARGE:
        return r->body != NULL;
    case ERROR_STORE_DAMAGED:
    case ERROR_STORE_UNAVAILABLE:
        return is_of_store(r);
    case ERROR_SESSION_TERMINATED:
        return strcmp(r->name, "exec") == 0;
    case ERROR_GIT_CLONE_FAILED:
        return strcmp(r->name, "gitCheckout") == 0;
    case ERROR_LANGUAGE_MISSING:
        return r->body == &code_schema || r->body == &context_schema;
    case ERROR_BUDGET_EXCEEDED:
    case ERROR_MODEL_FAILED:
    case ERROR_MODEL_TIMEOUT:
        return is_of_models(r) && r->method == HTTP_POST;
    case ERROR_RESULT_LOST:
        return is_of_models(r) && has_id;
    case ERROR_UPGRADE_REQUIRED:
        return r->status == 101;
    case ERROR_BAD_GATEWAY:
        return strstr(r->pattern, "/proxy/") != NULL;
    case ERROR_MODEL_AUTH:
    case ERROR_MISSING_API_KEY:
    case ERROR_INVALID_TOKEN:
    case ERROR_IS_DIRECTORY:
    case ERROR_NOT_DIRECTORY:
    case ERROR_PERMISSION_DENIED:
    case ERROR_FILE_EXISTS:
    case ERROR_CONTEXT_DEAD:
    case ERROR_GIT_AUTH_FAILED:
    case ERROR_GIT_NETWORK_DENIED:
    case ERROR_GIT_REPO_NOT_FOUND:
    case ERROR_GIT_BRANCH_NOT_FOUND:
    case ERROR_GIT_OPERATION_FAILED:
        break; // under the status of another
    case ERROR_NO_SPACE:
        return is_about_files(r) && r->method != HTTP_GET && r->method != HTTP_DELETE;
    case ERROR_PRECONDITION_FAILED:
        return is_about_files(r) && (r->method == HTTP_GET || r->method == HTTP_PUT);
    case ERROR_RANGE_NOT_SATISFIABLE:
        return is_about_files(r) && r->method == HTTP_GET;
    case ERROR_UNSUPPORTED_MEDIA_TYPE:
        return r->flags & ROUTE_STREAM_BODY;
    case ERROR_CANNOT_START:
    case ERROR_QUOTA_EXCEEDED:
    case ERROR_REQUEST_TIMEOUT:
    case ERROR_REQUEST_IN_PROGRESS:
    case ERROR_OUTCOME_UNKNOWN:
    case ERROR_IDEMPOTENCY_KEY_REUSED:
    case ERROR_URI_TOO_LONG:
    case ERROR_EXPECTATION_FAILED:
    case ERROR_HEADERS_TOO_LARGE:
    case ERROR_MISDIRECTED_REQUEST:
    case ERROR_NOT_IMPLEMENTED:
    case ERROR_KIND_MAX:
        break; // of all requests, or under the status of another
    }
    return false;
}

// Several kinds may have one status.
static bool is_told(const struct route *r, int kind)
{
    for (int i = 0; i < kind; i++) {
        if (may_answer(r, (enum error_kind)i) &&
            error_status((enum error_kind)i) == error_status((enum error_kind)kind))
            return true;
    }
    return false;
}

static void put_answers(struct json *j, const struct route *r)
{
    char status[8];
    open_key(j, "responses");
    put_answer(j, r);
    for (int kind = 0; kind < ERROR_KIND_MAX; kind++) {
        if (!may_answer(r, (enum error_kind)kind) || is_told(r, kind))
            continue;
        (void)snprintf(status, sizeof status, "%u", error_status((enum error_kind)kind));
        open_key(j, status);
        show_str(j, "$ref", "#/components/responses/Error");
        json_close_object(j);
    }
    json_close_object(j);
}

static const char *method_key(const struct route *r)
{
    switch ((int)r->method) {
    case HTTP_POST:
        return "post";
    case HTTP_PUT:
        return "put";
    case HTTP_PATCH:
        return "patch";
    case HTTP_DELETE:
        return "delete";
    default:
        return "get";
    }
}

static void put_route(struct json *j, const struct route *r)
{
    open_key(j, method_key(r));
    show_str(j, "operationId", r->name);
    show_str(j, "summary", r->summary);
    put_parameters(j, r);
    put_body(j, r);
    put_answers(j, r);
    if (r->flags & ROUTE_PUBLIC) {
        json_key(j, "security");
        json_open_array(j);
        json_close_array(j);
    }
    json_close_object(j);
}

// -- the whole

enum { ROUTES_MAX = 512 };

struct all { // routes of a family, table by table
    const struct route *at[ROUTES_MAX];
    size_t n;
};

static struct all gather(const struct family *family)
{
    struct all all = {.n = 0};
    for (const struct route_table *t = family->tables; t->routes != NULL; t++) {
        for (size_t i = 0; i < *t->n && all.n < ROUTES_MAX; i++)
            all.at[all.n++] = &t->routes[i];
    }
    return all;
}

static bool is_first(const struct all *all, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (strcmp(all->at[k]->pattern, all->at[i]->pattern) == 0)
            return false;
    }
    return true;
}

// "{path*}" is a router's word; here it is a parameter like any other.
static void open_path(struct json *j, const char *pattern)
{
    char path[128];
    size_t n = 0;
    for (const char *p = pattern; *p != '\0' && n + 1 < sizeof path; p++) {
        if (*p != '*')
            path[n++] = *p;
    }
    path[n] = '\0';
    open_key(j, path);
}

static void put_paths(struct json *j, const struct all *all)
{
    open_key(j, "paths");
    for (size_t i = 0; i < all->n; i++) {
        if (!is_first(all, i))
            continue;
        open_path(j, all->at[i]->pattern);
        for (size_t k = i; k < all->n; k++) {
            if (strcmp(all->at[k]->pattern, all->at[i]->pattern) == 0)
                put_route(j, all->at[k]);
        }
        json_close_object(j);
    }
    json_close_object(j);
}

static void put_error_schema(struct json *j)
{
    json_open_object(j);
    show_str(j, "type", "object");
    open_key(j, "properties");
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"error", "request_id", "error_code"};
        open_key(j, names[i]);
        show_str(j, "type", "string");
        if (i == 2) {
            json_key(j, "enum");
            json_open_array(j);
            for (int kind = 0; kind < ERROR_KIND_MAX; kind++)
                json_put_str(j, error_name((enum error_kind)kind));
            json_close_array(j);
        }
        json_close_object(j);
    }
    open_key(j, "details");
    show_str(j, "type", "object");
    json_close_object(j);
    json_close_object(j);
    json_close_object(j);
}

static bool is_first_body(const struct all *all, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (all->at[k]->body == all->at[i]->body)
            return false;
    }
    return all->at[i]->body != NULL;
}

static void put_components(struct json *j, const struct openapi *what, const struct all *all)
{
    open_key(j, "components");
    open_key(j, "schemas");
    json_key(j, "Error");
    what->put_error(j);
    for (size_t i = 0; i < all->n; i++) {
        if (is_first_body(all, i)) {
            json_key(j, all->at[i]->body->name);
            body_write_schema(j, all->at[i]->body);
        }
    }
    for (size_t i = 0; what->shapes[i] != NULL; i++)
        put_shape(j, what->shapes[i]);
    json_close_object(j);
    open_key(j, "responses");
    open_key(j, "Error");
    show_str(j, "description", "What went wrong and what to do");
    open_key(j, "content");
    open_key(j, "application/json");
    json_key(j, "schema");
    put_ref(j, "Error");
    json_close_object(j);
    json_close_object(j);
    json_close_object(j);
    json_close_object(j);
    open_key(j, "securitySchemes");
    open_key(j, "token");
    show_str(j, "type", "http");
    show_str(j, "scheme", "bearer");
    json_close_object(j);
    json_close_object(j);
    json_close_object(j);
}

void openapi_write(struct buf *ret, const struct openapi *what)
{
    struct json j;
    const struct all all = gather(what->family);
    buf_init(ret, OPENAPI_MAX);
    json_init(&j, ret);
    json_open_object(&j);
    show_str(&j, "openapi", "3.1.0");
    open_key(&j, "info");
    show_str(&j, "title", what->title);
    show_str(&j, "version", CAY_VERSION);
    show_str(&j, "description", what->description);
    json_close_object(&j);
    json_key(&j, "security");
    json_open_array(&j);
    json_open_object(&j);
    json_key(&j, "token");
    json_open_array(&j);
    json_close_array(&j);
    json_close_object(&j);
    json_close_array(&j);
    put_paths(&j, &all);
    put_components(&j, what, &all);
    json_close_object(&j);
    (void)buf_append_char(ret, '\n');
}

void openapi_native(struct buf *ret)
{
    openapi_write(
        ret, &(struct openapi){
                 .title = "Cay",
                 .description = "Isolated Linux sandboxes over HTTP. docs/API.md has the rest.",
                 .family = &family_native,
                 .shapes = shapes,
                 .put_error = put_error_schema,
             });
}
