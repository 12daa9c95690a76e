// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "check.h"

// -- UTF-8

// A decoder written the other way round: builds the code point, then looks whether it is allowed.
static size_t model_step(const unsigned char *p, size_t len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (len == 0)
        return 0;
    size_t n = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
    if (n == 0 || n > len)
        return 0;
    uint32_t code = n == 1 ? p[0] : p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if (p[i] >> 6 != 2)
            return 0;
        code = code << 6 | (p[i] & 63);
    }
    return code < least[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? 0 : n;
}

CHECK_CASE(utf8_against_a_model)
{
    static const unsigned char interesting[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90,
                                                0x9f, 0xa0, 0xbf, 0xc0, 0xe0, 0xff};
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            for (size_t c = 0; c < sizeof interesting; c++) {
                for (size_t d = 0; d < sizeof interesting; d++) {
                    const unsigned char text[4] = {(unsigned char)a, (unsigned char)b,
                                                   interesting[c], interesting[d]};
                    for (size_t len = 0; len <= 4; len++)
                        if (utf8_step(text, len) != model_step(text, len))
                            fail_msg("%02x %02x %02x %02x of %zu", a, b, text[2], text[3], len);
                }
            }
        }
    }
}

// A valid text is valid up to the ends of its characters and nowhere else.
CHECK_CASE(utf8_waits_for_the_rest_of_a_character)
{
    const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
    const char waiting[] = "00101201230"; // of the first 0, 1, ... bytes
    for (size_t len = 0; len < sizeof text; len++)
        assert_int_equal(utf8_unfinished(text, len), waiting[len] - '0');
    assert_int_equal(utf8_unfinished("\xff", 1), 0); // begins nothing
    assert_int_equal(utf8_unfinished("\xc0", 1), 0);
    assert_int_equal(utf8_unfinished("\x80\x80\x80\x80", 4), 0);
}

CHECK_CASE(utf8_cut_at_every_byte)
{
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
    static const char whole[] = "110100100011"; // by length
    for (size_t len = 0; len < sizeof text; len++)
        assert_int_equal(utf8_valid(text, len), whole[len] == '1');
    assert_true(utf8_valid("\0\0", 2));
    assert_true(utf8_valid(NULL, 0));
}

// -- base64

static const char *encode(struct buf *buf, const void *data, size_t len)
{
    buf_reset(buf);
    assert_int_equal(base64_append(buf, data, len), 0);
    return buf_str(buf);
}

CHECK_CASE(quoted_for_a_shell)
{
    static const struct {
        const char *text, *quoted;
    } rows[] = {
        {"",          "''"          },
        {"a b",       "'a b'"       },
        {"it's",      "'it'\\''s'"  },
        {"''",        "''\\'''\\'''"},
        {"$(x) \"\\", "'$(x) \"\\'" },
        {"\n*~",      "'\n*~'"      },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        auto_buf buf;
        buf_init(&buf, 64);
        shell_quote(&buf, rows[i].text);
        assert_string_equal(buf_str(&buf), rows[i].quoted);
    }
}

CHECK_CASE(base64_known)
{
    auto_buf buf;
    buf_init(&buf, 100);
    assert_string_equal(encode(&buf, "", 0), "");
    assert_string_equal(encode(&buf, "f", 1), "Zg==");
    assert_string_equal(encode(&buf, "fo", 2), "Zm8=");
    assert_string_equal(encode(&buf, "foo", 3), "Zm9v");
    assert_string_equal(encode(&buf, "foobar", 6), "Zm9vYmFy");
    assert_string_equal(encode(&buf, "\xff\xfe\xfb\xf0", 4), "//778A==");
}

static unsigned digit_value(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = strchr(digits, c);
    assert_true(at != NULL && c != '\0');
    return at != NULL ? (unsigned)(at - digits) : 0;
}

// All lengths around the size of the inner block, decoded again bit by bit.
CHECK_CASE(base64_every_length)
{
    unsigned char data[1600];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37 + i / 256);
    auto_buf buf;
    buf_init(&buf, 4096);
    for (size_t len = 0; len < sizeof data; len = len < 20 || len >= 740 ? len + 1 : 740) {
        const char *text = encode(&buf, data, len);
        assert_int_equal(buf.len, (len + 2) / 3 * 4);
        for (size_t i = 0; i < len; i++) {
            size_t bit = i * 8, at = bit / 6, off = bit % 6;
            unsigned pair = digit_value(text[at]) << 6 | digit_value(text[at + 1]);
            assert_int_equal(pair >> (4 - off) & 255, data[i]);
        }
    }
}

