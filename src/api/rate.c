// SPDX-License-Identifier: Apache-2.0
#include "api/rate.h"

#include "base/clock.h"

static int64_t round_up(double x)
{
    int64_t n = (int64_t)x;
    return (double)n < x ? n + 1 : n;
}

bool rate_take(struct rate *rate, int64_t limit, int64_t now_ns, struct rate_state *ret)
{
    double a_second = (double)limit / 60.0;
    double passed = (double)(now_ns - rate->at_ns) / (double)NS_PER_S;
    rate->used = passed < 0 ? rate->used : rate->used - passed * a_second;
    if (rate->used < 0)
        rate->used = 0;
    rate->at_ns = now_ns;
    bool ok = rate->used + 1.0 <= (double)limit + 1e-9;
    if (ok)
        rate->used += 1.0;
    double left = (double)limit - rate->used;
    *ret = (struct rate_state){
        .limit = limit,
        .remaining = left > 0 ? (int64_t)(left + 1e-9) : 0,
        .reset_s = round_up(rate->used / a_second),
        .retry_s = ok ? 0 : round_up((1.0 - left) / a_second),
    };
    return ok;
}
