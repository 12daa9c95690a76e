// SPDX-License-Identifier: Apache-2.0
// The matcher beside the C library's, and what nobody shall be able to do with it.
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "api/pattern.h"
#include "check.h"

static bool found(const char *pattern, const char *text)
{
    struct err err = {0};
    struct pattern *p = NULL;
    if (pattern_new(pattern, &p, &err) < 0)
        fail_msg("%s: %s", pattern, err.msg);
    bool yes = pattern_found(p, text, strlen(text));
    pattern_free(p);
    return yes;
}

CHECK_CASE(test_like_the_c_library)
{
    static const char *const patterns[] = {
        "",
        "a",
        "abc",
        "a*",
        "^a*$",
        "a+b",
        "a?b",
        "^(ab)*$",
        "(a|b)c",
        "^(a|bc)*$",
        "a|b|c",
        "^a|b$",
        ".",
        "^.$",
        "[abc]+$",
        "^[^abc]+$",
        "[]a]",
        "[^]a]",
        "[a-c-]",
        "^a{2}$",
        "^a{2,}$",
        "a{1,3}b",
        "^(ab){2}$",
        "^(a|b){0,2}$",
        "x{0}",
        "^$",
        "a.c",
        "\\.",
        "\\[a\\]",
        "(a*)*b",
        "(a*)+$",
        "((a|b)*c)*$",
        "[[:digit:]]+",
        "^[[:alpha:]_]+$",
        "(^a|b)c",
        "a(b|)c",
        "()a",
    };
    static const char *const texts[] = {
        "",   "a",  "b",    "c",      "aa",  "aaa", "ab",   "abab", "abc",
        "bc", "ac", "]",    "-",      "[a]", "a.c", "a-c",  "xyz",  "12",
        "a1", "_",  "aabc", "abcabc", "cab", "bca", "aaab", "abbc", "abca",
    };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        regex_t theirs;
        assert_int_equal(regcomp(&theirs, patterns[i], REG_EXTENDED | REG_NOSUB), 0);
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
            bool want = regexec(&theirs, texts[k], 0, NULL, 0) == 0;
            if (found(patterns[i], texts[k]) != want)
                fail_msg("'%s' in '%s': not %d", patterns[i], texts[k], want);
        }
        regfree(&theirs);
    }
}

CHECK_CASE(test_more)
{
    assert_true(found("\\d+\\s\\w", "at 12 x"));
    assert_false(found("\\d", "none"));
    assert_true(found("a\\tb", "a\tb"));
    assert_true(found("listening on .*:[0-9]{2,5}$", "2026 INFO listening on 0.0.0.0:8080"));
    assert_true(found("\xc3\xa9", "caf\xc3\xa9"));
}

CHECK_CASE(test_refused)
{
    static const char *const bad[] = {
        "(",
        ")",
        "(a",
        "a)",
        "[",
        "[a",
        "[z-a]",
        "*",
        "+a",
        "a|*",
        "a{",
        "a{x}",
        "a{2",
        "a{3,2}",
        "a{256}",
        "[[:no:]]",
        "\\",
        "\\q",
        "a{1,999999999999}",
    };
    struct err err = {0};
    struct pattern *p = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (pattern_new(bad[i], &p, &err) == 0)
            fail_msg("'%s' was taken", bad[i]);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

CHECK_CASE(test_bounded)
{
    struct err err = {0};
    struct pattern *p = NULL;
    char deep[300];
    assert_int_equal(pattern_new("((((((a{200}){200}){200}){200}){200}){200})", &p, &err), -1);
    assert_int_equal(pattern_new("((((((){200}){200}){200}){200}){200})", &p, &err), 0);
    pattern_free(p);
    memset(deep, '(', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    assert_int_equal(pattern_new(deep, &p, &err), -1);
    for (size_t i = 0; i + 1 < sizeof deep; i++)
        deep[i] = '|';
    (void)pattern_new(deep, &p, &err); // whatever it says, it says it soon
    // Hours for a matcher that tries one way after the other.
    char text[8001];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_false(found("^(a*)*(a*)*(a*)*(a|a)*(a|a)*b$", text));
    assert_false(found("^(a|aa){1,20}(a?){20}a{20}c$", text));
}

CHECK_CASE(test_bytes)
{
    struct err err = {0};
    struct pattern *p = NULL;
    assert_int_equal(pattern_new("^a.b$", &p, &err), 0);
    assert_true(pattern_found(p, "a\0b", 3));
    assert_false(pattern_found(p, "a\0b", 2));
    pattern_free(p);
    assert_int_equal(pattern_new("[^a]", &p, &err), 0);
    assert_true(pattern_found(p, "\xff", 1));
    pattern_free(p);
    pattern_free(NULL);
}

CHECK_MAIN(cmocka_unit_test(test_like_the_c_library), cmocka_unit_test(test_more),
           cmocka_unit_test(test_refused), cmocka_unit_test(test_bounded),
           cmocka_unit_test(test_bytes))
