// SPDX-License-Identifier: Apache-2.0
#include <stdbool.h>
#include <string.h>

#include "check.h"
#include "model/price.h"

static int64_t cost(const char *id, int64_t in, int64_t out)
{
    const struct model_usage usage = {.input = in, .output = out};
    return model_cost(id, &usage, NULL);
}

CHECK_CASE(test_names)
{
    assert_string_equal(model_resolve("sonnet"), "claude-sonnet-5-5");
    assert_string_equal(model_resolve("opus"), "claude-opus-5-5");
    assert_string_equal(model_resolve("haiku"), "claude-haiku-5-5");
    assert_string_equal(model_resolve("fable"), "claude-fable-5-2");
    assert_string_equal(model_resolve("claude-opus-4-5"), "claude-opus-4-5");
    static const char *const good[] = {"a", "claude-opus-5-5", "claude-opus-4-8[1m]", "us.x/y:0",
                                       "claude-sonnet-4-5@20250929"};
    static const char *const bad[] = {"",    "-a",   ".a",     "a b",  "a\n",
                                      "a\"", "[1m]", "a[1m]b", "a[2m]"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(model_name_valid(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(model_name_valid(bad[i]));
    char name[129];
    memset(name, 'a', sizeof name);
    name[128] = '\0';
    assert_false(model_name_valid(name));
    name[127] = '\0';
    assert_true(model_name_valid(name));
}

CHECK_CASE(test_prices)
{
    // Dollars for a million of each, in nano-dollars.
    static const struct {
        const char *id;
        double in, out, write, write_1h, read;
    } rows[] = {
        {"claude-fable-5-2",  8,  40, 10,   16, 0.20},
        {"claude-mythos-5-2", 8,  40, 10,   16, 0.20},
        {"claude-fable-5-1",  10, 50, 12.5, 20, 0.25},
        {"claude-mythos-5",   10, 50, 12.5, 20, 1.00},
        {"claude-opus-5-5",   4,  20, 5,    8,  0.20},
        {"claude-opus-4-6",   5,  25, 6.25, 10, 0.50},
        {"claude-sonnet-5-5", 2,  10, 2.5,  4,  0.10},
        {"claude-sonnet-5",   2,  10, 2.5,  4,  0.20},
        {"claude-sonnet-4-5", 3,  15, 3.75, 6,  0.30},
        {"claude-haiku-4-5",  1,  5,  1.25, 2,  0.10},
    };
    const int64_t million = 1000000;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct model_usage each[] = {{.input = million},
                                           {.output = million},
                                           {.cache_write = million},
                                           {.cache_write_1h = million},
                                           {.cache_read = million}};
        const double want[] = {rows[i].in, rows[i].out, rows[i].write, rows[i].write_1h,
                               rows[i].read};
        for (unsigned n = 0; n < 5; n++) {
            bool known = false;
            assert_int_equal(model_cost(rows[i].id, &each[n], &known), (int64_t)(want[n] * 1e9));
            assert_true(known);
        }
    }
}

CHECK_CASE(test_long_prompt)
{
    assert_int_equal(cost("claude-haiku-5-5", 100000, 1000), 100000 * 100 + 1000 * 500);
    assert_int_equal(cost("claude-haiku-5-5", 100001, 1000), 100001 * 500 + 1000 * 2500);
    // What was cached is part of the prompt.
    const struct model_usage cached = {.input = 1, .cache_read = 100000};
    assert_int_equal(model_cost("claude-haiku-5-5", &cached, NULL), 500 + 100000 * 50);
}

CHECK_CASE(test_dates_and_strangers)
{
    bool known = false;
    const struct model_usage one = {.input = 1};
    assert_int_equal(model_cost("claude-sonnet-4-5-20250929", &one, &known), 3000);
    assert_true(known);
    assert_int_equal(model_cost("claude-haiku-4-5-20251001", &one, &known), 1000);
    assert_int_equal(model_cost("claude-haiku-4-5@20251001", &one, &known), 1000);
    assert_int_equal(model_cost("claude-opus-4-8[1m]", &one, &known), 5000);
    assert_true(known);
    static const char *const strange[] = {"claude-sonnet-4-5-2025092",
                                          "claude-sonnet-4-5-202509299",
                                          "claude-sonnet-4-5-2025092x",
                                          "claude-haiku-5-55",
                                          "llama",
                                          ""};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        assert_int_equal(model_cost(strange[i], &one, &known), 10000);
        assert_false(known);
    }
    // claude-sonnet-5 is not the beginning of claude-sonnet-5-5.
    assert_int_equal(cost("claude-sonnet-5", 0, 1), 10000);
    const struct model_usage read = {.cache_read = 1};
    assert_int_equal(model_cost("claude-sonnet-5", &read, NULL), 200);
    assert_int_equal(model_cost("claude-sonnet-5-5", &read, NULL), 100);
}

CHECK_CASE(test_searches_and_sums)
{
    const struct model_usage searches = {.searches = 3, .fetches = 5};
    assert_int_equal(model_cost("claude-haiku-5-5", &searches, NULL), 30000000);
    struct model_usage sum = {.input = 1};
    const struct model_usage more = {1, 2, 3, 4, 5, 6, 7};
    model_usage_add(&sum, &more);
    assert_int_equal(model_usage_tokens(&sum), 16);
    assert_int_equal(sum.searches, 6);
    assert_int_equal(sum.fetches, 7);
    assert_int_equal(model_max_output("claude-opus-5-5"), 128000);
    assert_int_equal(model_max_output("claude-haiku-4-5-20251001"), 64000);
}

// Nonsense costs all there is, never nothing, and never gives anything back.
CHECK_CASE(test_nonsense)
{
    const struct model_usage huge = {.input = INT64_MAX, .output = INT64_MAX};
    assert_int_equal(model_cost("claude-opus-5-5", &huge, NULL), INT64_MAX);
    assert_int_equal(model_cost("claude-haiku-5-5", &huge, NULL), INT64_MAX);
    assert_int_equal(model_usage_tokens(&huge), INT64_MAX);
    const struct model_usage negative = {.input = -5, .output = 1, .searches = INT64_MIN};
    assert_int_equal(model_cost("claude-opus-5-5", &negative, NULL), 20000);
    struct model_usage sum = {.input = INT64_MAX};
    model_usage_add(&sum, &huge);
    model_usage_add(&sum, &negative);
    assert_int_equal(sum.input, INT64_MAX);
}

CHECK_MAIN(cmocka_unit_test(test_names), cmocka_unit_test(test_prices),
           cmocka_unit_test(test_long_prompt), cmocka_unit_test(test_dates_and_strangers),
           cmocka_unit_test(test_searches_and_sums), cmocka_unit_test(test_nonsense))
