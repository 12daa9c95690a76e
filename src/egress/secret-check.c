// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "egress/secret-internal.h"
#include "egress/url.h"

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
        return err_set(err, ERR_INVALID, "upstream: the path is too long");
    memcpy(ret->upstream_prefix, path, len);
    ret->upstream_prefix[len] = '\0';
    if (!is_plain_path(ret->upstream_prefix))
        return err_set(err, ERR_INVALID,
                       "upstream: the path has to be plain, without . and .. and empty parts");
    return 0;
}

int secret_upstream(const char *text, char canonical[SECRET_UPSTREAM_MAX], struct secret *ret,
                    struct err *err)
{
    struct url url;
    char origin[URL_ORIGIN_MAX];
    if (url_parse(text, &url, err) < 0)
        return err_wrap(err, "upstream");
    if (url.has_user)
        return err_set(err, ERR_INVALID,
                       "upstream: no credentials belong into it: they are the value");
    if (take_prefix(url.path, ret, err) < 0)
        return -1;
    ret->tls = url.tls;
    ret->upstream_port = url.port;
    (void)snprintf(ret->upstream_host, sizeof ret->upstream_host, "%s", url.host);
    (void)url_origin(&url, origin);
    (void)snprintf(canonical, SECRET_UPSTREAM_MAX, "%s%s", origin, ret->upstream_prefix);
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
