// SPDX-License-Identifier: Apache-2.0
#include "api/rate.h"
#include "base/clock.h"
#include "check.h"

enum { LIMIT = 60 };

CHECK_CASE(test_a_minutes_worth_at_once)
{
    struct rate rate = {0};
    struct rate_state left;
    for (int i = 0; i < LIMIT; i++) {
        assert_true(rate_take(&rate, LIMIT, NS_PER_S, &left));
        assert_int_equal(left.remaining, LIMIT - 1 - i);
        assert_int_equal(left.limit, LIMIT);
    }
    assert_int_equal(left.reset_s, 60);
    assert_false(rate_take(&rate, LIMIT, NS_PER_S, &left));
    assert_int_equal(left.remaining, 0);
    assert_int_equal(left.retry_s, 1);
}

CHECK_CASE(test_fills_evenly)
{
    struct rate rate = {0};
    struct rate_state left;
    int64_t now = NS_PER_S;
    for (int i = 0; i < LIMIT; i++)
        assert_true(rate_take(&rate, LIMIT, now, &left));
    assert_false(rate_take(&rate, LIMIT, now + NS_PER_S / 2, &left));
    assert_true(rate_take(&rate, LIMIT, now + NS_PER_S, &left));
    assert_false(rate_take(&rate, LIMIT, now + NS_PER_S, &left));
    now += 1000 * NS_PER_S; // no more than a minute's worth is saved up
    for (int i = 0; i < LIMIT; i++)
        assert_true(rate_take(&rate, LIMIT, now, &left));
    assert_false(rate_take(&rate, LIMIT, now, &left));
}

CHECK_CASE(test_one_a_minute)
{
    struct rate rate = {0};
    struct rate_state left;
    assert_true(rate_take(&rate, 1, 0, &left));
    assert_false(rate_take(&rate, 1, NS_PER_S, &left));
    assert_int_equal(left.retry_s, 59);
    assert_false(rate_take(&rate, 1, 59 * NS_PER_S, &left));
    assert_true(rate_take(&rate, 1, 60 * NS_PER_S, &left));
}

CHECK_CASE(test_a_clock_that_stands)
{
    struct rate rate = {.used = 5, .at_ns = 100};
    struct rate_state left;
    assert_true(rate_take(&rate, LIMIT, 50, &left));
    assert_int_equal(left.remaining, LIMIT - 6);
}

CHECK_MAIN(cmocka_unit_test(test_a_minutes_worth_at_once), cmocka_unit_test(test_fills_evenly),
           cmocka_unit_test(test_one_a_minute), cmocka_unit_test(test_a_clock_that_stands))
