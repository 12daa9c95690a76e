// SPDX-License-Identifier: Apache-2.0
#include "h1/head.h"

enum { CHUNK_DIGITS_MAX = 8 };

// Where in a chunked body.
enum {
    SIZE_FIRST, // a digit must come
    SIZE,       // digits, or the line's end
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    LAST_CR, // the empty line behind the chunk of size 0
    LAST_LF,
};

void h1_framing_init(struct h1_framing *f, const struct h1_head *head)
{
    *f = (struct h1_framing){.body = head->body, .left = head->length, .state = SIZE_FIRST};
    if (head->body == H1_CHUNKED)
        f->left = 0;
    f->done = head->body == H1_NO_BODY || (head->body == H1_LENGTH && head->length == 0);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool feed_digit(struct h1_framing *f, char c)
{
    int digit = hex_digit(c);
    if (digit < 0 || f->digits == CHUNK_DIGITS_MAX)
        return false;
    f->digits++;
    f->left = f->left * 16 + (uint64_t)digit;
    f->state = SIZE;
    return true;
}

// A byte of the frame around the data. False: it is none that may stand there.
static bool feed_frame(struct h1_framing *f, char c)
{
    switch (f->state) {
    case SIZE_FIRST:
        return feed_digit(f, c);
    case SIZE:
        if (c != '\r')
            return feed_digit(f, c);
        f->state = SIZE_LF;
        return true;
    case SIZE_LF:
        f->digits = 0;
        f->state = f->left > 0 ? DATA : LAST_CR;
        return c == '\n';
    case DATA_CR:
        f->state = DATA_LF;
        return c == '\r';
    case DATA_LF:
        f->state = SIZE_FIRST;
        return c == '\n';
    case LAST_CR:
        f->state = LAST_LF;
        return c == '\r';
    default: // LAST_LF
        f->done = true;
        return c == '\n';
    }
}

static size_t feed_data(struct h1_framing *f, size_t len)
{
    size_t n = f->left < len ? (size_t)f->left : len;
    f->left -= n;
    if (f->left == 0 && f->body == H1_LENGTH)
        f->done = true;
    else if (f->left == 0)
        f->state = DATA_CR;
    return n;
}

bool h1_framing_in_data(const struct h1_framing *f)
{
    return f->body != H1_CHUNKED || f->state == DATA;
}

size_t h1_framing_next(struct h1_framing *f, const char *data, size_t len, bool *ret_is_data)
{
    *ret_is_data = h1_framing_in_data(f);
    if (f->done || f->bad || len == 0)
        return 0;
    if (f->body == H1_TO_END)
        return len;
    if (*ret_is_data)
        return feed_data(f, len);
    size_t n = 0;
    while (n < len && !f->done && !f->bad && f->state != DATA) {
        if (feed_frame(f, data[n]))
            n++;
        else
            f->bad = true;
    }
    if (f->bad)
        f->done = false;
    return n;
}

size_t h1_framing_feed(struct h1_framing *f, const char *data, size_t len)
{
    size_t n = 0;
    bool is_data;
    while (n < len && !f->done && !f->bad)
        n += h1_framing_next(f, data + n, len - n, &is_data);
    return n;
}
