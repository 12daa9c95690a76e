// SPDX-License-Identifier: Apache-2.0
// Time that only moves forward, for durations and deadlines. Any thread.
#pragma once

#include <stdint.h>

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

// Nanoseconds since some moment at or before boot; suspended time does not count.
int64_t clock_ns(void);
