// SPDX-License-Identifier: Apache-2.0
#include "move/chunk.h"

#include <stdbool.h>
#include <string.h>

enum {
    DIGITS_MAX =
        15,       // 60 bits: neither one size nor their sum with others comes near 64 by accident
    LAST_LEN = 5, // "0\r\n\r\n"
    END_LEN = 2,  // CR LF
};
// Of all chunks together. A body of an exabyte is a lie.
#define TOTAL_MAX (UINT64_C(1) << 60)

void chunk_init(struct chunk *chunk)
{
    *chunk = (struct chunk){.state = CHUNK_SIZE};
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static enum chunk_state take_size(struct chunk *chunk, char c)
{
    int value = hex_value(c);
    if (value < 0)
        return c == '\r' && chunk->digits > 0 ? CHUNK_SIZE_LF : CHUNK_BAD;
    if (++chunk->digits > DIGITS_MAX)
        return CHUNK_BAD;
    chunk->size = chunk->size << 4 | (uint64_t)value;
    return CHUNK_SIZE;
}

static enum chunk_state begin_data(struct chunk *chunk)
{
    chunk->digits = 0;
    chunk->total += chunk->size;
    if (chunk->total > TOTAL_MAX)
        return CHUNK_BAD;
    return chunk->size > 0 ? CHUNK_DATA : CHUNK_LAST_CR;
}

// The states in which every byte counts.
static enum chunk_state take_byte(struct chunk *chunk, char c)
{
    switch (chunk->state) {
    case CHUNK_SIZE:
        return take_size(chunk, c);
    case CHUNK_SIZE_LF:
        return c == '\n' ? begin_data(chunk) : CHUNK_BAD;
    case CHUNK_DATA_CR:
        return c == '\r' ? CHUNK_DATA_LF : CHUNK_BAD;
    case CHUNK_DATA_LF:
        return c == '\n' ? CHUNK_SIZE : CHUNK_BAD;
    case CHUNK_LAST_CR:
        return c == '\r' ? CHUNK_LAST_LF : CHUNK_BAD;
    case CHUNK_LAST_LF:
        return c == '\n' ? CHUNK_DONE : CHUNK_BAD;
    case CHUNK_DATA:
    case CHUNK_DONE:
    case CHUNK_BAD:
    case CHUNK_STATE_MAX:
        break;
    }
    return CHUNK_BAD;
}

static bool is_over(const struct chunk *chunk)
{
    return chunk->state == CHUNK_DONE || chunk->state == CHUNK_BAD;
}

size_t chunk_decode(struct chunk *chunk, char *data, size_t len, size_t *ret_len)
{
    size_t at = 0;
    size_t out = 0;
    while (at < len && !is_over(chunk)) {
        if (chunk->state != CHUNK_DATA) {
            chunk->state = take_byte(chunk, data[at++]);
            continue;
        }
        size_t n = chunk->size < len - at ? (size_t)chunk->size : len - at;
        memmove(data + out, data + at, n);
        at += n;
        out += n;
        chunk->size -= n;
        if (chunk->size == 0)
            chunk->state = CHUNK_DATA_CR;
    }
    *ret_len = out;
    return at;
}

uint64_t chunk_need(const struct chunk *chunk)
{
    // A size that has begun can only grow. A chunk, if it is not the last, is followed by the last.
    uint64_t behind_size = chunk->size > 0 ? chunk->size + END_LEN + LAST_LEN : END_LEN;
    switch (chunk->state) {
    case CHUNK_SIZE:
        return chunk->digits == 0 ? LAST_LEN : END_LEN + behind_size;
    case CHUNK_SIZE_LF:
        return 1 + behind_size;
    case CHUNK_DATA:
        return behind_size;
    case CHUNK_DATA_CR:
        return END_LEN + LAST_LEN;
    case CHUNK_DATA_LF:
        return 1 + LAST_LEN;
    case CHUNK_LAST_CR:
        return END_LEN;
    case CHUNK_LAST_LF:
        return 1;
    case CHUNK_DONE:
    case CHUNK_BAD:
    case CHUNK_STATE_MAX:
        break;
    }
    return 0;
}
