// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <assert.h>
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

static void put_escape(struct buf *buf, unsigned char c)
{
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    static const char hex[] = "0123456789abcdef";
    char text[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    const char *at = c != '\0' ? strchr(plain, c) : NULL;
    if (at != NULL)
        text[1] = letters[at - plain];
    (void)buf_append(buf, text, at != NULL ? 2 : sizeof text);
}

// Copies in runs: most text needs no escape at all.
static void put_text(struct buf *buf, const char *data, size_t len)
{
    size_t run = 0, i = 0;
    (void)buf_append_char(buf, '"');
    while (i < len) {
        unsigned char c = (unsigned char)data[i];
        size_t step = c < 0x80 ? 1 : utf8_step(data + i, len - i);
        if (step > 0 && c >= 0x20 && c != '"' && c != '\\') {
            i += step;
            continue;
        }
        (void)buf_append(buf, data + run, i - run);
        if (step > 0)
            put_escape(buf, c);
        else
            (void)buf_append_str(buf, "\xef\xbf\xbd"); // U+FFFD
        run = ++i;
    }
    (void)buf_append(buf, data + run, len - run);
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