CHECK_CASE(base64_into_a_full_buffer)
{
    auto_buf buf;
    buf_init(&buf, 5);
    assert_int_equal(base64_append(&buf, "foobar", 6), -E2BIG);
    assert_string_equal(buf_str(&buf), "Zm9vY");
}

// -- numbers

static void size_is(const char *text, uint64_t want)
{
    struct err err = {.code = ERR_NONE};
    uint64_t got = 77;
    if (parse_size(text, &got, &err) != 0 || got != want)
        fail_msg("'%s': %llu, not %llu (%s)", text, (unsigned long long)got,
                 (unsigned long long)want, err.msg);
    assert_int_equal(err.code, ERR_NONE);
}

static void size_refused(const char *text)
{
    struct err err = {.code = ERR_NONE};
    uint64_t got = 77;
    if (parse_size(text, &got, &err) != -1)
        fail_msg("'%s' was taken as %llu", text, (unsigned long long)got);
    assert_int_equal(got, 77);
    assert_int_equal(err.code, ERR_INVALID);
    assert_true(text[0] == '\0' || strstr(err.msg, text) != NULL || strlen(text) > 100);
}

CHECK_CASE(sizes)
{
    const uint64_t k = 1024;
    size_is("0", 0);
    size_is("1048576", k * k);
    size_is("1b", 1);
    size_is("64k", 64 * k);
    size_is("64K", 64 * k);
    size_is("64kb", 64 * k);
    size_is("64KiB", 64 * k);
    size_is("64m", 64 * k * k);
    size_is("1g", k * k * k);
    size_is("1.5g", 3 * k * k * k / 2);
    size_is("1.50G", 3 * k * k * k / 2);
    size_is("2TiB", 2 * k * k * k * k);
    size_is("0.000000001t", 1099);
    size_is("0.1k", 102);
    size_is("18446744073709551615", UINT64_MAX);
    size_is("16777215t", 16777215 * k * k * k * k);
    size_is("007", 7);
}

