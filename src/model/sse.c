// SPDX-License-Identifier: Apache-2.0
#include "model/sse.h"

#include <string.h>

static const char field_data[] = "data";
static const char byte_order_mark[] = "\xef\xbb\xbf"; // may stand before everything

void sse_init(struct sse *sse, bool (*piece)(void *data, const char *bytes, size_t len),
              bool (*end)(void *data), void *data)
{
    *sse = (struct sse){.piece = piece, .end = end, .data = data, .is_field_data = true};
}

static void begin_line(struct sse *sse)
{
    sse->state = SSE_FIELD;
    sse->field_len = 0;
    sse->is_field_data = true;
}

// The value of a data field begins: between it and one before it is a line end.
static bool begin_data(struct sse *sse)
{
    bool again = sse->has_data;
    sse->has_data = true;
    return !again || sse->piece(sse->data, "\n", 1);
}

static bool end_line(struct sse *sse)
{
    bool is_empty = sse->state == SSE_FIELD && sse->field_len == 0;
    // A field without a colon has an empty value.
    bool is_bare =
        sse->state == SSE_FIELD && sse->is_field_data && sse->field_len == sizeof field_data - 1;
    begin_line(sse);
    if (is_bare)
        return begin_data(sse);
    if (!is_empty || !sse->has_data)
        return true;
    sse->has_data = false;
    return sse->end(sse->data);
}

static bool in_field(struct sse *sse, char c)
{
    bool is_data = sse->is_field_data && sse->field_len == sizeof field_data - 1;
    if (c == ':') {
        sse->state = is_data ? SSE_SPACE : SSE_SKIP;
        return !is_data || begin_data(sse);
    }
    if (sse->field_len >= sizeof field_data - 1 || field_data[sse->field_len] != c)
        sse->is_field_data = false;
    if (sse->field_len < sizeof field_data)
        sse->field_len++;
    return true;
}

static size_t until_line_end(const char *bytes, size_t len)
{
    size_t n = 0;
    while (n < len && bytes[n] != '\n' && bytes[n] != '\r')
        n++;
    return n;
}

// Whether this byte belongs to the mark at the beginning of everything.
static bool is_mark(struct sse *sse, char c)
{
    if (sse->mark_len >= sizeof byte_order_mark - 1)
        return false;
    if (byte_order_mark[sse->mark_len] == c) {
        sse->mark_len++;
        return true;
    }
    sse->mark_len = sizeof byte_order_mark;
    return false;
}

// Takes some bytes, at least one; 0: not to go on.
static size_t step(struct sse *sse, const char *bytes, size_t len)
{
    char c = bytes[0];
    bool after_cr = sse->after_cr;
    sse->after_cr = c == '\r';
    if (is_mark(sse, c) || (c == '\n' && after_cr))
        return 1;
    if (c == '\n' || c == '\r')
        return end_line(sse) ? 1 : 0;
    if (sse->state == SSE_FIELD)
        return in_field(sse, c) ? 1 : 0;
    if (sse->state == SSE_SKIP)
        return until_line_end(bytes, len);
    bool is_space = sse->state == SSE_SPACE && c == ' ';
    sse->state = SSE_DATA;
    if (is_space)
        return 1;
    size_t n = until_line_end(bytes, len);
    return sse->piece(sse->data, bytes, n) ? n : 0;
}

bool sse_feed(struct sse *sse, const char *bytes, size_t len)
{
    while (len > 0) {
        size_t n = step(sse, bytes, len);
        if (n == 0)
            return false;
        bytes += n;
        len -= n;
    }
    return true;
}
