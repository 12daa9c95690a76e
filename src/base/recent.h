// SPDX-License-Identifier: Apache-2.0
// How long something took in the last minutes: a histogram for each minute, of which the oldest is
// dropped as a new one begins. Durations are sorted into buckets that lie evenly on a logarithmic
// scale, 16 for each doubling, so a percentile is right to about 3 percent whatever its size. Holds
// no pointers: one of zeros is empty. One thread at a time.
#pragma once

#include <stdint.h>

enum {
    RECENT_MINUTES = 5,
    RECENT_BUCKETS = 544, // microseconds up to 2^36, which is 19 hours
};

struct recent {
    struct {
        int64_t minute; // since the clock's beginning
        uint32_t bucket[RECENT_BUCKETS];
    } minutes[RECENT_MINUTES];
};

struct recent_reading {
    uint64_t count;
    double p50_ms, p90_ms, p99_ms; // 0 when nothing was counted
};

// `now_ns` is clock_ns().
void recent_add(struct recent *recent, int64_t now_ns, int64_t took_ns);
void recent_read(const struct recent *recent, int64_t now_ns, struct recent_reading *ret);
