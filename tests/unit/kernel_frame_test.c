// SPDX-License-Identifier: Apache-2.0
// Frames at every split, and what a kernel may say in JSON.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "check.h"
#include "sandbox/kernel-frame.h"
#include "sandbox/kernel-json.h"

// --- frames

// Feeds the bytes in pieces and writes what comes out: "type cell payload|", and "!" when it
// breaks.
static void read_all(const char *bytes, size_t len, size_t piece, bool resume, struct buf *ret)
{
    struct frame_reader reader;
    struct frame frame;
    frame_reader_init(&reader);
    if (resume)
        frame_reader_resume(&reader);
    int r = 0;
    for (size_t at = 0; at < len && r == 0;) {
        char *to = NULL;
        size_t room = 0;
        assert_int_equal(frame_reader_reserve(&reader, &to, &room), 0);
        size_t n = len - at < piece ? len - at : piece;
        n = n < room ? n : room;
        memcpy(to, bytes + at, n);
        frame_reader_commit(&reader, n);
        at += n;
        while ((r = frame_reader_next(&reader, &frame)) > 0) {
            (void)buf_printf(ret, "%s %u ", frame.type, frame.cell);
            (void)buf_append(ret, frame.bytes, frame.len);
            (void)buf_append_char(ret, '|');
        }
    }
    if (r < 0)
        (void)buf_append_char(ret, '!');
    frame_reader_done(&reader);
}

static void check_frames(const char *bytes, const char *expected, bool resume)
{
    for (size_t piece = 1; piece <= strlen(bytes); piece++) {
        auto_buf got;
        buf_init(&got, 65536);
        read_all(bytes, strlen(bytes), piece, resume, &got);
        if (strcmp(buf_str(&got), expected) != 0)
            fail_msg("in pieces of %zu: '%s'", piece, buf_str(&got));
    }
}

CHECK_CASE(frames_in_any_pieces)
{
    check_frames("ready 0 2\n{}opened 0 0\nresult 2147483647 5\na\nb\nc", //
                 "ready 0 {}|opened 0 |result 2147483647 a\nb\nc|", false);
    check_frames("abcdefghijklmno 1 1\nx", "abcdefghijklmno 1 x|", false);
}

