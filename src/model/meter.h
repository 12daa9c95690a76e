// SPDX-License-Identifier: Apache-2.0
// Reads along with an answer of the Messages API that passes by, streamed or not, and says what was
// used. It believes nothing and needs little memory, however long the answer is: of one that is not
// streamed it looks for "usage" and "model" at the top of the object, and keeps nothing else. No
// loop, any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/price.h"

struct meter;

struct meter *meter_new(unsigned status, const char *content_type); // of the answer's head
void meter_free(struct meter *meter);                               // takes NULL
void meter_feed(struct meter *meter, const void *data, size_t len); // of its body, decoded

struct meter_reading {
    char model[128]; // "" while it is not known
    // What was told. While a stream goes on, `output` is at least what can be guessed from the
    // length of its pieces, so that a budget can be kept before the end is told.
    struct model_usage usage;
    bool is_final; // the message came to its end, or is an error, which uses nothing
};
void meter_read(const struct meter *meter, struct meter_reading *ret);
