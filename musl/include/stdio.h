// SPDX-License-Identifier: Apache-2.0
#pragma once

#include_next <stdio.h>

#include <sys/syscall.h>

#ifndef RENAME_NOREPLACE
#    define RENAME_NOREPLACE (1 << 0)
#    define RENAME_EXCHANGE  (1 << 1)
#endif

long syscall(long, ...);

static inline int renameat2(int from, const char *from_path, int to, const char *to_path,
                            unsigned flags)
{
    return (int)syscall(SYS_renameat2, from, from_path, to, to_path, flags);
}