CHECK_CASE(sizes_refused)
{
    static const char *const bad[] = {
        "",
        " ",
        "m",
        "-1",
        "+1",
        "1 m",
        " 1m",
        "1m ",
        "1x",
        "1mm",
        "1ib",
        "1mi",
        "1mbi",
        "1kk",
        "0x10",
        "1e3",
        ".5g",
        "5.g",
        "1.5",
        "1.5b",
        "1..5g",
        "1.5.5g",
        "1,5g",
        "inf",
        "nan",
        "1p",
        "1\n",
        "g1",
        "1.0000000001g",
        "18446744073709551616",
        "16777216t",
        "99999999999999999999999999",
        "18446744073709551615k",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        size_refused(bad[i]);
    char longest[2000];
    (void)memset(longest, '9', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    size_refused(longest);
}

static void duration_is(const char *text, int64_t want)
{
    struct err err;
    int64_t got = -5;
    if (parse_duration(text, &got, &err) != 0 || got != want)
        fail_msg("'%s': %lld, not %lld", text, (long long)got, (long long)want);
}

CHECK_CASE(durations)
{
    duration_is("0", 0);
    duration_is("5", 5000);
    duration_is("500ms", 500);
    duration_is("500MS", 500);
    duration_is("1s", 1000);
    duration_is("1.5s", 1500);
    duration_is("0.25", 250);
    duration_is("2m", 120000);
    duration_is("1h", 3600000);
    duration_is("1.5h", 5400000);
    duration_is("1d", 86400000);
    // Up, never to a zero that would mean no limit.
    duration_is("0.0001s", 1);
    duration_is("0.1ms", 1);
    duration_is("1.0001ms", 2);
    duration_is("9223372036854775807ms", INT64_MAX);
}

CHECK_CASE(durations_refused)
{
    static const char *const bad[] = {
        "",
        "s",
        "-1s",
        "1us",
        "1 s",
        "1sec",
        "1m30s",
        "1mss",
        "ms",
        "1.s",
        "inf",
        "9223372036854775808ms",
        "9223372036854776s",
        "106751991168d",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = {.code = ERR_NONE};
        int64_t got = -5;
        if (parse_duration(bad[i], &got, &err) != -1)
            fail_msg("'%s' was taken as %lld", bad[i], (long long)got);
        assert_int_equal(got, -5);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

CHECK_CASE(cpus)
{
    static const struct {
        const char *text;
        uint32_t want; // 0: refused
    } table[] = {
        {"1",                    1000      },
        {"0.5",                  500       },
        {"2.25",                 2250      },
        {"0.001",                1         },
        {"0.3333",               333       },
        {"64",                   64000     },
        {"0",                    0         },
        {"0.0",                  0         },
        {"0.0005",               0         },
        {"-1",                   0         },
        {"1c",                   0         },
        {"",                     0         },
        {".5",                   0         },
        {"1e1",                  0         },
        {"1048576",              1048576000},
        {"1048577",              0         },
        {"1.5 ",                 0         },
        {"half",                 0         },
        {"4294967296",           0         },
        {"99999999999999999999", 0         },
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct err err = {.code = ERR_NONE};
        uint32_t got = 0;
        int r = parse_cpus(table[i].text, &got, &err);
        if (r != (table[i].want != 0 ? 0 : -1) || got != table[i].want)
            fail_msg("'%s': %d, %u", table[i].text, r, got);
        assert_int_equal(err.code, r == 0 ? ERR_NONE : ERR_INVALID);
    }
}

CHECK_CASE(whole_numbers)
{
    struct err err;
    uint64_t got = 77;
    assert_int_equal(parse_u64("0", 0, UINT64_MAX, &got, &err), 0);
    assert_int_equal(got, 0);
    assert_int_equal(parse_u64("18446744073709551615", 0, UINT64_MAX, &got, &err), 0);
    assert_true(got == UINT64_MAX);
    assert_int_equal(parse_u64("10", 10, 10, &got, &err), 0);
    static const char *const bad[] = {"9",
                                      "11",
                                      "",
                                      "-10",
                                      "+10",
                                      " 10",
                                      "10 ",
                                      "10x",
                                      "0xa",
                                      "1.0",
                                      "18446744073709551616",
                                      "184467440737095516160"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        got = 77;
        assert_int_equal(parse_u64(bad[i], 10, 10, &got, &err), -1);
        assert_int_equal(got, 77);
        assert_int_equal(err.code, ERR_INVALID);
    }
    assert_string_equal(err.msg, "'184467440737095516160' is not a whole number from 10 to 10");
}

// -- words

CHECK_CASE(distances)
{
    assert_int_equal(text_distance("", ""), 0);
    assert_int_equal(text_distance("", "abc"), 3);
    assert_int_equal(text_distance("abc", ""), 3);
    assert_int_equal(text_distance("memory", "memory"), 0);
    assert_int_equal(text_distance("memry", "memory"), 1);
    assert_int_equal(text_distance("memorry", "memory"), 1);
    assert_int_equal(text_distance("memary", "memory"), 1);
    assert_int_equal(text_distance("meomry", "memory"), 1); // swapped
    assert_int_equal(text_distance("kitten", "sitting"), 3);
    assert_int_equal(text_distance("a", "bcdef"), 5);
    assert_true(text_distance("123456789012345678901234567890123", "a") == SIZE_MAX);
}

CHECK_CASE(nearness)
{
    assert_true(text_near("timout", "timeout"));
    assert_true(text_near("mem", "memory"));
    assert_true(text_near("rnu", "run"));
    assert_false(text_near("x", "memory"));
    assert_false(text_near("frobnicate", "memory"));
}

CHECK_MAIN(cmocka_unit_test(utf8_against_a_model), cmocka_unit_test(utf8_cut_at_every_byte),
           cmocka_unit_test(utf8_waits_for_the_rest_of_a_character),
           cmocka_unit_test(quoted_for_a_shell), cmocka_unit_test(base64_known),
           cmocka_unit_test(base64_every_length), cmocka_unit_test(base64_into_a_full_buffer),
           cmocka_unit_test(sizes), cmocka_unit_test(sizes_refused), cmocka_unit_test(durations),
           cmocka_unit_test(durations_refused), cmocka_unit_test(cpus),
           cmocka_unit_test(whole_numbers), cmocka_unit_test(distances), cmocka_unit_test(nearness))
