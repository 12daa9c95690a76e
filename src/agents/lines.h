// SPDX-License-Identifier: Apache-2.0
// Lines out of a text that comes in pieces, with their numbers, as the tool Read shows them. No
// state beside it, any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    LINES_COUNT = 2000,       // shown if nothing was said
    LINES_WIDTH_MAX = 2000,   // bytes of one line; more are left out
    LINES_OUTPUT_MAX = 26000, // no line is begun behind so many bytes
};

struct lines {
    struct buf *out;
    uint64_t first, count; // from 1
    uint64_t line;         // the one being read, from 1
    size_t column;         // bytes of it so far
    bool is_binary;        // there is a NUL: nothing more is read
    bool stopped;          // what was asked for is complete, or too much; `line` is the next
};

void lines_init(struct lines *lines, struct buf *out, uint64_t first, uint64_t count);
// Whether it wants more.
bool lines_feed(struct lines *lines, const char *data, size_t len);
uint64_t lines_seen(const struct lines *lines); // how many there were, up to here
