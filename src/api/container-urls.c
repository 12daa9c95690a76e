// SPDX-License-Identifier: Apache-2.0
// Addresses of a sandbox's container family with the permission within (capability.h): making,
// listing, revoking them.
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "api/auth.h"
#include "api/call.h"
#include "api/capability.h"
#include "api/handlers.h"
#include "api/preview.h"
#include "api/schemas.h"
#include "api/show.h"

enum {
    URLS_MAX = 64, // of one sandbox
    HOST_MAX = 255,
};
#define TTL_MAX_MS (INT64_C(366) * 86400 * 1000)

struct url_body {
    struct body_int ttl;
};

static const struct field url_fields[] = {
    FIELD("ttl", FIELD_SECONDS, offsetof(struct url_body, ttl), .min = 1000, .max = TTL_MAX_MS,
          .help = "It ends after so long: seconds, or a text such as \"1h\"; if not given, when it "
                  "is revoked"),
};
const struct schema url_schema = SCHEMA("MakeContainerUrl", struct url_body, url_fields);

// -- making

static bool is_plain_host(const char *host)
{
    size_t len =
        strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]");
    return len > 0 && len <= HOST_MAX && host[len] == '\0';
}

// By the name that the caller has come by, which leads here again.
static void write_url(const struct call *call, const char *capability, struct buf *ret)
{
    const char *host = http_header(call->req, "Host");
    const char *scheme = previews_where(call->api->previews)->tls ? "https" : "http";
    (void)buf_printf(ret, "%s://", scheme);
    if (http_is_local(call->req) || host == NULL || !is_plain_host(host))
        (void)buf_printf(ret, "localhost:%u", call->api->port);
    else
        (void)buf_append_str(ret, host);
    (void)buf_printf(ret, "/container/%s", capability);
}

static int count_url(void *data, const struct url_row *row)
{
    unsigned *n = data;
    (void)row;
    ++*n;
    return 0;
}

static int check_room(struct call *call, struct err *err)
{
    unsigned n = 0;
    if (db_url_expire(call->api->db, db_now_ms(), err) < 0 ||
        db_url_each(call->api->db, sandbox_row(call->sandbox)->number, count_url, &n, err) < 0)
        return -1;
    if (n >= URLS_MAX)
        return err_set(err, ERR_EXHAUSTED, "a sandbox has at most %d of these: revoke one",
                       URLS_MAX);
    return 0;
}

static void show_url(struct json *j, const struct url_row *row, const char *url)
{
    show_str(j, "id", row->id);
    if (url != NULL)
        show_str(j, "url", url);
    show_time(j, "createdAt", row->created_ms);
    if (row->expires_ms > 0)
        show_time(j, "expiresAt", row->expires_ms);
}

static void reply_made(struct call *call, const struct url_row *row, const char *capability)
{
    struct buf buf;
    struct json j;
    auto_buf url;
    buf_init(&url, 512);
    write_url(call, capability, &url);
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_url(&j, row, buf_str(&url));
    json_close_object(&j);
    call_reply_json(call, 201, &j);
    sodium_memzero(url.data, url.len);
}

void handle_url_make(struct call *call)
{
    struct err err = {0};
    char capability[TOKEN_TEXT];
    const struct url_body *b = call->body.values;
    struct url_row row = {
        .sandbox = sandbox_row(call->sandbox)->number,
        .rate = call->token->limit,
        .created_ms = db_now_ms(),
    };
    if (b->ttl.given)
        row.expires_ms = row.created_ms + b->ttl.value;
    if (call->token == call->api->local)
        (void)snprintf(row.token, sizeof row.token, "%s", DB_URL_SOCKET);
    else
        memcpy(row.token, call->token->id, sizeof row.token);
    token_make_id(row.id);
    token_make(capability);
    token_hash(capability, row.hash);
    if (check_room(call, &err) < 0 || db_url_add(call->api->db, &row, &err) < 0)
        call_fail(call, &err);
    else
        reply_made(call, &row, capability);
    sodium_memzero(capability, sizeof capability);
}

// -- those that there are

static int see_url(void *data, const struct url_row *row)
{
    struct call_list *list = data;
    if (row->expires_ms > 0 && row->expires_ms <= db_now_ms())
        return 0;
    json_open_object(&list->json);
    show_url(&list->json, row, NULL);
    json_close_object(&list->json);
    return 0;
}

void handle_url_list(struct call *call)
{
    struct err err = {0};
    struct call_list list;
    call_list_begin(&list, "urls");
    int r = db_url_each(call->api->db, sandbox_row(call->sandbox)->number, see_url, &list, &err);
    call_list_end(call, &list, r, &err);
}

void handle_url_revoke(struct call *call)
{
    struct err err = {0};
    const char *id = call->param[1];
    int r = db_url_del(call->api->db, sandbox_row(call->sandbox)->number, id, &err);
    if (r < 0) {
        call_fail(call, &err);
    } else if (r == 0) {
        call_error(call, ERROR_NOT_FOUND, NULL, "this sandbox has no container URL '%.40s'", id);
    } else {
        capability_revoked(call->api, id);
        call_reply_ok(call);
    }
}
