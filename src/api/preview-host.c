// SPDX-License-Identifier: Apache-2.0
#include "api/preview-host.h"

#include <ctype.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LABEL_MAX = 63 };

bool preview_read_port(const char *text, size_t len, uint16_t *ret)
{
    uint32_t port = 0;
    if (len == 0 || len > 5 || text[0] == '0')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    if (port > UINT16_MAX)
        return false;
    *ret = (uint16_t)port;
    return true;
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool preview_token_valid(const char *token)
{
    size_t len = strlen(token);
    if (len < PREVIEW_TOKEN_MIN || len > PREVIEW_TOKEN_MAX)
        return false;
    for (const char *p = token; *p != '\0'; p++) {
        if (!is_plain(*p))
            return false;
    }
    return true;
}

bool preview_token_same(const char *a, const char *b)
{
    char x[PREVIEW_TOKEN_MAX + 1] = "", y[PREVIEW_TOKEN_MAX + 1] = "";
    (void)snprintf(x, sizeof x, "%s", a);
    (void)snprintf(y, sizeof y, "%s", b);
    bool same_length = strlen(a) == strlen(b);
    return sodium_memcmp(x, y, sizeof x) == 0 && same_length;
}

// 36 characters, 5.17 bits each: 82 bits.
void preview_token_make(char ret[PREVIEW_TOKEN_MAX + 1])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    for (size_t i = 0; i < PREVIEW_TOKEN_MAX; i++)
        ret[i] = letters[randombytes_uniform(sizeof letters - 1)];
    ret[PREVIEW_TOKEN_MAX] = '\0';
}

// --- hosts

// "PORT-SLUG-TOKEN", lower case. The slug may have hyphens of its own.
static bool read_label(const char *label, struct preview_name *ret)
{
    const char *first = strchr(label, '-'), *last = strrchr(label, '-');
    if (first == NULL || first == last)
        return false;
    size_t n_slug = (size_t)(last - first) - 1;
    if (n_slug == 0 || n_slug > PREVIEW_SLUG_MAX || !preview_token_valid(last + 1) ||
        !preview_read_port(label, (size_t)(first - label), &ret->port))
        return false;
    for (const char *p = first + 1; p < last; p++) {
        if (!is_plain(*p) && *p != '-')
            return false;
    }
    memcpy(ret->slug, first + 1, n_slug);
    ret->slug[n_slug] = '\0';
    (void)snprintf(ret->token, sizeof ret->token, "%s", last + 1);
    return true;
}

// What stands before ".domain"; 0: nothing does.
static size_t before_domain(const char *host, size_t len, const char *domain)
{
    size_t n = strlen(domain);
    if (len < n + 2 || host[len - n - 1] != '.' || strncasecmp(host + len - n, domain, n) != 0)
        return 0;
    return len - n - 1;
}

static size_t without_port(const char *host)
{
    const char *colon = strrchr(host, ':');
    size_t len = colon != NULL ? (size_t)(colon - host) : strlen(host);
    while (len > 0 && host[len - 1] == '.') // a name may say that it is complete
        len--;
    return len;
}

enum preview_host preview_read_host(const char *host, const char *domain, struct preview_name *ret)
{
    char label[LABEL_MAX + 1];
    size_t len = before_domain(host, without_port(host), domain);
    if (len == 0)
        return PREVIEW_NONE;
    // The part next to the domain decides. Names of people's machines begin with a letter.
    size_t at = len;
    while (at > 0 && host[at - 1] != '.')
        at--;
    if (isalpha((unsigned char)host[at]))
        return PREVIEW_NONE;
    if (at > 0 || len > LABEL_MAX)
        return PREVIEW_BAD;
    for (size_t i = 0; i < len; i++)
        label[i] = (char)tolower((unsigned char)host[i]);
    label[len] = '\0';
    return read_label(label, ret) ? PREVIEW_GOOD : PREVIEW_BAD;
}

// --- URLs

static bool is_domain(const char *text, size_t len)
{
    if (len == 0 || len > PREVIEW_DOMAIN_MAX || text[0] == '.' || text[len - 1] == '.')
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (!isalnum((unsigned char)c) && c != '-' && (c != '.' || text[i - 1] == '.'))
            return false;
    }
    return true;
}

int preview_where_read(struct preview_where *ret, const char *domain, uint16_t port, bool proxied,
                       struct err *err)
{
    const char *colon = strchr(domain, ':');
    size_t len = colon != NULL ? (size_t)(colon - domain) : strlen(domain);
    *ret = (struct preview_where){.tls = proxied};
    if (!is_domain(domain, len) ||
        (colon != NULL && !preview_read_port(colon + 1, strlen(colon + 1), &port)))
        return err_set(err, ERR_INVALID,
                       "preview-domain: '%.80s' is no HOST or HOST:PORT of at most %d characters",
                       domain, PREVIEW_DOMAIN_MAX);
    for (size_t i = 0; i < len; i++)
        ret->domain[i] = (char)tolower((unsigned char)domain[i]);
    bool usual = port == (proxied ? 443 : 80);
    if (colon != NULL ? !usual : !proxied && !usual)
        (void)snprintf(ret->port, sizeof ret->port, ":%u", port);
    return 0;
}

void preview_write_url(const struct preview_where *where, uint16_t port, const char *slug,
                       const char *token, struct buf *ret)
{
    (void)buf_printf(ret, "%s://%u-%s-%s.%s%s/", where->tls ? "https" : "http", port, slug, token,
                     where->domain, where->port);
}
