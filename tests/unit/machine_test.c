// SPDX-License-Identifier: Apache-2.0
// What /proc tells of processors and memory.
#include "api/machine.h"
#include "check.h"

static void ticks(void **state)
{
    uint64_t busy = 0, all = 0;
    (void)state;
    assert_int_equal(
        machine_read_ticks("cpu  10 1 5 100 20 2 3 4 9 9\ncpu0 1 1 1 1\n", &busy, &all), 0);
    assert_int_equal(all, 145);
    assert_int_equal(busy, 25);
    // An old kernel has fewer.
    assert_int_equal(machine_read_ticks("cpu 1 2 3 4\n", &busy, &all), 0);
    assert_int_equal(all, 10);
    assert_int_equal(busy, 6);
}

static void no_ticks(void **state)
{
    static const char *const texts[] = {"",     "cpu", "cpu 1 2 3", "cpu0 1 2 3 4", "intr 1 2 3 4",
                                        "cpu x"};
    uint64_t busy = 7, all = 7;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(machine_read_ticks(texts[i], &busy, &all), -1);
    assert_int_equal(busy, 7);
    assert_int_equal(all, 7);
}

static void memory(void **state)
{
    static const char text[] = "MemTotal:       1000 kB\nMemFree: 5 kB\nMemAvailable:    250 kB\n";
    (void)state;
    assert_int_equal(machine_read_memory(text, "MemTotal"), 1000 * 1024);
    assert_int_equal(machine_read_memory(text, "MemAvailable"), 250 * 1024);
    assert_int_equal(machine_read_memory(text, "Mem"), 0);
    assert_int_equal(machine_read_memory(text, "SwapTotal"), 0);
    assert_int_equal(machine_read_memory("", "MemTotal"), 0);
}

static void this_machine(void **state)
{
    struct machine machine = {0};
    struct machine_memory mem;
    (void)state;
    machine_look(&machine);
    assert_true(machine.cpu_percent == -1);
    assert_true(machine.all > 0 && machine.busy <= machine.all);
    struct machine before = machine;
    machine_look(&machine); // too soon
    assert_memory_equal(&before, &machine, sizeof machine);
    machine_memory(&mem);
    assert_true(mem.total > 0 && mem.available <= mem.total);
    assert_true(machine_cpus() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks),
        cmocka_unit_test(no_ticks),
        cmocka_unit_test(memory),
        cmocka_unit_test(this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
