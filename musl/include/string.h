// SPDX-License-Identifier: Apache-2.0
#pragma once

#include_next <string.h>

// musl's texts are constants, and in no language but one.
static inline const char *strerrordesc_np(int sys_errno)
{
    return strerror(sys_errno);
}
