// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "api/conditional.h"
#include "check.h"

CHECK_CASE(test_ranges)
{
    static const struct {
        const char *header;
        uint64_t size;
        enum range_kind kind;
        uint64_t from, len;
    } cases[] = {
        {NULL,                              100, RANGE_ALL,  0,  100},
        {"bytes=0-0",                       100, RANGE_PART, 0,  1  },
        {"bytes=10-19",                     100, RANGE_PART, 10, 10 },
        {"bytes=10-",                       100, RANGE_PART, 10, 90 },
        {"bytes=-10",                       100, RANGE_PART, 90, 10 },
        {"bytes=-1000",                     100, RANGE_PART, 0,  100},
        {"bytes=99-1000",                   100, RANGE_PART, 99, 1  },
        {"BYTES= 1-2 ",                     100, RANGE_PART, 1,  2  },
        {"bytes=0-18446744073709551615",    100, RANGE_PART, 0,  100},
        {"bytes=0-99999999999999999999999", 100, RANGE_PART, 0,  100},
        {"bytes=-99999999999999999999999",  100, RANGE_PART, 0,  100},
        {"bytes=99999999999999999999999-",  100, RANGE_NONE, 0,  0  },
        {"bytes=100-",                      100, RANGE_NONE, 0,  0  },
        {"bytes=-0",                        100, RANGE_NONE, 0,  0  },
        {"bytes=0-",                        0,   RANGE_NONE, 0,  0  },
        {"bytes=0-1,3-4",                   100, RANGE_ALL,  0,  100},
        {"bytes=5-4",                       100, RANGE_ALL,  0,  100},
        {"bytes=-",                         100, RANGE_ALL,  0,  100},
        {"bytes=",                          100, RANGE_ALL,  0,  100},
        {"bytes=+1-2",                      100, RANGE_ALL,  0,  100},
        {"bytes=1--2",                      100, RANGE_ALL,  0,  100},
        {"bytes=0x1-2",                     100, RANGE_ALL,  0,  100},
        {"lines=1-2",                       100, RANGE_ALL,  0,  100},
        {"1-2",                             100, RANGE_ALL,  0,  100},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct range r = range_read(cases[i].header, cases[i].size);
        if (r.kind != cases[i].kind)
            fail_msg("'%s' of %d is %d", cases[i].header, (int)cases[i].size, (int)r.kind);
        assert_int_equal(r.from, cases[i].from);
        assert_int_equal(r.len, cases[i].len);
    }
}

// Every range lies within the file, whatever the numbers.
CHECK_CASE(test_ranges_are_inside)
{
    char header[64];
    for (unsigned size = 0; size < 5; size++) {
        for (int from = -1; from < 7; from++) {
            for (int to = -1; to < 7; to++) {
                char a[8] = "", b[8] = "";
                if (from >= 0)
                    (void)snprintf(a, sizeof a, "%d", from);
                if (to >= 0)
                    (void)snprintf(b, sizeof b, "%d", to);
                (void)snprintf(header, sizeof header, "bytes=%s-%s", a, b);
                struct range r = range_read(header, size);
                if (r.kind == RANGE_PART)
                    assert_true(r.len > 0 && r.from + r.len <= size);
                else if (r.kind == RANGE_ALL)
                    assert_true(r.from == 0 && r.len == size);
            }
        }
    }
}

CHECK_CASE(test_lists_of_tags)
{
    assert_true(etag_listed("\"abc\"", "abc", true));
    assert_true(etag_listed("*", "abc", true));
    assert_true(etag_listed(" * ", "abc", true));
    assert_true(etag_listed("\"x\", \"abc\"", "abc", true));
    assert_true(etag_listed("\"x\",W/\"abc\"", "abc", false));
    assert_false(etag_listed("\"x\",W/\"abc\"", "abc", true));
    assert_false(etag_listed("\"ab\"", "abc", false));
    assert_false(etag_listed("\"abcd\"", "abc", false));
    assert_false(etag_listed("abc", "abc", false));
    assert_false(etag_listed("\"abc", "abc", false));
    assert_false(etag_listed("", "abc", false));
    assert_false(etag_listed("\"*\"", "abc", false));
    assert_false(etag_listed("**", "abc", false));
}

CHECK_CASE(test_one_tag)
{
    char tag[8];
    assert_int_equal(etag_read("\"abc\"", tag, sizeof tag), 0);
    assert_string_equal(tag, "abc");
    assert_int_equal(etag_read(" \"\" ", tag, sizeof tag), 0);
    assert_string_equal(tag, "");
    static const char *const bad[] = {"abc", "W/\"abc\"",    "\"abc\", \"d\"", "*",
                                      "",    "\"12345678\"", "\"abc",          "\"abc\"x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(etag_read(bad[i], tag, sizeof tag), -1);
}

CHECK_CASE(test_if_range)
{
    assert_true(etag_in_range(NULL, "a"));
    assert_true(etag_in_range("\"a\"", "a"));
    assert_false(etag_in_range("W/\"a\"", "a"));
    assert_false(etag_in_range("\"b\"", "a"));
    assert_false(etag_in_range("Sat, 29 Oct 1994 19:43:31 GMT", "a"));
}

CHECK_CASE(test_plain)
{
    assert_true(etag_is_plain("1a-2.b_", 8));
    assert_false(etag_is_plain("", 1));
    assert_false(etag_is_plain("abc", 3)); // no end within its place
    assert_false(etag_is_plain("a\"b", 8));
    assert_false(etag_is_plain("a\r\nSet-Cookie: x", 32));
    assert_false(etag_is_plain("\xc3\xa4", 8));
}

CHECK_MAIN(cmocka_unit_test(test_ranges), cmocka_unit_test(test_ranges_are_inside),
           cmocka_unit_test(test_lists_of_tags), cmocka_unit_test(test_one_tag),
           cmocka_unit_test(test_if_range), cmocka_unit_test(test_plain))
