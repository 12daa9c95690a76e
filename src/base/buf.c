// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_CAP = 64,
};

static int fail(struct buf *buf, int error)
{
    if (buf->failed == 0)
        buf->failed = error;
    return error;
}

void buf_init(struct buf *buf, size_t max)
{
    // One byte is kept for the ending NUL.
    *buf = (struct buf){.max = max < SIZE_MAX ? max : SIZE_MAX - 1};
}

void buf_done(struct buf *buf)
{
    if (buf == NULL)
        return;
    free(buf->data);
    *buf = (struct buf){.max = buf->max};
}

void buf_reset(struct buf *buf)
{
    buf->len = 0;
    buf->failed = 0;
    if (buf->data != NULL)
        buf->data[0] = '\0';
}

// Doubles, so that n appends cost n copies and not n squared; `need` is at most the maximum.
static int grow(struct buf *buf, size_t need)
{
    if (need <= buf->cap && buf->data != NULL)
        return 0;
    size_t cap = buf->cap > FIRST_CAP ? buf->cap : FIRST_CAP;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    if (cap > buf->max)
        cap = buf->max;
    char *data = realloc(buf->data, cap + 1);
    if (data == NULL)
        return fail(buf, -ENOMEM);
    buf->data = data;
    buf->cap = cap;
    buf->data[buf->len] = '\0';
    return 0;
}

int buf_append(struct buf *buf, const void *data, size_t len)
{
    size_t room = buf->max - buf->len;
    size_t take = len < room ? len : room;
    int r = grow(buf, buf->len + take);
    if (r < 0)
        return r;
    if (take > 0) {
        memcpy(buf->data + buf->len, data, take);
        buf->len += take;
        buf->data[buf->len] = '\0';
    }
    return take < len ? fail(buf, -E2BIG) : 0;
}

int buf_append_str(struct buf *buf, const char *text)
{
    return buf_append(buf, text, strlen(text));
}

int buf_append_char(struct buf *buf, char c)
{
    return buf_append(buf, &c, 1);
}

int buf_vprintf(struct buf *buf, const char *fmt, va_list ap)
{
    va_list measure;
    va_copy(measure, ap);
    int n = vsnprintf(NULL, 0, fmt, measure);
    va_end(measure);
    if (n < 0)
        return fail(buf, -EINVAL);
    size_t room = buf->max - buf->len;
    size_t take = (size_t)n < room ? (size_t)n : room;
    int r = grow(buf, buf->len + take);
    if (r < 0)
        return r;
    (void)vsnprintf(buf->data + buf->len, take + 1, fmt, ap);
    buf->len += take;
    return take < (size_t)n ? fail(buf, -E2BIG) : 0;
}

int buf_printf(struct buf *buf, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int r = buf_vprintf(buf, fmt, ap);
    va_end(ap);
    return r;
}

int buf_reserve(struct buf *buf, size_t want, char **ret_at, size_t *ret_room)
{
    size_t left = buf->max - buf->len;
    size_t room = want < left ? want : left;
    int r = grow(buf, buf->len + room);
    if (r < 0)
        return r;
    if (room == 0 && want > 0)
        return fail(buf, -E2BIG);
    *ret_at = buf->data + buf->len;
    *ret_room = room;
    return 0;
}

void buf_commit(struct buf *buf, size_t len)
{
    assert(len <= buf->cap - buf->len);
    buf->len += len;
    if (buf->data != NULL)
        buf->data[buf->len] = '\0';
}

void buf_consume(struct buf *buf, size_t len)
{
    assert(len <= buf->len);
    if (buf->data == NULL)
        return;
    buf->len -= len;
    memmove(buf->data, buf->data + len, buf->len);
    buf->data[buf->len] = '\0';
}

const char *buf_str(const struct buf *buf)
{
    return buf->data != NULL ? buf->data : "";
}
