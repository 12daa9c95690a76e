// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/body-token.h"
#include "check.h"

// In memory of its own, so that the sanitizers see a step too far.
static int find(const char *text, size_t len, char ret[BODY_TOKEN_MAX])
{
    char *copy = malloc(len);
    assert_true(copy != NULL || len == 0);
    if (len > 0)
        memcpy(copy, text, len);
    int r = body_token_find(copy, len, ret);
    free(copy);
    return r;
}

CHECK_CASE(test_where_it_is)
{
    static const char *const found[] = {
        "{\"auth_token\":\"abc\"}",
        " { \"task\" : \"x\" ,\n\t\"auth_token\" :\r\n \"abc\" }",
        "{\"task\":\"say \\\"auth_token\\\": \\\"no\\\"\",\"auth_token\":\"abc\"}",
        "{\"options\":{\"auth_token\":\"no\"},\"auth_token\":\"abc\"}",
        "{\"a\":[{\"auth_token\":\"no\"}],\"auth_token\":\"abc\"}",
        "{\"task\":\"auth_token\",\"auth_token\":\"abc\"}",
        "{\"task\":\"}}}\",\"auth_token\":\"abc\"}",
        "{\"task\":\"\\\\\",\"auth_token\":\"abc\"}",
        "{\"auth_token\":\"abc\",", // the parser of bodies refuses it, and knows who sent it
    };
    char ret[BODY_TOKEN_MAX];
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        assert_int_equal(find(found[i], strlen(found[i]), ret), 1);
        assert_string_equal(ret, "abc");
    }
}

CHECK_CASE(test_where_it_is_not)
{
    static const char *const none[] = {
        "",
        "{",
        "{}",
        "null",
        "\"auth_token\"",
        "{\"task\":\"auth_token\"}",
        "{\"options\":{\"auth_token\":\"abc\"}}",
        "[[\"auth_token\"],{\"auth_token\":\"abc\"}]",
        "{\"auth_token\"",
        "{\"auth_token\" \"abc\"}",
        "{\"auth_token\":null}",
        "{\"auth_token2\":\"abc\",\"Auth_token\":\"abc\"}",
        "{\"auth\\u005ftoken\":\"abc\"}",
        "{\"task\":\"\\\",\\\"auth_token\\\":\\\"abc\\\"",
    };
    char ret[BODY_TOKEN_MAX];
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(find(none[i], strlen(none[i]), ret), 0);
}

CHECK_CASE(test_what_cannot_be_one)
{
    static const char *const bad[] = {
        "{\"auth_token\":",
        "{\"auth_token\":1}",
        "{\"auth_token\":\"\"}",
        "{\"auth_token\":[\"abc\"]}",
        "{\"auth_token\":\"a b\"}",
        "{\"auth_token\":\"a\\u0062\"}",
        "{\"auth_token\":\"a\xc3\xa9\"}",
        "{\"auth_token\":\"a,b\"}",
        "{\"auth_token\":\"a\nb\"}",
    };
    char ret[BODY_TOKEN_MAX];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(find(bad[i], strlen(bad[i]), ret), -1);
}

CHECK_CASE(test_length)
{
    char text[BODY_TOKEN_MAX + 64], ret[BODY_TOKEN_MAX];
    for (int len = BODY_TOKEN_MAX - 2; len <= BODY_TOKEN_MAX + 1; len++) {
        int n = snprintf(text, sizeof text, "{\"auth_token\":\"%0*d\"}", len, 0);
        assert_int_equal(find(text, (size_t)n, ret), len < BODY_TOKEN_MAX ? 1 : -1);
    }
}

// Cut anywhere it is found whole, or not at all.
CHECK_CASE(test_every_cut)
{
    static const char text[] = "{\"task\":\"a\\\\\\\"b\",\"auth_token\":\"abc\",\"x\":[1,{}]}";
    char ret[BODY_TOKEN_MAX];
    size_t whole = (size_t)(strstr(text, "abc") - text) + 3;
    for (size_t len = 0; len < sizeof text; len++) {
        ret[0] = '\0';
        int r = find(text, len, ret);
        if (len >= whole)
            assert_int_equal(r, 1);
        if (r > 0)
            assert_int_equal(strncmp(ret, "abc", strlen(ret)), 0);
    }
}

CHECK_MAIN(cmocka_unit_test(test_where_it_is), cmocka_unit_test(test_where_it_is_not),
           cmocka_unit_test(test_what_cannot_be_one), cmocka_unit_test(test_length),
           cmocka_unit_test(test_every_cut))
