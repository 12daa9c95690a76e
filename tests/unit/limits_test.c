// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "box/limits.h"
#include "check.h"

CHECK_CASE(defaults_are_possible)
{
    struct err err = {0};
    struct box_limits l = limits_default();
    assert_int_equal(limits_check(&l, &err), 0);
    assert_int_equal(err.code, ERR_NONE); // success leaves it untouched
    assert_string_equal(err.msg, "");
    assert_true(l.memory == 1024ull << 20);
    assert_true(l.disk == 2048ull << 20);
    assert_int_equal(l.pids, 256);
    assert_int_equal(l.cpu_milli, 1000);
}

enum field {
    MEMORY,
    DISK,
    PIDS,
    CPU,
};

// The numbers of the documented bounds, written out once more.
static const struct {
    enum field field;
    uint64_t value;
    const char *refused; // NULL when it is possible
} rows[] = {
    {MEMORY, 0,                 "memory must be 4m to 64t" },
    {MEMORY, 4194303,           "memory must be 4m to 64t" },
    {MEMORY, 4194304,           NULL                       },
    {MEMORY, 4194305,           NULL                       },
    {MEMORY, 70368744177663ull, NULL                       },
    {MEMORY, 70368744177664ull, NULL                       },
    {MEMORY, 70368744177665ull, "memory must be 4m to 64t" },
    {MEMORY, 1ull << 63,        "memory must be 4m to 64t" },
    {MEMORY, UINT64_MAX,        "memory must be 4m to 64t" },
    {DISK,   0,                 "disk must be 1m to 64t"   },
    {DISK,   1048575,           "disk must be 1m to 64t"   },
    {DISK,   1048576,           NULL                       },
    {DISK,   70368744177664ull, NULL                       },
    {DISK,   70368744177665ull, "disk must be 1m to 64t"   },
    {DISK,   UINT64_MAX,        "disk must be 1m to 64t"   },
    {PIDS,   0,                 "pids must be 2 to 4194304"},
    {PIDS,   1,                 "pids must be 2 to 4194304"},
    {PIDS,   2,                 NULL                       },
    {PIDS,   4194304,           NULL                       },
    {PIDS,   4194305,           "pids must be 2 to 4194304"},
    {PIDS,   1u << 31,          "pids must be 2 to 4194304"},
    {PIDS,   UINT32_MAX,        "pids must be 2 to 4194304"},
    {CPU,    0,                 "cpus must be 0.01 to 1024"},
    {CPU,    9,                 "cpus must be 0.01 to 1024"},
    {CPU,    10,                NULL                       },
    {CPU,    1024000,           NULL                       },
    {CPU,    1024001,           "cpus must be 0.01 to 1024"},
    {CPU,    1u << 31,          "cpus must be 0.01 to 1024"},
    {CPU,    UINT32_MAX,        "cpus must be 0.01 to 1024"},
};

static struct box_limits with(enum field field, uint64_t value)
{
    struct box_limits l = limits_default();
    switch (field) {
    case MEMORY:
        l.memory = value;
        break;
    case DISK:
        l.disk = value;
        break;
    case PIDS:
        l.pids = (uint32_t)value;
        break;
    case CPU:
        l.cpu_milli = (uint32_t)value;
        break;
    }
    return l;
}

CHECK_CASE(every_bound)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err err = {0};
        struct box_limits l = with(rows[i].field, rows[i].value);
        int r = limits_check(&l, &err);
        assert_int_equal(r, rows[i].refused != NULL ? -1 : 0);
        assert_int_equal(err.code, rows[i].refused != NULL ? ERR_INVALID : ERR_NONE);
        assert_string_equal(err.msg, rows[i].refused != NULL ? rows[i].refused : "");
    }
}

// A message of zeroes has set no field.
CHECK_CASE(unset_is_not_unlimited)
{
    struct err err = {0};
    struct box_limits l = {0};
    assert_int_equal(limits_check(&l, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
}

CHECK_MAIN(cmocka_unit_test(defaults_are_possible), cmocka_unit_test(every_bound),
           cmocka_unit_test(unset_is_not_unlimited))
