// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "check.h"

// What the writer makes of one value.
#define assert_writes(want, call)                                                                  \
    do {                                                                                           \
        auto_buf buf;                                                                              \
        struct json json;                                                                          \
        buf_init(&buf, 4096);                                                                      \
        json_init(&json, &buf);                                                                    \
        call;                                                                                      \
        assert_int_equal(json_finish(&json), 0);                                                   \
        assert_string_equal(buf_str(&buf), want);                                                  \
    } while (0)

CHECK_CASE(plain_values)
{
    assert_writes("null", json_put_null(&json));
    assert_writes("true", json_put_bool(&json, true));
    assert_writes("false", json_put_bool(&json, false));
    assert_writes("0", json_put_int(&json, 0));
    assert_writes("-9223372036854775808", json_put_int(&json, INT64_MIN));
    assert_writes("9223372036854775807", json_put_int(&json, INT64_MAX));
    assert_writes("18446744073709551615", json_put_uint(&json, UINT64_MAX));
    assert_writes("\"\"", json_put_str(&json, ""));
    assert_writes("null", json_put_str(&json, NULL));
}

CHECK_CASE(doubles_come_back)
{
    assert_writes("0.1", json_put_double(&json, 0.1));
    assert_writes("1.5", json_put_double(&json, 1.5));
    assert_writes("-0", json_put_double(&json, -0.0));
    assert_writes("1e+300", json_put_double(&json, 1e300));
    assert_writes("null", json_put_double(&json, (double)NAN));
    assert_writes("null", json_put_double(&json, (double)INFINITY));
    assert_writes("null", json_put_double(&json, -(double)INFINITY));
    double value = 1;
    for (int i = 0; i < 2000; i++) {
        value = value * 1.37 + 1.0 / (i + 3);
        if (value > 1e290)
            value *= 1e-300;
        auto_buf buf;
        struct json json;
        buf_init(&buf, 64);
        json_init(&json, &buf);
        json_put_double(&json, value);
        assert_true(strtod(buf_str(&buf), NULL) == value);
    }
}

