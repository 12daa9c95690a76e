// SPDX-License-Identifier: Apache-2.0
#include "api/conditional.h"

#include <string.h>
#include <strings.h>

// -- ranges

// Digits only. What does not fit is as large as can be: a position behind every end.
static bool read_number(const char **at, uint64_t *ret)
{
    uint64_t n = 0;
    const char *p = *at;
    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        n = n > (UINT64_MAX - digit) / 10 ? UINT64_MAX : n * 10 + digit;
    }
    bool any = p != *at;
    *at = p;
    *ret = n;
    return any;
}

static struct range part(uint64_t from, uint64_t to, uint64_t size)
{
    if (from >= size)
        return (struct range){.kind = RANGE_NONE};
    if (to >= size)
        to = size - 1;
    return (struct range){.kind = RANGE_PART, .from = from, .len = to - from + 1};
}

struct range range_read(const char *header, uint64_t size)
{
    const struct range all = {.kind = RANGE_ALL, .len = size};
    uint64_t from, to;
    if (header == NULL || strncasecmp(header, "bytes=", 6) != 0)
        return all;
    const char *p = header + 6;
    p += strspn(p, " \t");
    bool has_from = read_number(&p, &from);
    if (*p++ != '-')
        return all;
    bool has_to = read_number(&p, &to);
    p += strspn(p, " \t");
    if (*p != '\0' || (!has_from && !has_to) || (has_from && has_to && to < from))
        return all;
    if (!has_from) { // the last `to` bytes
        if (to == 0)
            return (struct range){.kind = RANGE_NONE};
        return part(to < size ? size - to : 0, UINT64_MAX, size);
    }
    return part(from, has_to ? to : UINT64_MAX, size);
}

// -- tags

// The next tag of a list: its text between the quotes, or NULL at the end or where it is no list.
static const char *next_tag(const char **at, size_t *ret_len, bool *ret_weak)
{
    const char *p = *at + strspn(*at, ", \t");
    *ret_weak = strncmp(p, "W/", 2) == 0;
    p += *ret_weak ? 2 : 0;
    if (*p != '"')
        return NULL;
    const char *end = strchr(p + 1, '"');
    if (end == NULL)
        return NULL;
    *ret_len = (size_t)(end - p) - 1;
    *at = end + 1;
    return p + 1;
}

bool etag_listed(const char *header, const char *etag, bool strong)
{
    size_t len;
    bool weak;
    const char *p = header + strspn(header, " \t");
    if (p[0] == '*' && p[1 + strspn(p + 1, " \t")] == '\0')
        return true;
    for (const char *tag; (tag = next_tag(&p, &len, &weak)) != NULL;) {
        if (len == strlen(etag) && memcmp(tag, etag, len) == 0 && !(weak && strong))
            return true;
    }
    return false;
}

int etag_read(const char *header, char *ret, size_t size)
{
    size_t len;
    bool weak;
    const char *p = header;
    const char *tag = next_tag(&p, &len, &weak);
    if (tag == NULL || weak || len >= size || p[strspn(p, " \t")] != '\0')
        return -1;
    memcpy(ret, tag, len);
    ret[len] = '\0';
    return 0;
}

bool etag_in_range(const char *header, const char *etag)
{
    char tag[128];
    if (header == NULL)
        return true;
    return etag_read(header, tag, sizeof tag) == 0 && strcmp(tag, etag) == 0;
}

bool etag_is_plain(const char *etag, size_t size)
{
    size_t n = 0;
    for (; n < size && etag[n] != '\0'; n++) {
        char c = etag[n];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '_';
        if (!plain)
            return false;
    }
    return n > 0 && n < size;
}
