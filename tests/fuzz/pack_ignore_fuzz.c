// SPDX-License-Identifier: Apache-2.0
// Lines of a .gitignore, then a path: any of them ends, and soon.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pack/ignore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\0', size);
    if (end == NULL || size > 4096)
        return 0;
    size_t len = (size_t)(end - data), rest = size - len - 1;
    char *path = malloc(rest + 1);
    struct ignore *ignore = ignore_new();
    memcpy(path, end + 1, rest);
    path[rest] = '\0';
    (void)ignore_add(ignore, "", 0, (const char *)data, len);
    (void)ignore_add(ignore, "sub", 1, (const char *)data, len);
    (void)ignore_check(ignore, path, size % 2 == 0);
    ignore_leave(ignore, 0);
    (void)ignore_match((const char *)data, len, path);
    ignore_free(ignore);
    free(path);
    return 0;
}
