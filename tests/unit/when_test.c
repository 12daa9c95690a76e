// SPDX-License-Identifier: Apache-2.0
#include "base/when.h"
#include "check.h"

CHECK_CASE(moments)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"0",                             0              },
        {"1794787200000",                 1794787200000  },
        {"253402300799999",               253402300799999},
        {"1970-01-01",                    0              },
        {"2026-11-16",                    1794787200000  },
        {"2026-11-16T10:30Z",             1794825000000  },
        {"2026-11-16 10:30",              1794825000000  },
        {"2026-11-16T10:30:01.5Z",        1794825001500  },
        {"2026-11-16T10:30:01.123456789", 1794825001123  },
        {"2026-11-16T12:30:00+02:00",     1794825000000  },
        {"2026-11-16T05:00:00-0530",      1794825000000  },
        {"2024-02-29",                    1709164800000  },
        {"2016-12-31T23:59:60Z",          1483228800000  },
        {"9999-12-31T23:59:59.999Z",      253402300799999},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        int64_t ms = -1;
        if (when_parse(cases[i].text, &ms, &err) < 0 || ms != cases[i].ms)
            fail_msg("%s: %lld, %s", cases[i].text, (long long)ms, err.msg);
    }
}

CHECK_CASE(no_moments)
{
    static const char *const cases[] = {
        "",
        " ",
        "now",
        "-1",
        "+1",
        "1.5",
        "1e3",
        " 5",

        "2026-11",
        "2026-11-1",
        "2026-11-16T",
        "2026-13-01",
        "2026-00-01",
        "2026-02-30",
        "2026-11-31",
        "2025-02-29",
        "1969-12-31",
        "2026-11-16Z",
        "2026-11-16T10",
        "2026-11-16T24:00",
        "2026-11-16T10:60",
        "2026-11-16T10:30:61",
        "2026-11-16T10:30:00.",
        "2026-11-16T10:30:00.Z",
        "2026-11-16T10:30:00+2",
        "2026-11-16T10:30:00z ",
        "2026-11-16T10:30:00+24:00",
        "1970-01-01T00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "2026-11-16t10:30",
        "253402300800000",
        "99999999999999999999999999",
        "20261-11-16",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        int64_t ms = -1;
        if (when_parse(cases[i], &ms, &err) == 0)
            fail_msg("'%s' was taken for %lld", cases[i], (long long)ms);
        assert_int_equal(err.code, ERR_INVALID);
        assert_int_equal(ms, -1);
    }
}

CHECK_MAIN(cmocka_unit_test(moments), cmocka_unit_test(no_moments))
