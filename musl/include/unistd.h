// SPDX-License-Identifier: Apache-2.0
#pragma once

#include_next <unistd.h>

#include <sys/syscall.h>

static inline int close_range(unsigned first, unsigned last, int flags)
{
    return (int)syscall(SYS_close_range, first, last, flags);
}
