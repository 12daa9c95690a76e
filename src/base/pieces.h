// SPDX-License-Identifier: Apache-2.0
// Text that comes in pieces cut anywhere, told in pieces that never end within a character of
// several bytes: the beginning of one waits for its rest. What is no UTF-8 is told as it is. One
// thread at a time; zeros are an empty one.
#pragma once

#include <stddef.h>

struct pieces {
    char begun[4]; // a character's bytes, not all of them
    size_t n_begun;
};

typedef void (*pieces_fn)(void *data, const char *bytes, size_t len); // never none

// Tells what is whole with these, at most `max` bytes (8 or more) at a time.
void pieces_take(struct pieces *p, const char *bytes, size_t len, size_t max, pieces_fn fn,
                 void *data);
void pieces_end(struct pieces *p, pieces_fn fn, void *data); // what is left, at the end of it all
