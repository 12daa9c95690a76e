// SPDX-License-Identifier: Apache-2.0
#include "cli/event-stream.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void event_stream_init(struct event_stream *stream, event_fn fn, void *user)
{
    *stream = (struct event_stream){.fn = fn, .user = user};
    buf_init(&stream->line, EVENT_MAX);
    buf_init(&stream->data, EVENT_MAX);
}

void event_stream_done(struct event_stream *stream)
{
    buf_done(&stream->line);
    buf_done(&stream->data);
}

void event_stream_restart(struct event_stream *stream)
{
    buf_reset(&stream->line);
    buf_reset(&stream->data);
    memcpy(stream->pending, stream->id, sizeof stream->pending);
    stream->name[0] = '\0';
    stream->has_data = stream->after_cr = false;
}

// The empty line: an event without data is none.
static int dispatch(struct event_stream *stream, struct err *err)
{
    int r = 0;
    memcpy(stream->id, stream->pending, sizeof stream->id);
    if (stream->has_data) {
        const struct event event = {
            .id = stream->id,
            .name = stream->name[0] != '\0' ? stream->name : "message",
            .data = buf_str(&stream->data),
            .len = stream->data.len,
        };
        r = stream->fn(stream->user, &event, err);
    }
    buf_reset(&stream->data);
    stream->name[0] = '\0';
    stream->has_data = false;
    return r;
}

static int too_long(struct err *err)
{
    return err_set(err, ERR_INTERNAL, "the server sent an event that is too long");
}

static int copy_value(char *ret, size_t size, const char *value, size_t len, struct err *err)
{
    if (len >= size)
        return too_long(err);
    memcpy(ret, value, len);
    ret[len] = '\0';
    return 0;
}

static int add_data(struct event_stream *stream, const char *value, size_t len, struct err *err)
{
    if (stream->has_data)
        (void)buf_append_char(&stream->data, '\n');
    stream->has_data = true;
    (void)buf_append(&stream->data, value, len);
    return stream->data.failed != 0 ? too_long(err) : 0;
}

static bool is_field(const char *line, size_t len, const char *name)
{
    return strlen(name) == len && memcmp(line, name, len) == 0;
}

static int take_line(struct event_stream *stream, struct err *err)
{
    const char *line = buf_str(&stream->line);
    size_t len = stream->line.len;
    if (len == 0)
        return dispatch(stream, err);
    const char *colon = memchr(line, ':', len);
    size_t name = colon != NULL ? (size_t)(colon - line) : len;
    const char *value = colon != NULL ? colon + 1 : line + len;
    if (value < line + len && *value == ' ')
        value++;
    size_t value_len = (size_t)(line + len - value);
    if (is_field(line, name, "data"))
        return add_data(stream, value, value_len, err);
    if (is_field(line, name, "event"))
        return copy_value(stream->name, sizeof stream->name, value, value_len, err);
    if (is_field(line, name, "id") && memchr(value, '\0', value_len) == NULL)
        return copy_value(stream->pending, sizeof stream->pending, value, value_len, err);
    return 0; // a comment (no name), or what we do not know
}

int event_stream_feed(struct event_stream *stream, const void *bytes, size_t len, struct err *err)
{
    const char *at = bytes, *end = at + len;
    while (at < end) {
        if (stream->after_cr && *at == '\n')
            at++;
        stream->after_cr = false;
        const char *from = at;
        while (at < end && *at != '\n' && *at != '\r')
            at++;
        if (buf_append(&stream->line, from, (size_t)(at - from)) < 0)
            return too_long(err);
        if (at == end)
            return 0;
        stream->after_cr = *at++ == '\r';
        if (take_line(stream, err) != 0)
            return -1;
        buf_reset(&stream->line);
    }
    return 0;
}

// -- base64

static int digit_value(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c == '\0' ? NULL : strchr(digits, c);
    return at == NULL ? -1 : (int)(at - digits);
}

int base64_decode(struct buf *buf, const char *text, size_t len)
{
    if (len % 4 != 0)
        return -EINVAL;
    for (size_t i = 0; i < len; i += 4) {
        unsigned pad = 0;
        uint32_t group = 0;
        if (i + 4 == len)
            pad = (text[i + 3] == '=') + (text[i + 3] == '=' && text[i + 2] == '=');
        for (size_t j = 0; j < 4 - pad; j++) {
            int digit = digit_value(text[i + j]);
            if (digit < 0)
                return -EINVAL;
            group |= (uint32_t)digit << (18 - 6 * j);
        }
        if (pad > 0 && (group & (pad == 1 ? 0xffu : 0xffffu)) != 0)
            return -EINVAL; // bits that are not of any byte
        const char out[] = {(char)(group >> 16), (char)(group >> 8), (char)group};
        int r = buf_append(buf, out, 3 - pad);
        if (r < 0)
            return r;
    }
    return 0;
}
