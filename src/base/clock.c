// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <time.h>

int64_t clock_ns(void)
{
    struct timespec now;
    // Cannot fail: the clock exists and the pointer is good.
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}
