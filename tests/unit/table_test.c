// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cli/table.h"

static void assert_plain(const char *text, size_t len, const char *want)
{
    auto_buf got;
    buf_init(&got, 1024);
    assert_int_equal(text_plain(&got, text, len), 0);
    assert_string_equal(buf_str(&got), want);
}

CHECK_CASE(plain_text_stays)
{
    static const char text[] = "name-1.x \xc3\xa4\xe4\xb8\xad\xf0\x9f\x98\x80";
    assert_plain(text, sizeof text - 1, text);
    assert_plain("", 0, "");
}

CHECK_CASE(what_moves_a_cursor_is_written_out)
{
    assert_plain("a\x1b[2Jb", 6, "a\\x1b[2Jb");
    assert_plain("a\nb\tc\rd", 7, "a\\x0ab\\x09c\\x0dd");
    assert_plain("\0\x7f", 2, "\\x00\\x7f");
    assert_plain("\xc2\x9b", 2, "\\u009b");          // CSI in one character
    assert_plain("\xe2\x80\xae", 3, "\\u202e");      // right to left
    assert_plain("\xe2\x80\x8b", 3, "\\u200b");      // nothing to see
    assert_plain("\x9b\xff", 2, "\\x9b\\xff");       // not UTF-8
    assert_plain("\xc3", 1, "\\xc3");                // half a character
    assert_plain("\xf3\xa0\x81\x81", 4, "\\ue0041"); // a tag
}

// Every byte alone, and every pair: nothing that a terminal obeys comes out.
CHECK_CASE(no_byte_gets_through)
{
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            const char text[] = {(char)a, (char)b};
            auto_buf got;
            buf_init(&got, 64);
            assert_int_equal(text_plain(&got, text, 2), 0);
            for (size_t i = 0; i < got.len; i++) {
                unsigned char c = (unsigned char)got.data[i];
                assert_true(c >= 0x20 && c != 0x7f);
                if (c == 0xc2)
                    assert_true((unsigned char)got.data[i + 1] >= 0xa0);
            }
        }
    }
}

CHECK_CASE(json_stays_json)
{
    static const char text[] = "{\"a\": \"\x7f\xc2\x9b\xf3\xa0\x81\x81\",\r\n\t\"b\": 1}";
    auto_buf got;
    buf_init(&got, 1024);
    assert_int_equal(text_plain_json(&got, text, sizeof text - 1), 0);
    assert_string_equal(buf_str(&got), "{\"a\": \"\\u007f\\u009b\\udb40\\udc41\", \n\t\"b\": 1}");
}

CHECK_CASE(widths)
{
    assert_int_equal(text_width(""), 0);
    assert_int_equal(text_width("abc"), 3);
    assert_int_equal(text_width("\xc3\xa4"), 1);
    assert_int_equal(text_width("\xe4\xb8\xad\xe6\x96\x87"), 4);
    assert_int_equal(text_width("e\xcc\x81"), 1);
    assert_int_equal(text_width("\xff"), 1);
}

static void assert_table(const struct table *table, const char *want)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    assert_int_equal(cli_table_print(table, out, false), 0);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, want);
    free(text);
}

static const struct table_column columns[] = {
    {"ID",   false},
    {"SIZE", true },
    {"NAME", false},
};

CHECK_CASE(columns_line_up)
{
    struct table table;
    cli_table_init(&table, columns, 3);
    assert_table(&table, "ID  SIZE  NAME\n");
    cli_table_cell(&table, "longer");
    cli_table_cellf(&table, "%d", 12345);
    cli_table_cell(&table, "x y");
    cli_table_cell(&table, "\xe4\xb8\xad");
    cli_table_cell(&table, NULL);
    cli_table_cell(&table, "a\nb\x1b[1m");
    assert_table(&table, "ID       SIZE  NAME\n"
                         "longer  12345  x y\n"
                         "\xe4\xb8\xad          -  a\\x0ab\\x1b[1m\n");
    cli_table_done(&table);
}

CHECK_CASE(sizes_and_times)
{
    char text[24];
    assert_string_equal(text_size(text, sizeof text, 0), "0 B");
    assert_string_equal(text_size(text, sizeof text, 1023), "1023 B");
    assert_string_equal(text_size(text, sizeof text, 1536), "1.5 KiB");
    assert_string_equal(text_size(text, sizeof text, 1 << 30), "1 GiB");
    assert_string_equal(text_size(text, sizeof text, UINT64_MAX), "16777216 TiB");
    assert_string_equal(text_ago(text, sizeof text, -5), "0s");
    assert_string_equal(text_ago(text, sizeof text, 119), "119s");
    assert_string_equal(text_ago(text, sizeof text, 120), "2m");
    assert_string_equal(text_ago(text, sizeof text, 7200), "2h");
    assert_string_equal(text_ago(text, sizeof text, 172800), "2d");
}

CHECK_MAIN(cmocka_unit_test(plain_text_stays), cmocka_unit_test(what_moves_a_cursor_is_written_out),
           cmocka_unit_test(no_byte_gets_through), cmocka_unit_test(json_stays_json),
           cmocka_unit_test(widths), cmocka_unit_test(columns_line_up),
           cmocka_unit_test(sizes_and_times))
