// SPDX-License-Identifier: Apache-2.0
// The templates of `cay init`, put into the program when it is built (scripts/bundle-templates): a
// row of files, each "PATH LENGTH\n", its bytes and a line's end. Paths are
//
//     templates                    "NAME  what it is" in each line
//     LANGUAGE/sdk/...             the client's library
//     LANGUAGE/common/...          what every template of a language has
//     LANGUAGE/TEMPLATE/...
//
// Lent for ever; any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { TEMPLATE_PATH_MAX = 256 };

struct template_file {
    char path[TEMPLATE_PATH_MAX];
    const char *data;
    size_t len;
};

// The next one behind `at`, which begins as NULL. False at the end.
bool template_next(const char **at, struct template_file *ret);
// The first with this path, or below it if it ends with a slash.
bool template_find(const char *path, struct template_file *ret);
