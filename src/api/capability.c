// SPDX-License-Identifier: Apache-2.0
#include "api/capability.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/auth.h"
#include "api/call.h"
#include "api/family.h"

#define BEGIN "/container/"

struct capability {
    struct token token; // first: it is counted and freed as one
    int64_t expires_ms; // 0: never
    char maker[DB_TOKEN_ID];
    char sandbox[EDGE_NAME_MAX + 1];
};

// "" when it cannot be one.
static void read_text(const char *target, char ret[TOKEN_TEXT])
{
    const char *text = target + sizeof BEGIN - 1;
    size_t len = strcspn(text, "/?");
    (void)snprintf(ret, TOKEN_TEXT, "%.*s", len == TOKEN_TEXT - 1 ? (int)len : 0, text);
}

// -- those that were seen

static void forget(struct api *api, struct capability *c)
{
    (void)map_del(&api->urls, c->token.key);
    auth_cut(api, &c->token);
    token_unref(&c->token);
}

// Any that nobody uses now: one that comes again is read from the database again.
static void make_room(struct api *api)
{
    size_t at = 0;
    if (api->urls.n < TOKENS_CACHED)
        return;
    for (struct capability *c; (c = map_next(&api->urls, &at)) != NULL;) {
        if (c->token.refs == 1) {
            forget(api, c);
            return;
        }
    }
}

static bool is_over(const struct capability *c)
{
    return c->expires_ms > 0 && c->expires_ms <= db_now_ms();
}

// 1, or 0 when the sandbox is not there.
static int read_sandbox(struct api *api, struct capability *c, struct err *err)
{
    struct sandbox_row row = {0};
    int r = db_sandbox_by_number(api->db, c->token.sandbox, &row, err);
    if (r == 1) {
        c->token.tenant = row.tenant;
        (void)snprintf(c->sandbox, sizeof c->sandbox, "%s", row.id);
    }
    sandbox_row_done(&row);
    return r;
}

// More addresses are not more requests: they are those of the token that made them. 1, or 0 when
// that is not there: one that was made without a token is nobody's where tokens are asked for.
static int find_payer(struct api *api, struct capability *c, struct err *err)
{
    struct token *payer = strcmp(c->maker, DB_URL_SOCKET) == 0 ? api->local
                          : c->maker[0] == '\0'                ? api->anyone
                                                               : auth_of_id(api, c->maker, err);
    if (payer == NULL)
        return 0;
    payer->refs++;
    c->token.payer = payer;
    return 1;
}

static struct capability *remember(struct api *api, const char *key, const struct url_row *row,
                                   struct err *err)
{
    struct capability *c = calloc(1, sizeof *c);
    if (c == NULL)
        abort();
    memcpy(c->token.key, key, sizeof c->token.key);
    memcpy(c->token.id, row->id, sizeof c->token.id);
    memcpy(c->maker, row->token, sizeof c->maker);
    c->token.refs = 1;
    c->token.sandbox = row->sandbox;
    c->token.limit = row->rate;
    c->expires_ms = row->expires_ms;
    if (read_sandbox(api, c, err) != 1 || find_payer(api, c, err) != 1) {
        token_unref(&c->token);
        return NULL;
    }
    make_room(api);
    map_put(&api->urls, c->token.key, c);
    return c;
}

// NULL with ERR_NONE: there is none, or none any more.
static struct capability *find(struct api *api, const char *target, struct err *err)
{
    char text[TOKEN_TEXT], key[2 * DB_TOKEN_HASH + 1];
    uint8_t hash[DB_TOKEN_HASH];
    struct url_row row = {0};
    *err = (struct err){0};
    read_text(target, text);
    token_hash(text, hash);
    sodium_memzero(text, sizeof text);
    (void)sodium_bin2hex(key, sizeof key, hash, sizeof hash);
    struct capability *c = map_get(&api->urls, key);
    if (c == NULL && db_url_by_hash(api->db, hash, &row, err) == 1)
        c = remember(api, key, &row, err);
    return c != NULL && !is_over(c) ? c : NULL;
}

bool capability_is_known(struct api *api, const char *target, const struct token **ret_token)
{
    struct err err;
    struct capability *c = find(api, target, &err);
    *ret_token = c != NULL ? &c->token : NULL;
    return c != NULL || err.code != ERR_NONE;
}

// -- a request

static int refuse(struct call *call)
{
    return auth_refuse(call, "this address is not known: it may have been revoked, its time may be "
                             "over, or its sandbox is gone. POST /sandbox/{id}/container-url makes "
                             "another");
}

int capability_enter(struct call *call, struct buf *ret_target)
{
    struct err err;
    struct capability *c = find(call->api, http_target(call->req), &err);
    if (c == NULL && err.code != ERR_NONE) {
        call_fail(call, &err);
        return -1;
    }
    if (c == NULL)
        return refuse(call);
    c->token.refs++;
    call->token = &c->token;
    call->tenant = c->token.tenant;
    (void)buf_printf(ret_target, "/sandbox/%s/container", c->sandbox);
    return 0;
}

int capability_check(struct call *call)
{
    if (call->token == NULL || call->token->sandbox == 0)
        return 0;
    if (call->sandbox != NULL && sandbox_row(call->sandbox)->number == call->token->sandbox)
        return 0;
    return refuse(call);
}

// -- the end of some

void capability_revoked(struct api *api, const char *id)
{
    size_t at = 0;
    for (struct capability *c; (c = map_next(&api->urls, &at)) != NULL;) {
        if (strcmp(c->token.id, id) == 0) {
            forget(api, c);
            return;
        }
    }
}

void capabilities_of_token(struct api *api, const char *id)
{
    size_t at = 0;
    for (struct capability *c; (c = map_next(&api->urls, &at)) != NULL;) {
        if (strcmp(c->maker, id) == 0)
            forget(api, c);
    }
}

void capabilities_tick(struct api *api)
{
    size_t at = 0;
    for (struct capability *c; (c = map_next(&api->urls, &at)) != NULL;) {
        if (is_over(c))
            forget(api, c);
    }
}

void capabilities_close(struct api *api)
{
    size_t at = 0;
    for (struct capability *c; (c = map_next(&api->urls, &at)) != NULL;)
        token_unref(&c->token);
    map_done(&api->urls);
}
