// SPDX-License-Identifier: Apache-2.0
// How many requests a token may make: a bucket that holds a minute's worth and fills evenly.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct rate { // zeros: a full bucket
    double used;
    int64_t at_ns;
};

struct rate_state {
    int64_t limit;     // a minute
    int64_t remaining; // at once
    int64_t reset_s;   // until all of it is there again
    int64_t retry_s;   // until the next one, when refused
};

// Takes one, or answers false. `limit` is above 0.
bool rate_take(struct rate *rate, int64_t limit, int64_t now_ns, struct rate_state *ret);
