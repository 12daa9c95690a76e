// SPDX-License-Identifier: Apache-2.0
// Memory owned by a variable.
#pragma once

#include <stdlib.h>
#include <string.h>

static inline void mem_free_auto(void *p)
{
    free(*(void **)p);
}

#define auto_free __attribute__((cleanup(mem_free_auto)))

// Of NULL: NULL. Texts are short: without memory for one there is no going on.
static inline char *mem_copy_text(const char *text)
{
    char *copy = text != NULL ? strdup(text) : NULL;
    if (text != NULL && copy == NULL)
        abort();
    return copy;
}
