// SPDX-License-Identifier: Apache-2.0
// Compiled with CAY_WEAKEN, as only cay-weak is.
#include <signal.h>
#include <stdlib.h>

#include "base/weaken.h"
#include "check.h"

// Each case in a process of its own, since the list is read once.
static void nothing(void)
{
    (void)unsetenv("CAY_WEAKEN");
    weaken_init();
    for (int i = 0; i < WEAKEN_MAX; i++)
        if (weaken((enum weakness)i))
            abort();
}

static void two_of_them(void)
{
    (void)setenv("CAY_WEAKEN", "seccomp,core", 1);
    weaken_init();
    for (int i = 0; i < WEAKEN_MAX; i++)
        if (weaken((enum weakness)i) != (i == WEAKEN_SECCOMP || i == WEAKEN_CORE))
            abort();
}

static void part_of_a_name(void)
{
    (void)setenv("CAY_WEAKEN", "secc", 1);
    weaken_init();
}

static void unknown_after_known(void)
{
    (void)setenv("CAY_WEAKEN", "pid,pidsx", 1);
    weaken_init();
}

static void empty_name(void)
{
    (void)setenv("CAY_WEAKEN", "pid,,pids", 1);
    weaken_init();
}

CHECK_CASE(names_are_understood)
{
    assert_int_equal(check_signal(nothing), 0);
    assert_int_equal(check_signal(two_of_them), 0);
}

CHECK_CASE(unknown_names_abort)
{
    assert_int_equal(check_signal(part_of_a_name), SIGABRT);
    assert_int_equal(check_signal(unknown_after_known), SIGABRT);
    assert_int_equal(check_signal(empty_name), SIGABRT);
}

CHECK_MAIN(cmocka_unit_test(names_are_understood), cmocka_unit_test(unknown_names_abort))
