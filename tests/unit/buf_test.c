// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "check.h"

// So that an allocation nobody can have comes back as NULL instead of ending the test.
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

CHECK_CASE(empty_is_text)
{
    auto_buf buf;
    buf_init(&buf, 10);
    assert_string_equal(buf_str(&buf), "");
    buf_consume(&buf, 0);
    buf_commit(&buf, 0);
    assert_int_equal(buf_append(&buf, "", 0), 0);
    assert_string_equal(buf_str(&buf), "");
    buf_done(NULL);
}

// Every way of cutting a text in three, into every maximum: the result is the text's beginning.
CHECK_CASE(append_at_every_split)
{
    static const char text[] = "The quick brown fox\0jumps over";
    const size_t len = sizeof text - 1;
    for (size_t max = 0; max <= len + 1; max++) {
        for (size_t i = 0; i <= len; i++) {
            for (size_t j = i; j <= len; j++) {
                auto_buf buf;
                buf_init(&buf, max);
                (void)buf_append(&buf, text, i);
                (void)buf_append(&buf, text + i, j - i);
                (void)buf_append(&buf, text + j, len - j);
                size_t want = len < max ? len : max;
                assert_int_equal(buf.len, want);
                assert_int_equal(buf.failed, len > max ? -E2BIG : 0);
                assert_memory_equal(buf_str(&buf), text, want);
                assert_int_equal(buf_str(&buf)[want], 0);
            }
        }
    }
}

CHECK_CASE(grows_to_its_maximum_and_no_further)
{
    auto_buf buf;
    buf_init(&buf, 1000);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(buf_append_char(&buf, (char)('a' + i % 26)), 0);
        assert_true(buf.cap <= 1000);
    }
    assert_int_equal(buf_append_char(&buf, '!'), -E2BIG);
    assert_int_equal(buf.len, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(buf.data[i], 'a' + i % 26);
}

CHECK_CASE(failure_is_remembered_until_reset)
{
    auto_buf buf;
    buf_init(&buf, 4);
    assert_int_equal(buf_append_str(&buf, "abcdef"), -E2BIG);
    assert_string_equal(buf_str(&buf), "abcd");
    buf_consume(&buf, 2);
    assert_int_equal(buf_append_str(&buf, "x"), 0);
    assert_int_equal(buf.failed, -E2BIG);
    assert_string_equal(buf_str(&buf), "cdx");
    buf_reset(&buf);
    assert_int_equal(buf.failed, 0);
    assert_string_equal(buf_str(&buf), "");
    assert_int_equal(buf_append_str(&buf, "abcd"), 0);
}

CHECK_CASE(printf_at_every_length)
{
    char want[300];
    for (int len = 0; len < 300; len++) {
        (void)memset(want, 'x', sizeof want);
        want[len] = '\0';
        for (size_t max = 0; max < 300; max += 7) {
            auto_buf buf;
            buf_init(&buf, max);
            int r = buf_printf(&buf, "%s", want);
            size_t fits = (size_t)len < max ? (size_t)len : max;
            assert_int_equal(r, (size_t)len > max ? -E2BIG : 0);
            assert_int_equal(buf.len, fits);
            assert_int_equal(strlen(buf_str(&buf)), fits);
        }
    }
}

CHECK_CASE(printf_appends)
{
    auto_buf buf;
    buf_init(&buf, 100);
    for (int i = 0; i < 20; i++)
        assert_int_equal(buf_printf(&buf, "%d,", i), 0);
    assert_string_equal(buf_str(&buf), "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,");
}

CHECK_CASE(reserve_and_commit)
{
    auto_buf buf;
    char *at = NULL;
    size_t room = 0;
    buf_init(&buf, 100);
    assert_int_equal(buf_append_str(&buf, "head"), 0);
    assert_int_equal(buf_reserve(&buf, 64, &at, &room), 0);
    assert_int_equal(room, 64);
    memcpy(at, "tail", 4);
    buf_commit(&buf, 4);
    assert_string_equal(buf_str(&buf), "headtail");
    assert_int_equal(buf_reserve(&buf, 500, &at, &room), 0);
    assert_int_equal(room, 92);
    (void)memset(at, '.', room);
    buf_commit(&buf, room);
    assert_int_equal(buf.len, 100);
    assert_int_equal(buf_reserve(&buf, 1, &at, &room), -E2BIG);
    assert_int_equal(buf_reserve(&buf, 0, &at, &room), 0);
    assert_int_equal(room, 0);
}

// A queue: appended at the end, consumed at the front, in all small step sizes, against a plain
// model.
CHECK_CASE(consume_at_every_step)
{
    for (size_t in = 1; in <= 9; in++) {
        for (size_t out = 1; out <= 9; out++) {
            auto_buf buf;
            buf_init(&buf, 64);
            size_t written = 0, read = 0;
            while (written < 400) {
                for (size_t i = 0; i < in && buf.len < buf.max; i++)
                    assert_int_equal(buf_append_char(&buf, (char)written++), 0);
                size_t take = out < buf.len ? out : buf.len;
                for (size_t i = 0; i < take; i++)
                    assert_int_equal(buf.data[i], (char)(read + i));
                buf_consume(&buf, take);
                read += take;
                assert_int_equal(buf.len, written - read);
            }
        }
    }
}

CHECK_CASE(no_memory_keeps_what_is_there)
{
    auto_buf buf;
    char *at = NULL;
    size_t room = 0;
    buf_init(&buf, SIZE_MAX);
    assert_int_equal(buf_append_str(&buf, "here"), 0);
    assert_int_equal(buf_reserve(&buf, SIZE_MAX / 2, &at, &room), -ENOMEM);
    assert_null(at);
    assert_int_equal(buf.failed, -ENOMEM);
    assert_string_equal(buf_str(&buf), "here");
    assert_int_equal(buf_append_str(&buf, " still"), 0);
    assert_string_equal(buf_str(&buf), "here still");
}

CHECK_CASE(done_may_be_used_again)
{
    struct buf buf;
    buf_init(&buf, 8);
    assert_int_equal(buf_append_str(&buf, "one"), 0);
    buf_done(&buf);
    assert_int_equal(buf_append_str(&buf, "two"), 0);
    assert_string_equal(buf_str(&buf), "two");
    buf_done(&buf);
    buf_done(&buf);
}

static void consume_too_much(void)
{
    struct buf buf;
    buf_init(&buf, 8);
    (void)buf_append_str(&buf, "ab");
    buf_consume(&buf, 3);
}

static void commit_too_much(void)
{
    struct buf buf;
    buf_init(&buf, 8);
    (void)buf_append_str(&buf, "ab");
    buf_commit(&buf, 7);
}

CHECK_CASE(misuse_aborts)
{
    assert_int_equal(check_signal(consume_too_much), SIGABRT);
    assert_int_equal(check_signal(commit_too_much), SIGABRT);
}

CHECK_MAIN(cmocka_unit_test(empty_is_text), cmocka_unit_test(append_at_every_split),
           cmocka_unit_test(grows_to_its_maximum_and_no_further),
           cmocka_unit_test(failure_is_remembered_until_reset),
           cmocka_unit_test(printf_at_every_length), cmocka_unit_test(printf_appends),
           cmocka_unit_test(reserve_and_commit), cmocka_unit_test(consume_at_every_step),
           cmocka_unit_test(no_memory_keeps_what_is_there),
           cmocka_unit_test(done_may_be_used_again), cmocka_unit_test(misuse_aborts))
