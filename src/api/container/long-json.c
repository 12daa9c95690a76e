// SPDX-License-Identifier: Apache-2.0
#include "api/container/long-json.h"

#include <errno.h>
#include <sodium.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"

enum { PIECE = 64 * 1024 };

// -- finding it

// Behind the string that begins at `at`, a quote; NULL when it has no end. Each byte is looked at
// once for a quote and once for a backslash, however many there are.
static const char *skip_string(const char *at, const char *end)
{
    const char *quote = at;
    for (at++; at < end;) {
        if (quote < at)
            quote = memchr(at, '"', (size_t)(end - at));
        if (quote == NULL)
            return NULL;
        const char *slash = memchr(at, '\\', (size_t)(quote - at));
        if (slash == NULL)
            return quote + 1;
        at = slash + 2; // what is behind it is part of the text
    }
    return NULL;
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

static bool is_name(const char *from, const char *behind, const char *name)
{
    size_t len = strlen(name);
    return (size_t)(behind - from) == len + 2 && memcmp(from + 1, name, len) == 0;
}

// The string that is the value of `name`, of which only the first is looked for: a second one stays
// in the rest, where it is refused.
static int find(const char *json, size_t len, const char *name, struct long_text *ret)
{
    const char *at = json, *end = json + len;
    unsigned depth = 0;
    while (at < end && ret->at == NULL) {
        if (*at != '"') {
            depth += *at == '{' || *at == '[';
            depth -= (*at == '}' || *at == ']') && depth > 0;
            at++;
            continue;
        }
        const char *behind = skip_string(at, end);
        if (behind == NULL)
            return -EILSEQ;
        const char *next = skip_space(behind, end);
        bool is_it = depth == 1 && next < end && *next == ':' && is_name(at, behind, name);
        at = behind;
        if (!is_it)
            continue;
        at = skip_space(next + 1, end);
        if (at == end || *at != '"')
            return 0;
        behind = skip_string(at, end);
        if (behind == NULL)
            return -EILSEQ;
        *ret = (struct long_text){.at = at + 1, .len = (size_t)(behind - at) - 2};
    }
    return 0;
}

int long_json_split(const char *json, size_t len, const char *name, struct long_text *ret,
                    struct buf *rest)
{
    struct long_text text = {0};
    int r = find(json, len, name, &text);
    if (r < 0)
        return r;
    size_t before = text.at != NULL ? (size_t)(text.at - json) : len;
    (void)buf_append(rest, json, before);
    (void)buf_append(rest, json + before + text.len, len - before - text.len);
    *ret = text;
    return rest->failed;
}

// -- decoding it

struct sink {
    long_json_fn fn;
    void *data;
    bool is_base64, is_padded;
    size_t len;
    char piece[PIECE]; // text that was not told yet
};

static int flush(struct sink *s)
{
    unsigned char bytes[PIECE];
    size_t n = 0;
    if (!s->is_base64) {
        int r = s->len > 0 ? s->fn(s->data, s->piece, s->len) : 0;
        s->len = 0;
        return r;
    }
    if (s->len == 0)
        return 0;
    // Pieces are of whole groups of four, and only the last may be padded.
    if (s->is_padded || sodium_base642bin(bytes, sizeof bytes, s->piece, s->len, NULL, &n, NULL,
                                          sodium_base64_VARIANT_ORIGINAL) < 0)
        return -EINVAL;
    s->is_padded = s->piece[s->len - 1] == '=';
    s->len = 0;
    return n > 0 ? s->fn(s->data, (const char *)bytes, n) : 0;
}

static int put(struct sink *s, const char *bytes, size_t len)
{
    for (size_t i = 0; s->is_base64 && i < len; i++) {
        if (bytes[i] == '\r' || bytes[i] == '\n')
            continue;
        s->piece[s->len++] = bytes[i];
        int r = s->len == PIECE ? flush(s) : 0;
        if (r < 0)
            return r;
    }
    while (!s->is_base64 && len > 0) {
        size_t n = len < PIECE - s->len ? len : PIECE - s->len;
        memcpy(s->piece + s->len, bytes, n);
        s->len += n;
        bytes += n;
        len -= n;
        int r = s->len == PIECE ? flush(s) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static int put_character(struct sink *s, uint32_t c)
{
    char bytes[4];
    size_t n = 0;
    if (c < 0x80) {
        bytes[n++] = (char)c;
    } else if (c < 0x800) {
        bytes[n++] = (char)(0xc0 | c >> 6);
    } else if (c < 0x10000) {
        bytes[n++] = (char)(0xe0 | c >> 12);
        bytes[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    } else {
        bytes[n++] = (char)(0xf0 | c >> 18);
        bytes[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        bytes[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    }
    if (c >= 0x80)
        bytes[n++] = (char)(0x80 | (c & 0x3f));
    return put(s, bytes, n);
}

// Four digits behind "\u". False: there are none.
static bool read_unit(const char *at, const char *end, uint32_t *ret)
{
    uint8_t bytes[2];
    size_t n;
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u' ||
        sodium_hex2bin(bytes, sizeof bytes, at + 2, 4, NULL, &n, NULL) < 0 || n != 2)
        return false;
    *ret = (uint32_t)bytes[0] << 8 | bytes[1];
    return true;
}

// The escape that begins at `at`, a backslash. How many bytes it has, or a negative errno.
static int put_escape(struct sink *s, const char *at, const char *end)
{
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    uint32_t unit, second;
    const char *name = end - at > 1 ? memchr(names, at[1], sizeof names - 1) : NULL;
    int r, n = 2;
    if (name != NULL) {
        r = put(s, &meanings[name - names], 1);
    } else if (!read_unit(at, end, &unit) || (unit & 0xfc00) == 0xdc00) {
        r = -EILSEQ;
    } else if ((unit & 0xfc00) != 0xd800) {
        n = 6;
        r = put_character(s, unit);
    } else if (!read_unit(at + 6, end, &second) || (second & 0xfc00) != 0xdc00) {
        r = -EILSEQ;
    } else {
        n = 12;
        r = put_character(s, 0x10000 + ((unit & 0x3ff) << 10 | (second & 0x3ff)));
    }
    return r < 0 ? r : n;
}

static bool has_control(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)at[i] < ' ')
            return true;
    }
    return false;
}

int long_json_decode(const struct long_text *text, bool is_base64, long_json_fn fn, void *data)
{
    struct sink s = {.fn = fn, .data = data, .is_base64 = is_base64};
    const char *at = text->at, *end = text->at + text->len;
    while (at < end) {
        const char *slash = memchr(at, '\\', (size_t)(end - at));
        size_t plain = (size_t)((slash != NULL ? slash : end) - at);
        if (has_control(at, plain) || !utf8_valid(at, plain))
            return -EILSEQ;
        int r = put(&s, at, plain);
        at += plain;
        if (r == 0 && at < end) {
            r = put_escape(&s, at, end);
            at += r > 0 ? r : 0;
        }
        if (r < 0)
            return r;
    }
    return flush(&s);
}
