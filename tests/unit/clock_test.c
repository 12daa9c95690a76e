// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include "base/clock.h"
#include "check.h"

CHECK_CASE(never_goes_back)
{
    int64_t last = clock_ns();
    assert_true(last > 0);
    for (int i = 0; i < 100000; i++) {
        int64_t now = clock_ns();
        assert_true(now >= last);
        last = now;
    }
}

CHECK_CASE(counts_nanoseconds)
{
    const struct timespec pause = {.tv_nsec = 20 * NS_PER_MS};
    int64_t before = clock_ns();
    assert_int_equal(nanosleep(&pause, NULL), 0);
    int64_t spent = clock_ns() - before;
    assert_true(spent >= 20 * NS_PER_MS);
    assert_true(spent < 20 * NS_PER_S);
}

CHECK_MAIN(cmocka_unit_test(never_goes_back), cmocka_unit_test(counts_nanoseconds))
