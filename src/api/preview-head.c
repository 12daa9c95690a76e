// SPDX-License-Identifier: Apache-2.0
#include "api/preview-head.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/auth.h"

#define TOKEN_QUERY "cay_token="

static void append(struct buf *ret, struct h1_text text)
{
    (void)buf_append(ret, text.at, text.len);
}

static void append_field(struct buf *ret, struct h1_text name, struct h1_text value)
{
    append(ret, name);
    (void)buf_append_str(ret, ": ");
    append(ret, value);
    (void)buf_append_str(ret, "\r\n");
}

static bool begins(struct h1_text text, const char *with)
{
    size_t len = strlen(with);
    return text.len >= len && strncasecmp(text.at, with, len) == 0;
}

static bool is_one_of(struct h1_text name, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (h1_is(name, *names))
            return true;
    }
    return false;
}

// --- the target

// Takes the next "name=value" off a query.
static struct h1_text next_pair(struct h1_text *query)
{
    const char *amp = memchr(query->at, '&', query->len);
    size_t len = amp != NULL ? (size_t)(amp - query->at) : query->len;
    struct h1_text pair = {query->at, len};
    size_t skip = amp != NULL ? len + 1 : len;
    query->at += skip;
    query->len -= skip;
    return pair;
}

static struct h1_text query_of(const char *target, size_t len)
{
    const char *mark = memchr(target, '?', len);
    if (mark == NULL)
        return (struct h1_text){target + len, 0};
    return (struct h1_text){mark + 1, (size_t)(target + len - mark) - 1};
}

int preview_query_token(const char *target, size_t len, char *ret, size_t size)
{
    struct h1_text query = query_of(target, len);
    int n = 0;
    while (query.len > 0) {
        struct h1_text pair = next_pair(&query);
        size_t skip = sizeof TOKEN_QUERY - 1;
        if (pair.len < skip || memcmp(pair.at, TOKEN_QUERY, skip) != 0)
            continue;
        if (++n > 1 || pair.len - skip >= size)
            return -1;
        (void)snprintf(ret, size, "%.*s", (int)(pair.len - skip), pair.at + skip);
    }
    return n;
}

static void append_query(struct buf *ret, struct h1_text query)
{
    char sign = '?';
    while (query.len > 0) {
        struct h1_text pair = next_pair(&query);
        if (pair.len >= sizeof TOKEN_QUERY - 1 &&
            memcmp(pair.at, TOKEN_QUERY, sizeof TOKEN_QUERY - 1) == 0)
            continue;
        (void)buf_append_char(ret, sign);
        append(ret, pair);
        sign = '&';
    }
}

static int append_target(const struct preview_rules *rules, struct h1_text target, struct buf *ret)
{
    if (target.at[0] != '/')
        return -1;
    if (!rules->by_path) {
        append(ret, target);
        return 0;
    }
    size_t skip = strlen(rules->prefix);
    if (target.len <= skip || memcmp(target.at, rules->prefix, skip) != 0 || target.at[skip] != '/')
        return -1;
    struct h1_text query = query_of(target.at, target.len);
    size_t path = target.len - skip - query.len;
    if (query.at > target.at && query.at[-1] == '?')
        path--;
    append(ret, (struct h1_text){target.at + skip, path});
    append_query(ret, query);
    return 0;
}

// --- requests

// What a proxy says, and nobody else. Many programs see '_' and '-' as the same (CGI and what came
// after it).
static bool is_ours_to_say(struct h1_text name)
{
    static const char *const names[] = {"Forwarded", "X-Real-IP", "Via", "Content-Length", NULL};
    char plain[sizeof "X-Forwarded-"] = "";
    struct h1_text same = {plain, name.len < sizeof plain ? name.len : sizeof plain - 1};
    for (size_t i = 0; i < same.len; i++)
        plain[i] = name.at[i] == '_' ? '-' : name.at[i];
    return begins(same, "X-Forwarded-") || begins(same, "X-Cay-") || is_one_of(name, names) ||
           (same.len == name.len && is_one_of(same, names));
}

// Credentials for the API itself, which has the same host.
static bool is_of_the_api(struct h1_text name)
{
    static const char *const names[] = {"Authorization", "Cookie", "Cookie2", "Referer", NULL};
    return is_one_of(name, names);
}

static bool is_api_bearer(const struct preview_rules *rules, const struct h1_field *f)
{
    char token[256];
    size_t at = sizeof "Bearer" - 1;
    if (!h1_is(f->name, "Authorization") || !begins(f->value, "Bearer") || f->value.len <= at)
        return false;
    while (at < f->value.len && (f->value.at[at] == ' ' || f->value.at[at] == '\t'))
        at++;
    if (f->value.len - at >= sizeof token)
        return false;
    (void)snprintf(token, sizeof token, "%.*s", (int)(f->value.len - at), f->value.at + at);
    bool ours = rules->is_ours != NULL && rules->is_ours(rules->data, token);
    explicit_bzero(token, sizeof token);
    return ours;
}

// Subprotocols of a WebSocket, without the one that is a token.
static void append_protocols(struct buf *ret, const struct h1_field *f)
{
    struct h1_text list = f->value;
    bool first = true;
    while (list.len > 0) {
        const char *comma = memchr(list.at, ',', list.len);
        size_t len = comma != NULL ? (size_t)(comma - list.at) : list.len;
        struct h1_text word = {list.at, len};
        list.at += comma != NULL ? len + 1 : len;
        list.len -= comma != NULL ? len + 1 : len;
        while (word.len > 0 && (*word.at == ' ' || *word.at == '\t')) {
            word.at++;
            word.len--;
        }
        if (begins(word, AUTH_PROTOCOL_BEARER) || word.len == 0)
            continue;
        (void)buf_append_str(ret, first ? "Sec-WebSocket-Protocol: " : ", ");
        append(ret, word);
        first = false;
    }
    if (!first)
        (void)buf_append_str(ret, "\r\n");
}

