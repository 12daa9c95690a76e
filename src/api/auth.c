// SPDX-License-Identifier: Apache-2.0
#include "api/auth.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/body-token.h"
#include "api/call.h"
#include "api/capability.h"
#include "api/family-path.h"
#include "api/transfer.h"
#include "api/web.h"
#include "base/clock.h"
#include "base/text.h"
#include "edge/limits.h"
#include "edge/ws.h"

enum { OFFERED_MAX = BODY_TOKEN_MAX };

#define ADMIN_NAME "admin" // of the configured token's row: others cannot be called so

// -- tokens

void token_unref(struct token *token)
{
    if (token == NULL || --token->refs > 0)
        return;
    token_unref(token->payer);
    free(token);
}

void token_make(char text[TOKEN_TEXT])
{
    uint8_t secret[TOKEN_BYTES];
    randombytes_buf(secret, sizeof secret);
    memcpy(text, "cay_", 4);
    (void)sodium_bin2base64(text + 4, TOKEN_TEXT - 4, secret, sizeof secret,
                            sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    sodium_memzero(secret, sizeof secret);
}

void token_hash(const char *text, uint8_t hash[DB_TOKEN_HASH])
{
    (void)crypto_generichash(hash, DB_TOKEN_HASH, (const unsigned char *)text, strlen(text), NULL,
                             0);
}

void token_make_id(char id[DB_TOKEN_ID])
{
    uint8_t bytes[(DB_TOKEN_ID - 1) / 2];
    randombytes_buf(bytes, sizeof bytes);
    (void)sodium_bin2hex(id, DB_TOKEN_ID, bytes, sizeof bytes);
}

// -- the cache

// Any that nobody uses now: one that comes again is read from the database again.
static void make_room(struct api *api)
{
    size_t at = 0;
    if (api->tokens.n < TOKENS_CACHED)
        return;
    for (struct token *t; (t = map_next(&api->tokens, &at)) != NULL;) {
        if (t->refs == 1) {
            (void)map_del(&api->tokens, t->key);
            token_unref(t);
            return;
        }
    }
}

static struct token *remember(struct api *api, const char *key, const struct token_row *row)
{
    struct token *t = calloc(1, sizeof *t);
    if (t == NULL)
        abort();
    make_room(api);
    memcpy(t->key, key, sizeof t->key);
    memcpy(t->id, row->id, sizeof t->id);
    t->refs = 1;
    t->tenant = row->tenant;
    t->admin = row->admin;
    t->limit = row->rate >= 0 ? row->rate : api->rate;
    map_put(&api->tokens, t->key, t);
    return t;
}

// NULL with ERR_NONE: there is no such token.
static struct token *find(struct api *api, const char *text, struct err *err)
{
    uint8_t hash[DB_TOKEN_HASH];
    char key[2 * DB_TOKEN_HASH + 1];
    struct token_row row = {0};
    *err = (struct err){0};
    token_hash(text, hash);
    (void)sodium_bin2hex(key, sizeof key, hash, sizeof hash);
    struct token *t = map_get(&api->tokens, key);
    if (t != NULL)
        return t;
    if (db_token_by_hash(api->db, hash, &row, err) == 1)
        t = remember(api, key, &row);
    token_row_done(&row);
    return t;
}

struct token *auth_of_id(struct api *api, const char *id, struct err *err)
{
    size_t at = 0;
    struct token_row row = {0};
    char key[2 * DB_TOKEN_HASH + 1];
    struct token *t;
    while ((t = map_next(&api->tokens, &at)) != NULL && strcmp(t->id, id) != 0)
        ;
    if (t != NULL)
        return t;
    if (db_token_by_id(api->db, id, &row, err) == 1) {
        (void)sodium_bin2hex(key, sizeof key, row.hash, sizeof row.hash);
        t = remember(api, key, &row);
    }
    token_row_done(&row);
    return t;
}

bool auth_knows(struct api *api, const char *text)
{
    struct err err;
    return find(api, text, &err) != NULL || err.code != ERR_NONE; // when in doubt, yes
}

void auth_revoked(struct api *api, const char *id)
{
    size_t at = 0;
    capabilities_of_token(api, id);
    for (struct token *t; (t = map_next(&api->tokens, &at)) != NULL;) {
        if (strcmp(t->id, id) != 0)
            continue;
        (void)map_del(&api->tokens, t->key);
        auth_cut(api, t);
        token_unref(t);
        return;
    }
}

void auth_cut(struct api *api, struct token *token)
{
    token->revoked = true;
    streams_end(api, token);
    transfers_cut(api, token);
}

// -- the admin's token

struct old_admins {
    const uint8_t *hash;
    char id[64][DB_TOKEN_ID]; // older ones: there is one but for crashes
    size_t n;
    char found[DB_TOKEN_ID];
};

static int see_admin(void *data, const struct token_row *row)
{
    struct old_admins *old = data;
    if (strcmp(row->name, ADMIN_NAME) != 0)
        return 0;
    if (memcmp(row->hash, old->hash, DB_TOKEN_HASH) == 0)
        memcpy(old->found, row->id, sizeof old->found);
    else if (old->n < sizeof old->id / sizeof *old->id)
        memcpy(old->id[old->n++], row->id, DB_TOKEN_ID);
    return 0;
}

static int add_admin(struct api *api, const uint8_t *hash, struct err *err)
{
    char name[] = ADMIN_NAME;
    struct token_row row = {
        .tenant = 1, .admin = true, .name = name, .rate = 0, .created_ms = db_now_ms()};
    token_make_id(row.id);
    memcpy(row.hash, hash, DB_TOKEN_HASH);
    memcpy(api->admin_id, row.id, sizeof api->admin_id);
    return db_token_add(api->db, &row, err);
}

static struct token *make_unnamed(bool admin, int64_t limit)
{
    struct token *t = calloc(1, sizeof *t);
    if (t == NULL)
        abort();
    *t = (struct token){.refs = 1, .tenant = 1, .admin = admin, .limit = limit};
    return t;
}

int auth_open(struct api *api, const struct api_config *config, struct err *err)
{
    uint8_t hash[DB_TOKEN_HASH];
    struct old_admins old = {.hash = hash};
    const char *token = config->token;
    api->local = make_unnamed(/*admin=*/true, /*limit=*/0);
    if (config->open)
        api->anyone = make_unnamed(/*admin=*/false, api->rate);
    else if (db_url_forget_nobodys(api->db, err) < 0)
        return -1;
    if (token == NULL || *token == '\0')
        return 0;
    token_hash(token, hash);
    if (db_token_each(api->db, see_admin, &old, err) < 0)
        return -1;
    for (size_t i = 0; i < old.n; i++) {
        if (db_token_revoke(api->db, old.id[i], err) < 0)
            return -1;
    }
    memcpy(api->admin_id, old.found, sizeof api->admin_id);
    return old.found[0] != '\0' ? 0 : add_admin(api, hash, err);
}

void auth_close(struct api *api)
{
    size_t at = 0;
    for (struct token *t; (t = map_next(&api->tokens, &at)) != NULL;)
        token_unref(t);
    map_done(&api->tokens);
    capabilities_close(api);
    token_unref(api->local);
    token_unref(api->anyone);
}

// -- a request

int auth_refuse(struct call *call, const char *why)
{
    http_add_header(call->req, "WWW-Authenticate", "Bearer realm=\"cay\"");
    call_error(call, ERROR_UNAUTHORIZED, NULL, "%s", why);
    return -1;
}

// The token of an Authorization header, or NULL when it is no bearer's.
static const char *bearer(const char *header)
{
    if (strncasecmp(header, "Bearer", 6) != 0 || (header[6] != ' ' && header[6] != '\t'))
        return NULL;
    header += 6;
    header += strspn(header, " \t");
    return *header != '\0' && strcspn(header, " \t,") == strlen(header) ? header : NULL;
}

// The token that a WebSocket offers as a subprotocol, or NULL.
static const char *offered(const struct http_request *req, char ret[static OFFERED_MAX])
{
    size_t len;
    const char *text = ws_is_asked(req) ? ws_offer(req, AUTH_PROTOCOL_BEARER, &len) : NULL;
    if (text == NULL)
        return NULL;
    (void)snprintf(ret, OFFERED_MAX, "%.*s", (int)(len < OFFERED_MAX ? len : 0), text);
    return ret;
}

// Who needs no token: who may use the unix socket, or everybody but pages of the web. NULL: nobody.
static struct token *unnamed(struct api *api, const struct http_request *req)
{
    if (http_is_local(req))
        return api->local;
    bool is_ours = web_is_for_us(req, api->port) && web_is_from_us(req, api->cors);
    return is_ours ? api->anyone : NULL;
}

static int refuse_unnamed(struct call *call)
{
    bool may_be_within = call->route->flags & ROUTE_BODY_TOKEN;
    if (call->api->anyone == NULL && may_be_within && http_is_raw(call->req))
        return auth_refuse(call, "a token is needed before a body of this size is read: send "
                                 "'Authorization: Bearer TOKEN'");
    if (call->api->anyone == NULL && may_be_within)
        return auth_refuse(call, "a token is needed: send 'Authorization: Bearer TOKEN', or "
                                 "'auth_token' in the body");
    if (call->api->anyone == NULL)
        return auth_refuse(call, "a token is needed: send 'Authorization: Bearer TOKEN'");
    call_error(call, ERROR_FORBIDDEN, NULL,
               "this server asks for no token, so that it does nothing for pages of the web: this "
               "request's Origin or Sec-Fetch-Site says that it comes from one ('cay serve --cors' "
               "takes those that may)");
    return -1;
}

static int read_header(struct call *call, const char *header, const char **ret_text)
{
    if (*ret_text != NULL)
        return auth_refuse(call,
                           "there is a token in the Authorization header and one offered as a "
                           "subprotocol: send one");
    if (http_header_twice(call->req, "Authorization"))
        return auth_refuse(call, "there is more than one Authorization header");
    *ret_text = bearer(header);
    return *ret_text != NULL ? 0
                             : auth_refuse(call, "the Authorization header must be 'Bearer TOKEN'");
}

// Where there is no header.
static int read_within(struct call *call, char buffer[static OFFERED_MAX], const char **ret_text)
{
    size_t len;
    if (!(call->route->flags & ROUTE_BODY_TOKEN) || http_is_raw(call->req))
        return 0;
    const char *body = http_body(call->req, &len);
    int r = body_token_find(body, len, buffer);
    if (r < 0)
        return auth_refuse(call, "the body's auth_token cannot be a token");
    if (r > 0)
        *ret_text = buffer;
    return 0;
}

// The token that was sent, or else the one of those who need none.
static struct token *find_sent(struct call *call)
{
    struct err err;
    struct token *t = unnamed(call->api, call->req);
    char buffer[OFFERED_MAX] = "";
    const char *header = http_header(call->req, "Authorization");
    const char *text = offered(call->req, buffer);
    int r = header != NULL ? read_header(call, header, &text)
            : text == NULL ? read_within(call, buffer, &text)
                           : 0;
    if (r < 0)
        return NULL;
    if (text != NULL)
        t = find(call->api, text, &err);
    sodium_memzero(buffer, sizeof buffer);
    if (t != NULL)
        return t;
    if (text == NULL)
        (void)refuse_unnamed(call);
    else if (err.code == ERR_NONE)
        (void)auth_refuse(call, "this token is not known; it may have been revoked");
    else
        call_fail(call, &err);
    return NULL;
}

static int identify(struct call *call)
{
    struct token *t = find_sent(call);
    if (t == NULL)
        return -1;
    t->refs++;
    call->token = t;
    call->tenant = t->tenant;
    call->admin = t->admin;
    return 0;
}

bool auth_peek(struct call *call)
{
    struct err err;
    const char *header = http_header(call->req, "Authorization");
    if (header == NULL || http_header_twice(call->req, "Authorization"))
        return header == NULL && unnamed(call->api, call->req) != NULL;
    const char *text = bearer(header);
    return text != NULL && find(call->api, text, &err) != NULL;
}

// -- strangers: those who may have a token in a body that is not read yet. Few at a time are let
// in, and none with a body that is large or of unknown length: the header is for these.

static void stranger_gone(void *data)
{
    struct api *api = data;
    api->strangers--;
}

static bool admit_stranger(struct api *api, struct http_request *req)
{
    struct err ignored;
    uint64_t len;
    const char *text = http_header(req, "Content-Length");
    if (http_get_method(req) != HTTP_POST || strcmp(http_target(req), AUTH_WITHIN_TARGET) != 0 ||
        text == NULL || parse_u64(text, 0, EDGE_STRANGER_MAX, &len, &ignored) < 0 ||
        api->strangers >= EDGE_STRANGERS_MAX)
        return false;
    api->strangers++;
    http_set_context(req, api, stranger_gone);
    return true;
}

void auth_arrived(struct api *api, struct http_request *req)
{
    if (http_context(req) == NULL)
        return;
    http_set_context(req, NULL, NULL);
    stranger_gone(api);
}

// The addresses that a token has made are its own. Those who need none are one, who is not nobody.
static uint64_t owner_of(const struct token *t)
{
    char head[17];
    if (t == NULL)
        return 0;
    (void)snprintf(head, sizeof head, "%.16s", t->payer != NULL ? t->payer->key : t->key);
    return head[0] != '\0' ? strtoull(head, NULL, 16) : 1;
}

bool api_is_known(void *data, struct http_request *req)
{
    struct err err = {0};
    const struct token *t = NULL;
    bool is_known;
    const char *header = http_header(req, "Authorization");
    const char *text = header != NULL ? bearer(header) : NULL;
    if (path_of_capability(http_target(req)) != NULL) {
        is_known = capability_is_known(data, http_target(req), &t);
    } else if (header != NULL) {
        t = text != NULL ? find(data, text, &err) : NULL;
        is_known = t != NULL || err.code != ERR_NONE;
    } else {
        t = unnamed(data, req);
        is_known = t != NULL || admit_stranger(data, req);
    }
    http_set_owner(req, owner_of(t));
    return is_known;
}

static int check_rate(struct call *call)
{
    struct rate_state state;
    struct token *t = call->token->payer != NULL ? call->token->payer : call->token;
    if (t->limit <= 0)
        return 0;
    bool ok = rate_take(&t->rate, t->limit, call->start_ns, &state);
    call_header_n(call, "X-RateLimit-Limit", state.limit);
    call_header_n(call, "X-RateLimit-Remaining", state.remaining);
    call_header_n(call, "X-RateLimit-Reset", state.reset_s);
    if (ok)
        return 0;
    call_header_n(call, "Retry-After", state.retry_s);
    call_error(call, ERROR_RATE_LIMITED, NULL,
               "this token may make %lld requests a minute; try again in %lld s",
               (long long)state.limit, (long long)state.retry_s);
    return -1;
}

// An admin may act for a tenant, by its name.
static int take_tenant(struct call *call)
{
    struct err err;
    struct tenant_row row = {0};
    const char *name = http_header(call->req, "X-Cay-Tenant");
    if (name == NULL)
        return 0;
    if (!call->admin) {
        call_error(call, ERROR_FORBIDDEN, NULL, "X-Cay-Tenant is for admin tokens");
        return -1;
    }
    if (http_header_twice(call->req, "X-Cay-Tenant")) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "there is more than one X-Cay-Tenant");
        return -1;
    }
    int found = db_tenant_get(call->api->db, name, &row, &err);
    if (found == 1)
        call->tenant = row.number;
    else if (found == 0)
        call_error(call, ERROR_NOT_FOUND, NULL, "there is no tenant '%.128s'", name);
    else
        call_fail(call, &err);
    tenant_row_done(&row);
    return found == 1 ? 0 : -1;
}

int auth_check(struct call *call)
{
    if (call->token != NULL) // of its address
        return check_rate(call);
    if (identify(call) < 0 || check_rate(call) < 0)
        return -1;
    if ((call->route->flags & ROUTE_ADMIN) && !call->admin) {
        call_error(call, ERROR_FORBIDDEN, NULL, "this takes an admin token");
        return -1;
    }
    return take_tenant(call);
}
