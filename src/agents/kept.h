// SPDX-License-Identifier: Apache-2.0
// Text of which the beginning and the end are kept, whatever lies between. Never holds more than
// its maximum, beside what kept_text needs to put it together. One thread at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct kept {
    struct buf head;
    char *tail; // a ring; NULL until the head is full
    size_t half;
    uint64_t total; // bytes that came
};

void kept_init(struct kept *kept, size_t max);
void kept_done(struct kept *kept);
void kept_add(struct kept *kept, const char *text, size_t len);
bool kept_is_cut(const struct kept *kept);
// All of it, or both ends with a line between them that says how much is left out. Appends to
// `ret`, which needs room for a line more than the maximum.
void kept_text(const struct kept *kept, struct buf *ret);
