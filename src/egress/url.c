// SPDX-License-Identifier: Apache-2.0
#include "egress/url.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static int bad(struct err *err, const char *why)
{
    return err_set(err, ERR_INVALID, "%s; it is https://HOST, with :PORT and /PATH if need be",
                   why);
}

// In decimal, as everybody writes it: no sign, no spaces, no zeros in front.
static int take_port(const char *text, size_t len, uint16_t *ret)
{
    char port[6] = "";
    uint64_t n;
    struct err ignored;
    if (len == 0 || len >= sizeof port || text[0] == '0')
        return -1;
    memcpy(port, text, len);
    if (strspn(port, "0123456789") != len || parse_u64(port, 1, UINT16_MAX, &n, &ignored) < 0)
        return -1;
    *ret = (uint16_t)n;
    return 0;
}

// host, host:port, [address], [address]:port
static int take_authority(const char *text, size_t len, struct url *ret, struct err *err)
{
    bool is_bracketed = len > 0 && text[0] == '[';
    const char *end = memchr(text, is_bracketed ? ']' : ':', len);
    if (is_bracketed && end == NULL)
        return bad(err, "the address has no ']'");
    const char *host = is_bracketed ? text + 1 : text;
    size_t host_len = end != NULL ? (size_t)(end - host) : len;
    const char *rest = end != NULL ? end + is_bracketed : text + len;
    size_t rest_len = (size_t)(text + len - rest);
    struct sockaddr_storage address;
    if (policy_host(host, host_len, ret->host, err) < 0)
        return -1;
    bool is_v6 = policy_address(ret->host, &address) == 1 && address.ss_family == AF_INET6;
    if (is_v6 != is_bracketed)
        return bad(err, "IPv6 addresses, and these alone, stand in []");
    if (rest_len > 0 && (rest[0] != ':' || take_port(rest + 1, rest_len - 1, &ret->port) < 0))
        return bad(err, "the port is a number from 1 to 65535");
    return 0;
}

int url_parse(const char *text, struct url *ret, struct err *err)
{
    struct url url = {.tls = strncmp(text, "https://", 8) == 0};
    if (!url.tls && strncmp(text, "http://", 7) != 0)
        return bad(err, "it does not begin with https://");
    const char *authority = text + (url.tls ? 8 : 7);
    size_t len = strcspn(authority, "/?#\\");
    const char *at = memrchr(authority, '@', len);
    url.path = authority + len;
    if (strpbrk(url.path, "?#\\") != NULL)
        return bad(err, "it has a query or a fragment");
    if (at != NULL) {
        url.has_user = true;
        len -= (size_t)(at + 1 - authority);
        authority = at + 1;
    }
    url.port = url.tls ? 443 : 80;
    if (take_authority(authority, len, &url, err) < 0)
        return -1;
    *ret = url;
    return 0;
}

int url_origin(const struct url *url, char ret[URL_ORIGIN_MAX])
{
    bool is_v6 = strchr(url->host, ':') != NULL;
    int n = snprintf(ret, URL_ORIGIN_MAX, "http%s://%s%s%s", url->tls ? "s" : "", is_v6 ? "[" : "",
                     url->host, is_v6 ? "]" : "");
    if (url->port != (url->tls ? 443 : 80))
        n += snprintf(ret + n, URL_ORIGIN_MAX - (size_t)n, ":%u", url->port);
    return n;
}
