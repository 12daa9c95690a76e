// SPDX-License-Identifier: Apache-2.0
// A JSON object of which one member is a long string: the string is found and decoded by itself,
// piece by piece, and the rest is small enough for the reader of bodies. Together they refuse what
// that reader would have refused. No state, any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct long_text {
    const char *at; // between the quotes; NULL: there is no such member, or it is no string
    size_t len;
};

// Appends to `rest` all of it with "" in the string's place. 0, -EILSEQ where a string has no end,
// -E2BIG or -ENOMEM: the rest is more than the buffer takes.
int long_json_split(const char *json, size_t len, const char *name, struct long_text *ret,
                    struct buf *rest);

typedef int (*long_json_fn)(void *data, const char *bytes, size_t len); // 0, or what is answered
// The string's bytes, or with `is_base64` what they stand for. 0; -EILSEQ: it is not a string of
// JSON in UTF-8; -EINVAL: it is not base64.
int long_json_decode(const struct long_text *text, bool is_base64, long_json_fn fn, void *data);