CHECK_CASE(what_is_no_frame)
{
    static const char *const bad[] = {
        "\n",
        " 1 1\n",
        "a  1 1\n",
        "a 1  1\n",
        "a 1\n",
        "a 1 1 \n",
        "a 1 1 1\n",
        "a -1 1\n",
        "a +1 1\n",
        "a 01 1\n",
        "a 1 00\n",
        "a 1 0x1\n",
        "a 2147483648 1\n",
        "a 1 2147483648\n",
        "a 1 33554433\n",
        "a 99999999999999999999999 1\n",
        "A 1 1\n",
        "a1 1 1\n",
        "abcdefghijklmnop 1 1\n",
        "a\t1 1\n",
        "a 1 1\r\n",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_frames(bad[i], "!", false);
    check_frames("done 1 2\n{}x\n", "done 1 {}|!", false);
    check_frames("done 1 5\n{}", "", false);
}

CHECK_CASE(the_largest_frame)
{
    enum { LEN = FRAME_FROM_MAX };
    auto_buf frame, got;
    auto_free char *payload = malloc(LEN);
    memset(payload, 'p', LEN);
    buf_init(&frame, LEN + 100);
    buf_init(&got, 2 * (size_t)LEN);
    assert_int_equal(frame_put(&frame, "result", 1, payload, LEN), 0);
    assert_int_equal(frame_put(&frame, "done", 1, "", 0), 0);
    read_all(frame.data, frame.len, 65536, false, &got);
    assert_int_equal(got.len, LEN + strlen("result 1 |done 1 |"));
    assert_string_equal(got.data + got.len - 8, "|done 1 |" + 1);
}

CHECK_CASE(the_rest_of_a_frame_is_skipped)
{
    check_frames("xt\":\"}\"}done 1 2\n{}error 1 1\nx", "done 1 {}|error 1 x|", true);
    check_frames("done 1 2\n{}", "done 1 {}|", true);
    check_frames("}}}result 3 1\nx", "result 3 x|", true);
    check_frames("}nothing 1 2\n{}display 4 1\nx", "display 4 x|", true);
    check_frames("nothing at all, for longer than any header could ever be, and no end to it}", "",
                 true);
}

// --- JSON

static bool scans(const char *text)
{
    struct kernel_object object;
    // Of exactly its size, so that a byte too many shows.
    size_t len = strlen(text);
    char *copy = malloc(len > 0 ? len : 1);
    memcpy(copy, text, len);
    bool good = kernel_json_scan(copy, len, &object) == KERNEL_JSON_OK;
    free(copy);
    return good;
}

CHECK_CASE(what_is_json)
{
    static const char *const good[] = {
        "{}",
        " { } ",
        "{\"a\":1}",
        "{\"a\":[],\"b\":{},\"c\":[[[{}]]]}",
        "{\"a\" : [1 , 2.5e-7, -0, true,false , null, \"x\"] }",
        "{\"a\":\"\\u00e9\\n\\\"\\\\\\/\\ud83d\\ude00\"}",
        "{\"a\":\"\xc3\xa9\xf0\x9f\x98\x80\"}",
        "{\"a\":123456789012345678901234567890, \"b\":1e999}",
        "{\"a\":{\"b\":{\"c\":[1,{\"d\":2}]}},\"e\":0}",
    };
    static const char *const bad[] = {
        "",
        "[]",
        "{",
        "}",
        "{}}",
        "{} x",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":[1,]}",
        "{\"a\":[1 2]}",
        "{\"a\":[}",
        "{\"a\":[1}]",
        "{\"a\":{\"b\"]}",
        "{\"a\":01}",
        "{\"a\":.5}",
        "{\"a\":1.}",
        "{\"a\":+1}",
        "{\"a\":-}",
        "{\"a\":1e}",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":tru}",
        "{\"a\":\"",
        "{\"a\":\"\\",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\u12g4\"}",
        "{\"a\":\"\\u\x10\x11\x12\x13\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\x80\"}",
        "{\"a\":\"\xc0\xaf\"}",
        "{\"a\":\"\xed\xa0\x80\"}",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!scans(good[i]))
            fail_msg("refused: %s", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (scans(bad[i]))
            fail_msg("taken: %s", bad[i]);
    }
}

CHECK_CASE(depth_costs_no_stack)
{
    struct kernel_object object;
    auto_buf text;
    buf_init(&text, 1 << 22);
    (void)buf_append_str(&text, "{\"a\":");
    for (int i = 0; i < KERNEL_JSON_DEPTH; i++)
        (void)buf_append_str(&text, i % 2 ? "[" : "{\"b\":");
    (void)buf_append_str(&text, "1");
    for (int i = KERNEL_JSON_DEPTH - 1; i >= 0; i--)
        (void)buf_append_str(&text, i % 2 ? "]" : "}");
    (void)buf_append_str(&text, "}");
    assert_int_equal(kernel_json_scan(text.data, text.len, &object), KERNEL_JSON_OK);
    auto_buf deep, ret;
    buf_init(&deep, 1 << 22);
    buf_init(&ret, 1000);
    (void)buf_append_str(&deep, "{\"json\":");
    for (int i = 0; i < 1000000; i++)
        (void)buf_append_char(&deep, '[');
    assert_int_equal(kernel_json_scan(deep.data, deep.len, &object), KERNEL_JSON_DEEP);
    assert_int_equal(kernel_json_representation(deep.data, deep.len, &ret), 0);
    assert_non_null(strstr(buf_str(&ret), "too deep"));
}

// What is logged of a representation: as it came when that is fine.
static void check_shown(const char *text, const char *expected)
{
    auto_buf ret;
    auto_free char *copy = strdup(text);
    buf_init(&ret, 65536);
    int r = kernel_json_representation(copy, strlen(copy), &ret);
    if (expected == NULL) {
        assert_int_equal(r, -EINVAL);
        return;
    }
    assert_int_equal(r, 0);
    assert_string_equal(ret.len > 0 ? ret.data : copy, expected);
}

CHECK_CASE(what_may_be_shown)
{
    check_shown("{\"text\":\"a\"}", "{\"text\":\"a\"}");
    check_shown(" {\"json\" : [1,\"\\ud800\"]} ", " {\"json\" : [1,\"\\ufffd\"]} ");
    check_shown("{\"text\":\"\\ud83d\\ude00\\ude00\"}", "{\"text\":\"\\ud83d\\ude00\\ufffd\"}");
    check_shown("{}", "{}");
    check_shown("{\"text\":1}", "{}");
    check_shown("{\"text\":\"a\",\"evil\":1,\"html\":[],\"chart\":{}}",
                "{\"text\":\"a\",\"chart\":{}}");
    check_shown("{\"text\":\"a\",\"text\":\"b\"}", "{\"text\":\"a\"}");
    check_shown("{\"png\":\"aGk=\",\"jpeg\":\"a b\",\"data\":[],\"metadata\":{}}",
                "{\"png\":\"aGk=\",\"metadata\":{}}");
    check_shown("{\"te\\u0078t\":\"a\"}", "{}");
    check_shown("[]", NULL);
    check_shown("{\"text\":\"a\"", NULL);
}

static void check_failure(const char *text, int64_t after_ms, const char *expected,
                          bool interrupted)
{
    auto_buf ret;
    bool got = false;
    const struct kernel_timeout timeout = {after_ms};
    auto_free char *copy = strdup(text);
    buf_init(&ret, 65536);
    assert_int_equal(kernel_json_failure(copy, strlen(copy), &timeout, &ret, &got), 0);
    assert_string_equal(buf_str(&ret), expected);
    assert_int_equal(got, interrupted);
}

CHECK_CASE(errors)
{
    check_failure("{}", 0,
                  "{\"name\":\"Error\",\"message\":\"\",\"traceback\":[],\"lineNumber\":null}",
                  false);
    check_failure("{\"lineNumber\":2,\"traceback\":[\"a\\\"]\", \"b\"],\"message\":\"m\","
                  "\"name\":\"E\",\"x\":1}",
                  0,
                  "{\"name\":\"E\",\"message\":\"m\",\"traceback\":[\"a\\\"]\", \"b\"],"
                  "\"lineNumber\":2}",
                  false);
    check_failure("{\"lineNumber\":-2,\"traceback\":[[\"a\"]],\"message\":null}", 0,
                  "{\"name\":\"Error\",\"message\":\"\",\"traceback\":[],\"lineNumber\":null}",
                  false);
    check_failure("{\"name\":\"KeyboardInterrupt\"}", 0,
                  "{\"name\":\"KeyboardInterrupt\",\"message\":\"\",\"traceback\":[],"
                  "\"lineNumber\":null}",
                  true);
    check_failure("{\"name\":\"KeyboardInterrupt\"}", 5,
                  "{\"name\":\"TimeoutError\",\"message\":\"the cell ran for longer than 5 ms\","
                  "\"traceback\":[],\"lineNumber\":null}",
                  true);
    check_failure("{\"name\":\"ValueError\"}", 5,
                  "{\"name\":\"ValueError\",\"message\":\"\",\"traceback\":[],\"lineNumber\":null}",
                  false);
}

CHECK_CASE(small_values)
{
    struct kernel_object object;
    char text[] =
        "{\"n\":9007199254740992,\"m\":9007199254740993,\"f\":1.5,\"t\":true,\"u\":\"a\\n\\"
        "u00e9\\\"\"}";
    char got[8];
    assert_int_equal(kernel_json_scan(text, sizeof text - 1, &object), KERNEL_JSON_OK);
    assert_true(kernel_json_number(&object, "n") == INT64_C(9007199254740992));
    assert_int_equal(kernel_json_number(&object, "m"), -1);
    assert_int_equal(kernel_json_number(&object, "f"), -1);
    assert_int_equal(kernel_json_number(&object, "none"), -1);
    assert_true(kernel_json_bool(&object, "t"));
    assert_false(kernel_json_bool(&object, "n"));
    kernel_json_text(&object, "u", got, sizeof got);
    assert_string_equal(got, "a\n?\"");
    kernel_json_text(&object, "u", got, 3);
    assert_string_equal(got, "a\n");
    kernel_json_text(&object, "n", got, sizeof got);
    assert_string_equal(got, "");
}

CHECK_MAIN(cmocka_unit_test(frames_in_any_pieces), cmocka_unit_test(what_is_no_frame),
           cmocka_unit_test(the_largest_frame), cmocka_unit_test(the_rest_of_a_frame_is_skipped),
           cmocka_unit_test(what_is_json), cmocka_unit_test(depth_costs_no_stack),
           cmocka_unit_test(what_may_be_shown), cmocka_unit_test(errors),
           cmocka_unit_test(small_values))
