// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "egress/policy.h"
#include "egress/secret-internal.h"

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

bool secret_name_valid(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len < SECRET_NAME_MAX && name[0] >= 'a' && name[0] <= 'z' &&
           name[len - 1] != '-' && strspn(name, LOWER DIGITS "-") == len;
}

// -- upstream

static int bad_upstream(struct err *err, const char *why)
{
    return err_set(err, ERR_INVALID,
                   "upstream: %s; it is https://HOST, with :PORT and /PATH if need be", why);
}

// Segments of plain characters: a path that two programs could read differently is none.
static bool is_plain_path(const char *path)
{
    while (*path == '/') {
        size_t n = strspn(++path, LOWER UPPER DIGITS "-._~!$&'()*+,;=:@");
        if (n == 0 || (n <= 2 && strncmp(path, "..", n) == 0))
            return false;
        path += n;
    }
    return *path == '\0';
}

static int take_prefix(const char *path, struct secret *ret, struct err *err)
{
    size_t len = strlen(path);
    if (len > 0 && path[len - 1] == '/')
        len--;
    if (len >= sizeof ret->upstream_prefix)
        return bad_upstream(err, "the path is too long");
    memcpy(ret->upstream_prefix, path, len);
    ret->upstream_prefix[len] = '\0';
    return is_plain_path(ret->upstream_prefix)
               ? 0
               : bad_upstream(err, "the path has to be plain, without . and .. and empty parts");
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
    if (strspn(port, DIGITS) != len || parse_u64(port, 1, UINT16_MAX, &n, &ignored) < 0)
        return -1;
    *ret = (uint16_t)n;
    return 0;
}

// host, host:port, [address], [address]:port
static int take_authority(const char *text, size_t len, struct secret *ret, struct err *err)
{
    bool is_bracketed = len > 0 && text[0] == '[';
    const char *end = is_bracketed ? memchr(text, ']', len) : memchr(text, ':', len);
    if (is_bracketed && end == NULL)
        return bad_upstream(err, "the address has no ']'");
    const char *host = is_bracketed ? text + 1 : text;
    size_t host_len = end != NULL ? (size_t)(end - host) : len;
    const char *rest = end != NULL ? end + is_bracketed : text + len;
    size_t rest_len = (size_t)(text + len - rest);
    struct sockaddr_storage address;
    if (policy_host(host, host_len, ret->upstream_host, err) < 0)
        return err_wrap(err, "upstream");
    bool is_v6 = policy_address(ret->upstream_host, &address) == 1 && address.ss_family == AF_INET6;
    if (is_v6 != is_bracketed)
        return bad_upstream(err, "IPv6 addresses, and these alone, stand in []");
    if (rest_len > 0 &&
        (rest[0] != ':' || take_port(rest + 1, rest_len - 1, &ret->upstream_port) < 0))
        return bad_upstream(err, "the port is a number from 1 to 65535");
    return 0;
}

int secret_upstream(const char *text, char canonical[SECRET_UPSTREAM_MAX], struct secret *ret,
                    struct err *err)
{
    if (strncmp(text, "https://", 8) != 0 && strncmp(text, "http://", 7) != 0)
        return bad_upstream(err, "it does not begin with https://");
    ret->tls = text[4] == 's';
    const char *authority = text + (ret->tls ? 8 : 7);
    size_t len = strcspn(authority, "/?#\\");
    if (memchr(authority, '@', len) != NULL)
        return bad_upstream(err, "no credentials belong into it: they are the value");
    if (strpbrk(authority, "?#\\") != NULL)
        return bad_upstream(err, "it has a query or a fragment");
    uint16_t usual = ret->tls ? 443 : 80;
    ret->upstream_port = usual;
    if (take_authority(authority, len, ret, err) < 0 || take_prefix(authority + len, ret, err) < 0)
        return -1;
    bool is_v6 = strchr(ret->upstream_host, ':') != NULL;
    int n = snprintf(canonical, SECRET_UPSTREAM_MAX, "%s://%s%s%s", ret->tls ? "https" : "http",
                     is_v6 ? "[" : "", ret->upstream_host, is_v6 ? "]" : "");
    if (ret->upstream_port != usual)
        n += snprintf(canonical + n, SECRET_UPSTREAM_MAX - (size_t)n, ":%u", ret->upstream_port);
    (void)snprintf(canonical + n, SECRET_UPSTREAM_MAX - (size_t)n, "%s", ret->upstream_prefix);
    return 0;
}

// -- header and format

int secret_check_header(const char *header, struct err *err)
{
    // What frames a message, or is between two neighbours, is not a client's to set.
    static const char *const ours[] = {
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Keep-Alive",
        "TE",
        "Trailer",
        "Upgrade",
        "Expect",
        "Proxy-Connection",
        "Proxy-Authorization",
        "Proxy-Authenticate",
    };
    size_t len = strlen(header);
    if (len == 0 || len > SECRET_HEADER_MAX ||
        strspn(header, LOWER UPPER DIGITS "!#$%&'*+-.^_`|~") != len)
        return err_set(err, ERR_INVALID,
                       "header: must be the name of a header, such as \"Authorization\", of at "
                       "most %d characters",
                       SECRET_HEADER_MAX);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (strcasecmp(header, ours[i]) == 0)
            return err_set(err, ERR_INVALID, "header: %s cannot carry a credential", ours[i]);
    }
    return 0;
}

static bool is_printable(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return false;
    }
    return true;
}

int secret_format(const char *format, struct secret_format *ret, struct err *err)
{
    const char *plain = strstr(format, "{}"), *basic = strstr(format, "{basic}");
    const char *at = plain != NULL ? plain : basic;
    size_t len = strlen(format);
    if (len > SECRET_FORMAT_MAX || !is_printable(format, len))
        return err_set(err, ERR_INVALID, "format: at most %d bytes without control characters",
                       SECRET_FORMAT_MAX);
    if (at == NULL || (plain != NULL && basic != NULL))
        return err_set(err, ERR_INVALID,
                       "format: must have {} once, where the value goes (\"Bearer {}\"), or "
                       "{basic}, where its base64 goes (\"Basic {basic}\")");
    *ret = (struct secret_format){
        .head_len = (size_t)(at - format),
        .tail = at + (plain != NULL ? 2 : 7),
        .basic = plain == NULL,
    };
    if (strstr(ret->tail, "{}") != NULL || strstr(ret->tail, "{basic}") != NULL)
        return err_set(err, ERR_INVALID, "format: has more than one place for the value");
    return 0;
}

// -- value

static bool has_space_at_an_end(const char *first, const char *last)
{
    return *first == ' ' || *last == ' ';
}

// Nothing of the value is ever in a message.
int secret_check_value(const struct secret_put *put, const struct secret_format *format,
                       struct err *err)
{
    const char *value = put->value;
    if (put->value_len == 0 || put->value_len > SECRET_VALUE_MAX)
        return err_set(err, ERR_INVALID, "value: must have 1 to %d bytes", SECRET_VALUE_MAX);
    if (!is_printable(value, put->value_len))
        return err_set(err, ERR_INVALID,
                       "value: has a control character, perhaps a line's end behind it");
    const char *text = put->format != NULL ? put->format : "";
    size_t tail_len = strlen(format->tail);
    const char *first = format->head_len > 0 ? text : value;
    const char *last = tail_len > 0 ? format->tail + tail_len - 1 : value + put->value_len - 1;
    if (!format->basic && has_space_at_an_end(first, last))
        return err_set(err, ERR_INVALID,
                       "value: the header would begin or end with a space, which is cut off on "
                       "the way");
    return 0;
}
