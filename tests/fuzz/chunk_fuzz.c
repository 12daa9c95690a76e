// SPDX-License-Identifier: Apache-2.0
// Chunked bodies: however the bytes are cut, the same come out, with the same verdict; and who
// reads only what must come in any case never reads behind the end. The first byte says how they
// are cut.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "move/chunk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    struct chunk chunk;
    char *out;
    size_t len;  // of what came out
    size_t used; // of what went in
};

// `step` 0: as much as it needs.
static void feed(struct outcome *o, const char *data, size_t len, size_t step)
{
    char *part = malloc(len + 1);
    *o = (struct outcome){.out = malloc(len + 1)};
    assert(part != NULL && o->out != NULL);
    chunk_init(&o->chunk);
    while (o->used < len && chunk_need(&o->chunk) > 0) {
        uint64_t want = step > 0 ? step : chunk_need(&o->chunk);
        size_t n = want < len - o->used ? (size_t)want : len - o->used;
        size_t got = 0;
        memcpy(part, data + o->used, n);
        size_t took = chunk_decode(&o->chunk, part, n, &got);
        assert(took <= n && got <= took);
        assert(took == n || o->chunk.state == CHUNK_DONE || o->chunk.state == CHUNK_BAD);
        assert(step > 0 || took == n || o->chunk.state == CHUNK_BAD);
        memcpy(o->out + o->len, part, got);
        o->len += got;
        o->used += took;
    }
    free(part);
}

static void compare(const struct outcome *a, const struct outcome *b)
{
    assert(a->chunk.state == b->chunk.state && a->used == b->used && a->len == b->len);
    assert(a->chunk.total == b->chunk.total && memcmp(a->out, b->out, a->len) == 0);
    assert(a->len <= a->chunk.total);
    assert(a->chunk.state != CHUNK_DONE || a->len == a->chunk.total);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole;
    struct outcome cut;
    struct outcome needed;
    if (size < 2)
        return 0;
    const char *text = (const char *)data + 1;
    feed(&whole, text, size - 1, size);
    feed(&cut, text, size - 1, data[0] % 64 + 1);
    feed(&needed, text, size - 1, 0);
    compare(&whole, &cut);
    compare(&whole, &needed);
    free(whole.out);
    free(cut.out);
    free(needed.out);
    return 0;
}