CHECK_CASE(escapes)
{
    assert_writes("\"a\\\"b\\\\c/\"", json_put_str(&json, "a\"b\\c/"));
    assert_writes("\"\\b\\f\\n\\r\\t\"", json_put_str(&json, "\b\f\n\r\t"));
    assert_writes("\"\\u0000x\\u0000\"", json_put_strn(&json, "\0x\0", 3));
    assert_writes("\"\\u0001\\u001f\x7f\"", json_put_str(&json, "\x01\x1f\x7f"));
    assert_writes("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
                  json_put_str(&json, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
}

#define BAD "\xef\xbf\xbd"

CHECK_CASE(bad_utf8_becomes_a_mark)
{
    assert_writes("\"" BAD "\"", json_put_str(&json, "\xff"));
    assert_writes("\"a" BAD "b\"", json_put_str(&json, "a\x80"
                                                       "b"));
    assert_writes("\"" BAD BAD "\"", json_put_str(&json, "\xc0\xaf"));         // overlong
    assert_writes("\"" BAD BAD BAD "\"", json_put_str(&json, "\xed\xa0\x80")); // surrogate
    assert_writes("\"" BAD BAD "\"", json_put_str(&json, "\xe2\x82"));         // cut short
    assert_writes("\"" BAD "\\n\"", json_put_str(&json, "\xe2\n"));
}

// What is counted before it is written is no less than what is written.
CHECK_CASE(sizes_are_enough)
{
    static const char *const texts[] = {
        "",         "plain",        "a\"b\\c/", "\b\f\n\r\t\x01\x1f\x7f",
        "\xff\x80", "\xed\xa0\x80", "\xe2\n",   "\xf0\x9f\x98\x80"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        auto_buf buf;
        struct json json;
        buf_init(&buf, 256);
        json_init(&json, &buf);
        json_put_str(&json, texts[i]);
        assert_true(json_text_size(texts[i], strlen(texts[i])) + 2 >= buf.len);
    }
    assert_int_equal(json_text_size("\0x\"", 3), 6 + 1 + 2);
}

CHECK_CASE(commas_and_colons)
{
    assert_writes("{}", (json_open_object(&json), json_close_object(&json)));
    assert_writes("[]", (json_open_array(&json), json_close_array(&json)));
    assert_writes("[1,[],{},[2,3],null]", ({
                      json_open_array(&json);
                      json_put_int(&json, 1);
                      json_open_array(&json);
                      json_close_array(&json);
                      json_open_object(&json);
                      json_close_object(&json);
                      json_open_array(&json);
                      json_put_int(&json, 2);
                      json_put_int(&json, 3);
                      json_close_array(&json);
                      json_put_null(&json);
                      json_close_array(&json);
                  }));
    assert_writes("{\"a\":1,\"b\":{\"c\":[true]},\"d\\\"\":\"e\"}", ({
                      json_open_object(&json);
                      json_key(&json, "a");
                      json_put_int(&json, 1);
                      json_key(&json, "b");
                      json_open_object(&json);
                      json_key(&json, "c");
                      json_open_array(&json);
                      json_put_bool(&json, true);
                      json_close_array(&json);
                      json_close_object(&json);
                      json_key(&json, "d\"");
                      json_put_str(&json, "e");
                      json_close_object(&json);
                  }));
}

// A level that is opened again must not remember the items of the one before it.
CHECK_CASE(deep_and_wide)
{
    auto_buf buf;
    struct json json;
    buf_init(&buf, 4096);
    json_init(&json, &buf);
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        json_open_array(&json);
    for (int i = JSON_DEPTH_MAX; i > 0; i--) {
        json_close_array(&json);
        if (i > 1)
            json_put_int(&json, i);
    }
    assert_int_equal(json_finish(&json), 0);
    assert_memory_equal(buf_str(&buf), "[[[[", 4);
    assert_string_equal(buf_str(&buf) + buf.len - 10, "],4],3],2]");
}

CHECK_CASE(base64_is_a_string)
{
    assert_writes("[\"\",\"AP8=\"]", ({
                      json_open_array(&json);
                      json_put_base64(&json, "", 0);
                      json_put_base64(&json, "\0\xff", 2);
                      json_close_array(&json);
                  }));
}

CHECK_CASE(full_buffer_shows_at_the_end)
{
    static const char want[] = "{\"text\":\"a\\nb\",\"n\":[1,2.5,true,null,\"YQ==\"]}";
    for (size_t max = 0; max <= sizeof want; max++) {
        auto_buf buf;
        struct json json;
        buf_init(&buf, max);
        json_init(&json, &buf);
        json_open_object(&json);
        json_key(&json, "text");
        json_put_str(&json, "a\nb");
        json_key(&json, "n");
        json_open_array(&json);
        json_put_int(&json, 1);
        json_put_double(&json, 2.5);
        json_put_bool(&json, true);
        json_put_null(&json);
        json_put_base64(&json, "a", 1);
        json_close_array(&json);
        json_close_object(&json);
        assert_int_equal(json_finish(&json), max < sizeof want - 1 ? -E2BIG : 0);
        assert_memory_equal(buf_str(&buf), want, buf.len);
    }
}

#define MISUSE(name, ...)                                                                          \
    static void name(void)                                                                         \
    {                                                                                              \
        struct buf buf;                                                                            \
        struct json json;                                                                          \
        buf_init(&buf, 64);                                                                        \
        json_init(&json, &buf);                                                                    \
        __VA_ARGS__;                                                                               \
    }

MISUSE(value_without_key, json_open_object(&json), json_put_null(&json))
MISUSE(key_in_array, json_open_array(&json), json_key(&json, "a"))
MISUSE(key_outside, json_key(&json, "a"))
MISUSE(key_after_key, json_open_object(&json), json_key(&json, "a"), json_key(&json, "b"))
MISUSE(wrong_end, json_open_object(&json), json_close_array(&json))
MISUSE(end_outside, json_close_array(&json))
MISUSE(end_after_key, json_open_object(&json), json_key(&json, "a"), json_close_object(&json))
MISUSE(not_ended, json_open_object(&json), (void)json_finish(&json))
MISUSE(too_deep, for (int i = 0; i <= JSON_DEPTH_MAX; i++) json_open_array(&json))

CHECK_CASE(misuse_aborts)
{
    assert_int_equal(check_signal(value_without_key), SIGABRT);
    assert_int_equal(check_signal(key_in_array), SIGABRT);
    assert_int_equal(check_signal(key_outside), SIGABRT);
    assert_int_equal(check_signal(key_after_key), SIGABRT);
    assert_int_equal(check_signal(wrong_end), SIGABRT);
    assert_int_equal(check_signal(end_outside), SIGABRT);
    assert_int_equal(check_signal(end_after_key), SIGABRT);
    assert_int_equal(check_signal(not_ended), SIGABRT);
    assert_int_equal(check_signal(too_deep), SIGABRT);
}

CHECK_MAIN(cmocka_unit_test(plain_values), cmocka_unit_test(doubles_come_back),
           cmocka_unit_test(escapes), cmocka_unit_test(bad_utf8_becomes_a_mark),
           cmocka_unit_test(sizes_are_enough), cmocka_unit_test(commas_and_colons),
           cmocka_unit_test(deep_and_wide), cmocka_unit_test(base64_is_a_string),
           cmocka_unit_test(full_buffer_shows_at_the_end), cmocka_unit_test(misuse_aborts))
