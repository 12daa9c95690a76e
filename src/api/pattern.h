// SPDX-License-Identifier: Apache-2.0
// Extended regular expressions (POSIX, on bytes) that may come from anybody: a pattern's size and
// the time to look for it in a line are bounded, which the C library's are not. Beside POSIX there
// are \d, \w, \s and \t. No back references.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
    PATTERN_TEXT_MAX = 1024, // bytes
    PATTERN_CODE_MAX = 256,  // steps that it may take to write it down
};

struct pattern;

int pattern_new(const char *text, struct pattern **ret, struct err *err);
void pattern_free(struct pattern *pattern); // takes NULL
// Whether it occurs anywhere in the bytes. Takes time in proportion to both lengths.
bool pattern_found(const struct pattern *pattern, const char *data, size_t len);
