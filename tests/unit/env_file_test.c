// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "check.h"
#include "cli/env-file.h"
#include "cli/table.h"

static const struct {
    const char *text, *value; // NULL: there is none
} good[] = {
    {"K=v",                      "v"           },
    {"K=",                       ""            },
    {"",                         NULL          },
    {"\n\n# K=v\n",              NULL          },
    {"  export\tK = v w \t\r\n", "v w"         },
    {"exportK=v",                NULL          },
    {"export K",                 NULL          },
    {"K",                        NULL          },
    {"KK=v\nK_=v\nXK=v",         NULL          },
    {"K=v # c",                  "v"           },
    {"K=v#c",                    "v#c"         },
    {"K=#c",                     ""            },
    {"K='a\\n\"#' # c",          "a\\n\"#"     },
    {"K=\"a\\n\\\"\\\\'$X\"",    "a\n\"\\'$X"  },
    {"K=a\nK=b",                 "b"           },
    {"K='a\nb'\nK=c",            "?"           }, // an error, though a later line is fine
    {"K=\"\\",                   "?"           },
    {"K=''x",                    "?"           },
    {"J='a\nK=b",                "b"           }, // nobody asked for J
    {"\xef\xbb\xbfK=v",          "v"           },
    {"K=$(reboot)`x`",           "$(reboot)`x`"},
};

static void test_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct err err = {0};
        auto_buf value;
        buf_init(&value, 64);
        int r = env_file_get(good[i].text, strlen(good[i].text), "K", &value, &err);
        if (good[i].value != NULL && strcmp(good[i].value, "?") == 0) {
            assert_int_equal(r, -1);
            assert_int_equal(err.code, ERR_INVALID);
            continue;
        }
        assert_int_equal(r, good[i].value != NULL);
        if (good[i].value != NULL)
            assert_string_equal(buf_str(&value), good[i].value);
    }
}

static void test_bounds(void **state)
{
    (void)state;
    struct err err = {0};
    auto_buf value;
    buf_init(&value, 3);
    assert_int_equal(env_file_get("K=abc", 5, "K", &value, &err), 1);
    assert_int_equal(env_file_get("K=abcd", 6, "K", &value, &err), -1);
    assert_int_equal(env_file_get("\n\nK=\"abcd\"", 10, "K", &value, &err), -1);
    assert_non_null(strstr(err.msg, "line 3"));
    assert_int_equal(env_file_get("K=a\0b", 5, "K", &value, &err), -1);
}

// At every split it is the same text.
static void test_plain_lines(void **state)
{
    static const char text[] = "a\r\nb\rc\n\r\n\r\rd\te\x1b[1m\xc3\xa4\r";
    static const char plain[] = "a\nb\nc\n\n\n\nd\te\\x1b[1m\xc3\xa4\n";
    (void)state;
    for (size_t cut = 0; cut < sizeof text; cut++) {
        bool after_cr = false;
        auto_buf out;
        buf_init(&out, 1000);
        if (cut > 0 && ((unsigned char)text[cut - 1]) == 0xc3)
            continue; // pieces are whole characters
        assert_int_equal(text_plain_lines(&out, text, cut, &after_cr), 0);
        assert_int_equal(text_plain_lines(&out, text + cut, sizeof text - 1 - cut, &after_cr), 0);
        assert_string_equal(buf_str(&out), plain);
        assert_true(after_cr);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_plain_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
