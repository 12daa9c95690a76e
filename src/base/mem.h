// SPDX-License-Identifier: Apache-2.0
// Memory owned by a variable.
#pragma once

#include <stdlib.h>

static inline void mem_free_auto(void *p)
{
    free(*(void **)p);
}

#define auto_free __attribute__((cleanup(mem_free_auto)))
