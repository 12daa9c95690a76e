// SPDX-License-Identifier: Apache-2.0
// What a file's bytes are, for those who read it without saying how: text or not, by the ending of
// its name and, where that says nothing, by its first bytes. No state, any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct content {
    char type[64]; // "text/plain"
    bool is_text;
};

// `data`: the beginning of the file. `is_all`: there is no more of it.
struct content content_of(const char *path, const char *data, size_t len, bool is_all);
