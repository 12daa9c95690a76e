// SPDX-License-Identifier: Apache-2.0
#include "base/recent.h"

#include <string.h>

#include "base/clock.h"

enum { STEPS = 16, STEP_BITS = 4 }; // buckets of one doubling

static unsigned bucket_of(int64_t took_ns)
{
    uint64_t us = took_ns > 0 ? (uint64_t)took_ns / (uint64_t)NS_PER_US : 0;
    if (us < STEPS)
        return (unsigned)us;
    unsigned power = 63 - (unsigned)__builtin_clzll(us);
    uint64_t bucket =
        (uint64_t)(power - STEP_BITS + 1) * STEPS + (us >> (power - STEP_BITS)) % STEPS;
    return bucket < RECENT_BUCKETS ? (unsigned)bucket : RECENT_BUCKETS - 1;
}

// The middle of it.
static double bucket_ms(unsigned bucket)
{
    if (bucket < STEPS)
        return (bucket + 0.5) / 1000;
    unsigned shift = bucket / STEPS - 1;
    uint64_t from = (uint64_t)(STEPS + bucket % STEPS) << shift, width = UINT64_C(1) << shift;
    return ((double)from + (double)width / 2) / 1000;
}

void recent_add(struct recent *recent, int64_t now_ns, int64_t took_ns)
{
    int64_t minute = now_ns / (60 * NS_PER_S) + 1; // 0 is one that was never used
    unsigned at = (unsigned)(minute % RECENT_MINUTES);
    if (recent->minutes[at].minute != minute) {
        memset(&recent->minutes[at], 0, sizeof recent->minutes[at]);
        recent->minutes[at].minute = minute;
    }
    recent->minutes[at].bucket[bucket_of(took_ns)]++;
}

static double percentile(const uint64_t *sums, uint64_t count, unsigned percent)
{
    uint64_t rank = (count * percent + 99) / 100, seen = 0;
    for (unsigned i = 0; i < RECENT_BUCKETS; i++) {
        seen += sums[i];
        if (seen >= rank)
            return bucket_ms(i);
    }
    return 0;
}

void recent_read(const struct recent *recent, int64_t now_ns, struct recent_reading *ret)
{
    uint64_t sums[RECENT_BUCKETS] = {0}, count = 0;
    int64_t minute = now_ns / (60 * NS_PER_S) + 1;
    for (unsigned m = 0; m < RECENT_MINUTES; m++) {
        if (recent->minutes[m].minute <= minute - RECENT_MINUTES)
            continue;
        for (unsigned i = 0; i < RECENT_BUCKETS; i++) {
            sums[i] += recent->minutes[m].bucket[i];
            count += recent->minutes[m].bucket[i];
        }
    }
    *ret = (struct recent_reading){.count = count};
    if (count == 0)
        return;
    ret->p50_ms = percentile(sums, count, 50);
    ret->p90_ms = percentile(sums, count, 90);
    ret->p99_ms = percentile(sums, count, 99);
}
