// SPDX-License-Identifier: Apache-2.0
// A body in HTTP/1.1's chunked coding (RFC 9112, section 7.1), decoded wherever it is cut. Strict:
// no extensions, no trailer, CRLF only, sizes of at most 15 digits. One thread at a time.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum chunk_state {
    CHUNK_SIZE, // digits of a size; waits for the first, another, or CR
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_LAST_CR, // behind the size 0
    CHUNK_LAST_LF,
    CHUNK_DONE,
    CHUNK_BAD,
    CHUNK_STATE_MAX,
};

struct chunk {
    enum chunk_state state;
    unsigned digits; // of the size that is being read
    uint64_t size;   // being read, or what is left of the chunk
    uint64_t total;  // of all chunks whose size is known, whether they have come or not
};

void chunk_init(struct chunk *chunk);
// Takes `len` bytes and leaves the body's bytes among them at the beginning of `data`. Answers how
// many it took: all, but for those behind the end (CHUNK_DONE) or behind the fault (CHUNK_BAD).
size_t chunk_decode(struct chunk *chunk, char *data, size_t len, size_t *ret_len);
// How many bytes must follow yet at the very least: who reads no more than that at a time reads
// nothing behind the end. 0 when it is done or bad.
uint64_t chunk_need(const struct chunk *chunk);
