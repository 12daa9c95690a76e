// SPDX-License-Identifier: Apache-2.0
// Both ends of a text, against all of it.
#include <stdlib.h>
#include <string.h>

#include "agents/kept.h"
#include "check.h"

enum { MAX = 20 };

static void check_kept(const char *all, size_t len, size_t piece)
{
    struct kept kept;
    auto_buf text;
    buf_init(&text, 1000);
    kept_init(&kept, MAX);
    for (size_t at = 0; at < len; at += piece)
        kept_add(&kept, all + at, len - at < piece ? len - at : piece);
    kept_text(&kept, &text);
    assert_int_equal(text.failed, 0);
    assert_int_equal(kept_is_cut(&kept), len > MAX);
    char expected[200];
    (void)snprintf(expected, sizeof expected, "%.10s\n... [%zu bytes are left out here] ...\n%s",
                   all, len - MAX, len > MAX ? all + len - MAX / 2 : "");
    assert_string_equal(buf_str(&text), len > MAX ? expected : all);
    kept_done(&kept);
}

CHECK_CASE(ends)
{
    for (size_t len = 0; len < 100; len++) {
        char all[101];
        for (size_t i = 0; i < len; i++)
            all[i] = (char)('a' + i % 26);
        all[len] = '\0';
        for (size_t piece = 1; piece <= len; piece++)
            check_kept(all, len, piece);
    }
}

// Characters of one to four bytes: none is cut.
CHECK_CASE(characters)
{
    static const char *const units[] = {"x", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t u = 0; u < 4; u++) {
        for (size_t shift = 0; shift < 4; shift++) {
            struct kept kept;
            auto_buf text;
            buf_init(&text, 1000);
            kept_init(&kept, MAX);
            kept_add(&kept, "abcd", shift);
            for (int i = 0; i < 50; i++)
                kept_add(&kept, units[u], u + 1);
            kept_text(&kept, &text);
            size_t n = 0, at = 0;
            for (; at < text.len; n++)
                at += (unsigned char)text.data[at] < 0x80 ? 1 : u + 1;
            assert_int_equal(at, text.len);
            for (const char *p = text.data + shift; *p != '\n'; p += u + 1)
                assert_memory_equal(p, units[u], u + 1);
            assert_memory_equal(text.data + text.len - u - 1, units[u], u + 1);
            kept_done(&kept);
        }
    }
}

CHECK_MAIN(cmocka_unit_test(ends), cmocka_unit_test(characters))
