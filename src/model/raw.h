// SPDX-License-Identifier: Apache-2.0
// Parts of a JSON text as they were written, so that what is passed on stays what it was: numbers,
// escapes, order. The text must be known to be well formed (json_read); nothing here checks it, but
// nothing here leaves its bounds either. All is lent from the text.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/json-in.h"

enum { RAW_VALUES_MAX = 400 * 1000 };

struct raw {
    const char *at; // NULL: not there
    size_t len;
};

// As json_read, but a text of very many values, whose tree would be many times as long as itself,
// is refused, too: ERR_EXHAUSTED.
size_t raw_count(struct raw text); // values in it, at most
int raw_read(struct raw text, struct json_doc **ret, struct err *err);

// Walks an object: start with the object itself in *rest. Keys come with their quotes.
bool raw_next(struct raw *rest, struct raw *ret_key, struct raw *ret_value);
// The member of that name (the last, if two), without white space around it. `key` has no
// characters that JSON may escape.
struct raw raw_get(struct raw object, const char *key);
bool raw_key_is(struct raw key, const char *name);
bool raw_is(struct raw value, const char *text);
struct raw raw_inside(struct raw value); // without the first and last character: quotes, brackets
