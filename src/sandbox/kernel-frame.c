// SPDX-License-Identifier: Apache-2.0
#include "sandbox/kernel-frame.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    READ_SIZE = 64 * 1024,
    KEEP_SIZE = 128 * 1024, // memory kept when nothing is in it
};

void frame_reader_init(struct frame_reader *reader)
{
    *reader = (struct frame_reader){0};
    buf_init(&reader->in, FRAME_FROM_MAX + FRAME_HEADER_MAX + READ_SIZE);
}

void frame_reader_done(struct frame_reader *reader)
{
    buf_done(&reader->in);
    reader->at = 0;
}

void frame_reader_resume(struct frame_reader *reader)
{
    reader->lost = true;
}

size_t frame_reader_size(const struct frame_reader *reader)
{
    return reader->in.cap;
}

int frame_reader_reserve(struct frame_reader *reader, char **ret_at, size_t *ret_room)
{
    if (reader->at == reader->in.len && reader->in.cap > KEEP_SIZE)
        buf_done(&reader->in);
    else if (reader->at > 0)
        buf_consume(&reader->in, reader->at);
    reader->at = 0;
    return buf_reserve(&reader->in, READ_SIZE, ret_at, ret_room);
}

void frame_reader_commit(struct frame_reader *reader, size_t len)
{
    buf_commit(&reader->in, len);
}

// --- a header

struct header {
    size_t type_len, len; // of its type, and of all of it
    uint32_t cell, payload;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Decimal, canonical, followed by `end`. Answers what follows that, or NULL.
static const char *take_number(const char *at, const char *limit, char end, uint32_t *ret)
{
    uint64_t value = 0;
    const char *first = at;
    for (; at < limit && is_digit(*at); at++) {
        value = value * 10 + (uint64_t)(*at - '0');
        if (value > FRAME_NUMBER_MAX)
            return NULL;
    }
    if (at == first || (*first == '0' && at - first > 1) || at == limit || *at != end)
        return NULL;
    *ret = (uint32_t)value;
    return at + 1;
}

// Of the `len` bytes there, whose last one is the first newline.
static int parse_header(const char *bytes, size_t len, struct header *ret)
{
    const char *limit = bytes + len, *at = bytes;
    while (at < limit && *at >= 'a' && *at <= 'z')
        at++;
    ret->type_len = (size_t)(at - bytes);
    if (ret->type_len == 0 || ret->type_len > FRAME_TYPE_MAX || at == limit || *at != ' ')
        return -1;
    at = take_number(at + 1, limit, ' ', &ret->cell);
    if (at == NULL || take_number(at, limit, '\n', &ret->payload) == NULL ||
        ret->payload > FRAME_FROM_MAX)
        return -1;
    ret->len = len;
    return 0;
}

// 1 with a header at the beginning of those bytes, 0 when more is needed, -1.
static int find_header(const char *bytes, size_t len, struct header *ret)
{
    size_t seen = len < FRAME_HEADER_MAX ? len : FRAME_HEADER_MAX;
    const char *newline = seen > 0 ? memchr(bytes, '\n', seen) : NULL;
    if (newline == NULL)
        return len >= FRAME_HEADER_MAX ? -1 : 0;
    return parse_header(bytes, (size_t)(newline - bytes) + 1, ret) < 0 ? -1 : 1;
}

// --- after somebody else has read

static bool is_known(const char *type, size_t len)
{
    static const char *const known[] = {"display", "result", "error", "done", "pong"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strlen(known[i]) == len && memcmp(known[i], type, len) == 0)
            return true;
    }
    return false;
}

// A frame begins here, or behind the brace that ends the payload before it. A payload that looks
// so fools nobody but the kernel that has sent it.
static void look_for_frame(struct frame_reader *reader)
{
    struct header header;
    const char *bytes = reader->in.data;
    for (size_t at = reader->at; at < reader->in.len; at++) {
        if (at > reader->at && bytes[at - 1] != '}')
            continue;
        int r = find_header(bytes + at, reader->in.len - at, &header);
        if (r == 0) { // the rest of a header may come
            reader->at = at;
            return;
        }
        if (r > 0 && is_known(bytes + at, header.type_len)) {
            reader->at = at;
            reader->lost = false;
            return;
        }
    }
    reader->at = reader->in.len;
}

int frame_reader_next(struct frame_reader *reader, struct frame *ret)
{
    struct header header;
    if (reader->lost && reader->in.len > reader->at)
        look_for_frame(reader);
    size_t left = reader->in.len - reader->at;
    if (reader->lost || left == 0)
        return 0;
    char *bytes = reader->in.data + reader->at;
    int r = find_header(bytes, left, &header);
    if (r <= 0 || left - header.len < header.payload)
        return r < 0 ? -1 : 0;
    memcpy(ret->type, bytes, header.type_len);
    ret->type[header.type_len] = '\0';
    ret->cell = header.cell;
    ret->bytes = bytes + header.len;
    ret->len = header.payload;
    reader->at += header.len + header.payload;
    return 1;
}

int frame_put(struct buf *out, const char *type, uint32_t cell, const void *bytes, size_t len)
{
    int r = buf_printf(out, "%s %" PRIu32 " %zu\n", type, cell, len);
    return r < 0 ? r : buf_append(out, bytes, len);
}