static void append_request_fields(const struct preview_rules *rules, const struct h1_head *head,
                                  struct buf *ret)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct h1_field *f = &head->fields[i];
        if (is_ours_to_say(f->name) || h1_is_hop_by_hop(head, f->name) ||
            (rules->by_path && is_of_the_api(f->name)) || is_api_bearer(rules, f))
            continue;
        if (h1_is(f->name, "Sec-WebSocket-Protocol"))
            append_protocols(ret, f);
        else
            append_field(ret, f->name, f->value);
    }
}

static void append_forwarded(const struct preview_rules *rules, const struct h1_head *head,
                             struct buf *ret)
{
    const struct h1_field *host = h1_find(head, "Host");
    if (rules->peer[0] != '\0')
        (void)buf_printf(ret, "X-Forwarded-For: %s\r\n", rules->peer);
    (void)buf_printf(ret, "X-Forwarded-Proto: %s\r\n", rules->tls ? "https" : "http");
    if (host != NULL)
        append_field(ret, (struct h1_text){"X-Forwarded-Host", 16}, host->value);
    if (rules->by_path)
        (void)buf_printf(ret, "X-Forwarded-Prefix: %s\r\n", rules->prefix);
}

int preview_write_request(const struct preview_rules *rules, const struct exchange *x,
                          const struct h1_head *head, struct buf *ret)
{
    if (h1_same(head->method, "CONNECT"))
        return -1;
    append(ret, head->method);
    (void)buf_append_char(ret, ' ');
    if (append_target(rules, head->target, ret) < 0)
        return -1;
    (void)buf_append_str(ret, " HTTP/1.1\r\n");
    append_request_fields(rules, head, ret);
    append_forwarded(rules, head, ret);
    exchange_framing(x, head, ret);
    (void)buf_append_str(ret, "\r\n");
    return 0;
}

// --- answers

// What acts on a whole origin, or on more than that; by path it would be the API's.
static bool acts_on_origin(struct h1_text name)
{
    static const char *const names[] = {"Set-Cookie",
                                        "Set-Cookie2",
                                        "Clear-Site-Data",
                                        "Strict-Transport-Security",
                                        "Service-Worker-Allowed",
                                        "Alt-Svc",
                                        "Report-To",
                                        "NEL",
                                        "Public-Key-Pins",
                                        NULL};
    return is_one_of(name, names);
}

static bool is_domain_attribute(struct h1_text part)
{
    while (part.len > 0 && (*part.at == ' ' || *part.at == '\t')) {
        part.at++;
        part.len--;
    }
    if (!begins(part, "Domain"))
        return false;
    size_t at = sizeof "Domain" - 1;
    while (at < part.len && (part.at[at] == ' ' || part.at[at] == '\t'))
        at++;
    return at == part.len || part.at[at] == '=';
}

// Without a Domain a cookie is its host's alone.
static void append_cookie(struct buf *ret, const struct h1_field *f)
{
    struct h1_text rest = f->value;
    bool first = true;
    append(ret, f->name);
    (void)buf_append_str(ret, ": ");
    while (rest.len > 0) {
        const char *semicolon = memchr(rest.at, ';', rest.len);
        size_t len = semicolon != NULL ? (size_t)(semicolon - rest.at) : rest.len;
        struct h1_text part = {rest.at, len};
        rest.at += semicolon != NULL ? len + 1 : len;
        rest.len -= semicolon != NULL ? len + 1 : len;
        if (!first && is_domain_attribute(part))
            continue;
        if (!first)
            (void)buf_append_char(ret, ';');
        append(ret, part);
        first = false;
    }
    (void)buf_append_str(ret, "\r\n");
}

void preview_write_cors(const struct preview_rules *rules, struct buf *ret)
{
    if (rules->origin != NULL)
        (void)buf_printf(ret,
                         "Access-Control-Allow-Origin: %s\r\n"
                         "Access-Control-Expose-Headers: *\r\nVary: Origin\r\n",
                         rules->origin);
}

// Where the API says which page may read it, the program does not.
static bool is_kept_back(const struct preview_rules *rules, struct h1_text name)
{
    return (rules->by_path && acts_on_origin(name)) ||
           (rules->origin != NULL && begins(name, "Access-Control-"));
}

void preview_write_answer(const struct preview_rules *rules, const struct exchange *x,
                          const struct h1_head *head, struct buf *ret)
{
    (void)buf_printf(ret, "HTTP/1.1 %u ", head->status);
    append(ret, head->reason);
    (void)buf_append_str(ret, "\r\n");
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct h1_field *f = &head->fields[i];
        if (h1_is(f->name, "Content-Length") || h1_is_hop_by_hop(head, f->name) ||
            is_kept_back(rules, f->name))
            continue;
        if (h1_is(f->name, "Set-Cookie"))
            append_cookie(ret, f);
        else
            append_field(ret, f->name, f->value);
    }
    if (rules->by_path && head->status >= 200)
        (void)buf_append_str(ret, "Content-Security-Policy: sandbox\r\n"
                                  "X-Content-Type-Options: nosniff\r\n");
    if (head->status >= 200)
        preview_write_cors(rules, ret);
    exchange_framing(x, head, ret);
    (void)buf_append_str(ret, "\r\n");
}
