// SPDX-License-Identifier: Apache-2.0
// What is synced, as it is remembered in a row: {"include": [], "exclude": [], "gitignore": true}.
#pragma once

#include "base/json-in.h"
#include "saved/sync.h"

enum {
    SYNC_PATTERNS_MAX = 256,
    SYNC_PATTERN_MAX = 1024, // bytes
};

// The caller frees the text. ERR_INVALID: too many, or too long.
int sync_options_write(const struct sync_options *options, char **ret, struct err *err);
// The arguments of cay-pack, in an array to be freed whose texts are the document's, and the one
// that is lent: how many bytes the files may have in all.
int sync_options_args(const char *text, const char *max_bytes, struct json_doc **ret_doc,
                      const char ***ret_args, struct err *err);
