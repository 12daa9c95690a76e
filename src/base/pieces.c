// SPDX-License-Identifier: Apache-2.0
#include "base/pieces.h"

#include <string.h>

#include "base/text.h"

// The rest of a character that was begun: how many of the bytes belong to it. One that is no tail
// may begin another, and what was begun is none.
static size_t complete(struct pieces *p, const char *bytes, size_t len, pieces_fn fn, void *data)
{
    size_t taken = 0;
    while (utf8_unfinished(p->begun, p->n_begun) > 0) {
        if (taken == len)
            return taken; // there are no more
        if (((unsigned char)bytes[taken] & 0xc0) != 0x80)
            break;
        p->begun[p->n_begun++] = bytes[taken++];
    }
    pieces_end(p, fn, data);
    return taken;
}

void pieces_take(struct pieces *p, const char *bytes, size_t len, size_t max, pieces_fn fn,
                 void *data)
{
    size_t at = p->n_begun > 0 ? complete(p, bytes, len, fn, data) : 0;
    while (at < len) {
        size_t take = len - at < max ? len - at : max;
        size_t whole = take - utf8_unfinished(bytes + at, take);
        if (whole == 0) { // no more than a beginning
            memcpy(p->begun, bytes + at, take);
            p->n_begun = take;
            return;
        }
        fn(data, bytes + at, whole);
        at += whole;
    }
}

void pieces_end(struct pieces *p, pieces_fn fn, void *data)
{
    char bytes[sizeof p->begun];
    size_t n = p->n_begun;
    memcpy(bytes, p->begun, sizeof bytes);
    p->n_begun = 0;
    if (n > 0)
        fn(data, bytes, n);
}
