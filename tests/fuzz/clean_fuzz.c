// SPDX-License-Identifier: Apache-2.0
// Whatever a model writes: its code is found or not, and what is shown of it while it is written
// does not depend on where it was split.
//
// An input is: one byte for the size of the pieces, then the text.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "agents/clean.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_code(void *data, const char *text, size_t len)
{
    assert(len > 0);
    (void)buf_append(data, text, len);
}

static void on_again(void *data)
{
    buf_reset(data);
}

static void feed(const char *text, size_t len, size_t piece, struct buf *ret)
{
    static const struct clean_stream_ops ops = {.code = on_code, .again = on_again};
    struct clean_stream *s = clean_stream_new(&ops, ret);
    for (size_t at = 0; at < len; at += piece)
        clean_stream_feed(s, text + at, len - at < piece ? len - at : piece);
    clean_stream_end(s);
    clean_stream_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    auto_buf code, once, pieces;
    const char *text = (const char *)data + 1;
    size_t len = size - 1;
    buf_init(&code, 2 * size + 16);
    buf_init(&once, 2 * size + 16);
    buf_init(&pieces, 2 * size + 16);
    (void)clean_code(text, len, data[0] & 1 ? "python" : "javascript", &code);
    assert(code.failed == 0);
    feed(text, len, len, &once);
    feed(text, len, 1u + data[0] / 2u, &pieces);
    assert(once.failed == 0 && once.len == pieces.len);
    assert(once.len == 0 || memcmp(once.data, pieces.data, once.len) == 0);
    return 0;
}
