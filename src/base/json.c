// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static uint32_t level_bit(const struct json *json)
{
    return UINT32_C(1) << (json->depth - 1);
}

// What stands between the value before and the one that comes.
static void before_item(struct json *json)
{
    if (json->depth == 0)
        return;
    if (json->has_items & level_bit(json))
        (void)buf_append_char(json->buf, ',');
    json->has_items |= level_bit(json);
}

static void before_value(struct json *json)
{
    bool in_object = json->depth > 0 && (json->is_object & level_bit(json));
    assert(in_object == json->after_key);
    json->after_key = false;
    if (!in_object)
        before_item(json);
}

static void open_level(struct json *json, bool is_object)
{
    before_value(json);
    assert(json->depth < JSON_DEPTH_MAX);
    json->depth++;
    json->has_items &= ~level_bit(json);
    if (is_object)
        json->is_object |= level_bit(json);
    else
        json->is_object &= ~level_bit(json);
    (void)buf_append_char(json->buf, is_object ? '{' : '[');
}

static void close_level(struct json *json, bool is_object)
{
    assert(json->depth > 0 && !json->after_key);
    assert(is_object == ((json->is_object & level_bit(json)) != 0));
    json->depth--;
    (void)buf_append_char(json->buf, is_object ? '}' : ']');
}

void json_init(struct json *json, struct buf *buf)
{
    *json = (struct json){.buf = buf};
}

int json_finish(struct json *json)
{
    assert(json->depth == 0 && !json->after_key);
    return json->buf->failed;
}

void json_open_object(struct json *json)
{
    open_level(json, /*is_object=*/true);
}

void json_close_object(struct json *json)
{
    close_level(json, /*is_object=*/true);
}

void json_open_array(struct json *json)
{
    open_level(json, /*is_object=*/false);
}

void json_close_array(struct json *json)
{
    close_level(json, /*is_object=*/false);
}

enum {
    ESCAPED_MAX = 6,   // bytes for one of text
    BLOCK = 16 * 1024, // of text that is written at a time
};

// Writes the escape and answers its length.
static size_t write_escape(char *out, unsigned char c)
{
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    static const char hex[] = "0123456789abcdef";
    char text[ESCAPED_MAX] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    const char *at = c != '\0' ? strchr(plain, c) : NULL;
    size_t len = at != NULL ? 2 : sizeof text;
    if (at != NULL)
        text[1] = letters[at - plain];
    memcpy(out, text, len);
    return len;
}

// Copies what is the same in JSON, eight bytes at a time, and answers how many those are. A byte
// that is not the same sets its highest bit in one of the four terms; the lowest of these is right,
// those above it may owe theirs to a borrow. There is room for eight bytes more.
static size_t copy_plain(char *out, const char *data, size_t len)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones * 0x80;
    size_t i = 0;
    for (uint64_t raw; i + sizeof raw <= len; i += sizeof raw) {
        memcpy(&raw, data + i, sizeof raw);
        uint64_t w = le64toh(raw);
        uint64_t odd =
            (w | (w - ones * 0x20) | ((w ^ ones * '"') - ones) | ((w ^ ones * '\\') - ones)) & tops;
        memcpy(out + i, &raw, sizeof raw);
        if (odd != 0)
            return i + (size_t)__builtin_ctzll(odd) / 8;
    }
    return i;
}

// Writes at least `min` bytes of the text, of which there are `len`; the room is ESCAPED_MAX for
// each, and eight more. Answers how many, and in *ret_out what they became.
static size_t write_block(char *out, const char *data, size_t len, size_t min, size_t *ret_out)
{
    static const char unknown[] = "\xef\xbf\xbd"; // U+FFFD
    size_t i = 0, n = 0;
    while (i < min) {
        size_t same = copy_plain(out + n, data + i, min - i);
        i += same;
        n += same;
        if (i == min)
            break;
        unsigned char c = (unsigned char)data[i];
        size_t step = c < 0x80 ? 1 : utf8_step(data + i, len - i);
        if (step == 0) {
            memcpy(out + n, unknown, 3);
            n += 3;
            i++;
        } else if (c < 0x20 || c == '"' || c == '\\') {
            n += write_escape(out + n, c);
            i++;
        } else {
            memcpy(out + n, data + i, step);
            n += step;
            i += step;
        }
    }
    *ret_out = n;
    return i;
}

