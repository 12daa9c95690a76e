// SPDX-License-Identifier: Apache-2.0
// Cut at every byte, and then again: what is told is the text, and never half a character.
#include <string.h>

#include "base/buf.h"
#include "base/pieces.h"
#include "base/text.h"
#include "check.h"

static struct buf told;
static bool all_whole;

static void tell(void *data, const char *bytes, size_t len)
{
    (void)data;
    assert_true(len > 0);
    all_whole = all_whole && utf8_valid(bytes, len);
    (void)buf_append(&told, bytes, len);
}

static void take(const char *text, size_t len, size_t first, size_t second, size_t max)
{
    struct pieces p = {0};
    buf_reset(&told);
    all_whole = true;
    pieces_take(&p, text, first, max, tell, NULL);
    pieces_take(&p, text + first, second - first, max, tell, NULL);
    pieces_take(&p, text + second, len - second, max, tell, NULL);
    pieces_end(&p, tell, NULL);
    assert_int_equal(told.len, len);
    assert_memory_equal(told.data, text, len);
}

static void take_all_ways(const char *text, size_t len, bool is_text)
{
    for (size_t first = 0; first <= len; first++) {
        for (size_t second = first; second <= len; second++) {
            for (size_t max = 8; max <= 16; max++) {
                take(text, len, first, second, max);
                assert_true(all_whole || !is_text);
            }
        }
    }
}

CHECK_CASE(test_text)
{
    static const char text[] =
        "a\xc3\xa4\xe2\x82\xac z\xf0\x9f\x98\x80\xf0\x9f\x98\x80 \xe2\x82\xac";
    buf_init(&told, 1024);
    take_all_ways(text, sizeof text - 1, true);
    buf_done(&told);
}

CHECK_CASE(test_what_is_none)
{
    static const char text[] = "\xff\xc3\xc3\xa4\x80\x80\x80\x80\x80\xe2\x82\0\xf0\x9f\xf0\x9f\x98";
    buf_init(&told, 1024);
    take_all_ways(text, sizeof text - 1, false);
    take_all_ways("\xf0", 1, false);
    take_all_ways("", 0, true);
    buf_done(&told);
}

CHECK_MAIN(cmocka_unit_test(test_text), cmocka_unit_test(test_what_is_none))
