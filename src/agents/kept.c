// SPDX-License-Identifier: Apache-2.0
#include "agents/kept.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void kept_init(struct kept *kept, size_t max)
{
    *kept = (struct kept){.half = max / 2};
    buf_init(&kept->head, kept->half);
}

void kept_done(struct kept *kept)
{
    buf_done(&kept->head);
    free(kept->tail);
    kept->tail = NULL;
}

// The ring is written as if it went on forever: byte n of what came lies at n modulo its size.
static void add_tail(struct kept *kept, const char *text, size_t len)
{
    if (kept->tail == NULL && (kept->tail = malloc(kept->half)) == NULL)
        abort();
    if (len > kept->half) {
        kept->total += len - kept->half;
        text += len - kept->half;
        len = kept->half;
    }
    while (len > 0) {
        size_t at = (size_t)(kept->total % kept->half), n = kept->half - at;
        n = n < len ? n : len;
        memcpy(kept->tail + at, text, n);
        kept->total += n;
        text += n;
        len -= n;
    }
}

void kept_add(struct kept *kept, const char *text, size_t len)
{
    size_t room = kept->half - kept->head.len, n = len < room ? len : room;
    if (n > 0) {
        if (buf_append(&kept->head, text, n) < 0)
            abort();
        kept->total += n;
    }
    if (len > n)
        add_tail(kept, text + n, len - n);
}

bool kept_is_cut(const struct kept *kept)
{
    return kept->total > 2 * kept->half;
}

static char tail_byte(const struct kept *kept, uint64_t n)
{
    return kept->tail[n % kept->half];
}

// Where the tail begins in what came: not inside of a character.
static uint64_t tail_start(const struct kept *kept)
{
    uint64_t start = kept->head.len;
    if (kept_is_cut(kept)) {
        start = kept->total - kept->half;
        for (int i = 0; i < 3 && ((unsigned char)tail_byte(kept, start) & 0xc0) == 0x80; i++)
            start++;
    }
    return start;
}

static size_t head_end(const struct kept *kept)
{
    size_t len = kept->head.len;
    if (!kept_is_cut(kept))
        return len;
    for (int i = 0; i < 3 && len > 0 && ((unsigned char)kept->head.data[len - 1] & 0xc0) == 0x80;
         i++)
        len--;
    return len > 0 && ((unsigned char)kept->head.data[len - 1] & 0xc0) == 0xc0 ? len - 1
                                                                               : kept->head.len;
}

void kept_text(const struct kept *kept, struct buf *ret)
{
    uint64_t start = tail_start(kept);
    size_t head = head_end(kept);
    (void)buf_append(ret, buf_str(&kept->head), head);
    if (start > head)
        (void)buf_printf(ret, "\n... [%" PRIu64 " bytes are left out here] ...\n", start - head);
    while (start < kept->total) {
        size_t at = (size_t)(start % kept->half), n = kept->half - at;
        n = n < kept->total - start ? n : (size_t)(kept->total - start);
        (void)buf_append(ret, kept->tail + at, n);
        start += n;
    }
}