static void put_piece(struct buf *buf, const char *data, size_t len)
{
    char last[ESCAPED_MAX * 8];
    for (size_t i = 0, n; i < len && buf->failed == 0;) {
        char *out;
        size_t room, block = len - i < BLOCK ? len - i : BLOCK;
        size_t wanted = ESCAPED_MAX * block + 8;
        if (buf_reserve(buf, wanted, &out, &room) < 0)
            break;
        if (room == wanted) {
            i += write_block(out, data + i, len - i, block, &n);
            buf_commit(buf, n);
        } else { // near its end: what fits
            i += write_block(last, data + i, len - i, 1, &n);
            (void)buf_append(buf, last, n);
        }
    }
}

static void put_text(struct buf *buf, const char *data, size_t len)
{
    (void)buf_append_char(buf, '"');
    put_piece(buf, data, len);
    (void)buf_append_char(buf, '"');
}

void json_key(struct json *json, const char *key)
{
    assert(json->depth > 0 && (json->is_object & level_bit(json)) && !json->after_key);
    before_item(json);
    put_text(json->buf, key, strlen(key));
    (void)buf_append_char(json->buf, ':');
    json->after_key = true;
}

void json_put_strn(struct json *json, const void *data, size_t len)
{
    before_value(json);
    put_text(json->buf, data, len);
}

void json_open_text(struct json *json)
{
    before_value(json);
    (void)buf_append_char(json->buf, '"');
}

void json_more_text(struct json *json, const void *data, size_t len)
{
    put_piece(json->buf, data, len);
}

void json_close_text(struct json *json)
{
    (void)buf_append_char(json->buf, '"');
}

// What is not UTF-8 becomes three bytes.
size_t json_text_size(const char *data, size_t len)
{
    size_t n = len;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        n += c < 0x20 ? 5 : c == '"' || c == '\\' ? 1 : c >= 0x80 ? 2 : 0;
    }
    return n;
}

void json_put_str(struct json *json, const char *text)
{
    if (text == NULL)
        json_put_null(json);
    else
        json_put_strn(json, text, strlen(text));
}

void json_put_int(struct json *json, int64_t value)
{
    before_value(json);
    (void)buf_printf(json->buf, "%" PRId64, value);
}

void json_put_uint(struct json *json, uint64_t value)
{
    before_value(json);
    (void)buf_printf(json->buf, "%" PRIu64, value);
}

void json_put_double(struct json *json, double value)
{
    before_value(json);
    if (!__builtin_isfinite(value)) {
        (void)buf_append_str(json->buf, "null");
        return;
    }
    // Seventeen digits always bring the same number back, but turn 0.1 into 0.10000000000000001.
    char text[40];
    (void)snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value)
        (void)snprintf(text, sizeof text, "%.17g", value);
    (void)buf_append_str(json->buf, text);
}

void json_put_bool(struct json *json, bool value)
{
    before_value(json);
    (void)buf_append_str(json->buf, value ? "true" : "false");
}

void json_put_null(struct json *json)
{
    before_value(json);
    (void)buf_append_str(json->buf, "null");
}

void json_put_base64(struct json *json, const void *data, size_t len)
{
    before_value(json);
    (void)buf_append_char(json->buf, '"');
    (void)base64_append(json->buf, data, len);
    (void)buf_append_char(json->buf, '"');
}

void json_put_raw(struct json *json, const char *text, size_t len)
{
    before_value(json);
    (void)buf_append(json->buf, text, len);
}
