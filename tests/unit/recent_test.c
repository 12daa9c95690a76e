// SPDX-License-Identifier: Apache-2.0
// How long something took in the last minutes.
#include <stdlib.h>

#include "base/clock.h"
#include "base/recent.h"
#include "check.h"

enum { MINUTE_S = 60 };

static int64_t at(int64_t seconds)
{
    return seconds * NS_PER_S;
}

static void near_to(double got, double expected)
{
    if (got < expected * 0.96 || got > expected * 1.04)
        fail_msg("%g is not near %g", got, expected);
}

static void empty_has_nothing(void **state)
{
    static const struct recent r;
    struct recent_reading reading;
    (void)state;
    recent_read(&r, at(12345), &reading);
    assert_int_equal(reading.count, 0);
    assert_true(reading.p50_ms == 0 && reading.p99_ms == 0);
}

// Durations of every size are told to a few percent.
static void one_of_each_size(void **state)
{
    (void)state;
    for (int64_t ns = 20 * NS_PER_US; ns < 10 * 3600 * NS_PER_S; ns = ns * 13 / 10) {
        struct recent r = {0};
        struct recent_reading reading;
        recent_add(&r, at(100), ns);
        recent_read(&r, at(100), &reading);
        assert_int_equal(reading.count, 1);
        near_to(reading.p50_ms, (double)ns / 1e6);
        near_to(reading.p99_ms, (double)ns / 1e6);
    }
}

static void odd_ones_are_counted(void **state)
{
    static const int64_t odd[] = {0, -5, 1, INT64_MAX, INT64_MIN};
    struct recent r = {0};
    struct recent_reading reading;
    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        recent_add(&r, at(0), odd[i]);
    recent_read(&r, at(0), &reading);
    assert_int_equal(reading.count, 5);
    assert_true(reading.p50_ms < 0.001);
}

static void percentiles_split_them(void **state)
{
    struct recent r = {0};
    struct recent_reading reading;
    (void)state;
    for (int i = 1; i <= 1000; i++)
        recent_add(&r, at(1000), i * NS_PER_MS);
    recent_read(&r, at(1000), &reading);
    assert_int_equal(reading.count, 1000);
    near_to(reading.p50_ms, 500);
    near_to(reading.p90_ms, 900);
    near_to(reading.p99_ms, 990);
}

static void old_minutes_go(void **state)
{
    struct recent r = {0};
    struct recent_reading reading;
    (void)state;
    for (int minute = 0; minute < 20; minute++) {
        recent_add(&r, at(minute * MINUTE_S), NS_PER_MS);
        recent_read(&r, at(minute * MINUTE_S), &reading);
        assert_int_equal(reading.count, minute < RECENT_MINUTES ? minute + 1 : RECENT_MINUTES);
    }
    recent_read(&r, at((19 + RECENT_MINUTES - 1) * MINUTE_S), &reading);
    assert_int_equal(reading.count, 1);
    recent_read(&r, at((19 + RECENT_MINUTES) * MINUTE_S), &reading);
    assert_int_equal(reading.count, 0);
    // A place that was used long ago begins anew.
    recent_add(&r, at(1000 * MINUTE_S), NS_PER_S);
    recent_read(&r, at(1000 * MINUTE_S), &reading);
    assert_int_equal(reading.count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_has_nothing),    cmocka_unit_test(one_of_each_size),
        cmocka_unit_test(odd_ones_are_counted), cmocka_unit_test(percentiles_split_them),
        cmocka_unit_test(old_minutes_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
