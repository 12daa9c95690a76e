// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "check.h"
#include "edge/target.h"

static void parse_ok(struct target *target, const char *raw)
{
    struct err err = {0};
    if (target_parse(target, raw, &err) < 0)
        fail_msg("'%s': %s", raw, err.msg);
}

static void refused(const char *raw, enum err_code code)
{
    struct target target = {.n_segments = 77};
    struct err err = {0};
    if (target_parse(&target, raw, &err) == 0)
        fail_msg("'%s' is not refused", raw);
    assert_int_equal(err.code, code);
    assert_true(strlen(err.msg) > 0);
    assert_int_equal(target.n_segments, 77);
}

CHECK_CASE(the_root_has_no_segments)
{
    struct target target;
    parse_ok(&target, "/");
    assert_int_equal(target.n_segments, 0);
    assert_int_equal(target.n_query, 0);
    target_done(&target);
    parse_ok(&target, "/?a=1");
    assert_int_equal(target.n_segments, 0);
    assert_string_equal(target_query(&target, "a"), "1");
    target_done(&target);
}

CHECK_CASE(segments_are_decoded_once)
{
    struct target target;
    parse_ok(&target, "/sandbox/a%20b/%c3%a9/%2541/a+b/%3f%26%3D/.../.a");
    const char *want[] = {"sandbox", "a b", "\xc3\xa9", "%41", "a+b", "?&=", "...", ".a"};
    assert_int_equal(target.n_segments, 8);
    for (size_t i = 0; i < 8; i++)
        assert_string_equal(target.segments[i], want[i]);
    target_done(&target);
}

CHECK_CASE(queries_are_decoded_once)
{
    struct target target;
    parse_ok(&target, "/a?x=1+2&y=%2B%2f%2541&z=&w&%61b=c=d&e=/?");
    assert_int_equal(target.n_query, 6);
    assert_string_equal(target_query(&target, "x"), "1 2");
    assert_string_equal(target_query(&target, "y"), "+/%41");
    assert_string_equal(target_query(&target, "z"), "");
    assert_string_equal(target_query(&target, "w"), "");
    assert_string_equal(target_query(&target, "ab"), "c=d");
    assert_string_equal(target_query(&target, "e"), "/?");
    assert_null(target_query(&target, "X"));
    target_done(&target);
    parse_ok(&target, "/a?");
    assert_int_equal(target.n_query, 0);
    target_done(&target);
}

CHECK_CASE(what_could_be_read_in_two_ways_is_refused)
{
    static const char *const bad[] = {
        "",
        "a",
        "*",
        "http://a/b",
        "?a",
        "//",
        "//a",
        "/a/",
        "/a//b",
        "/.",
        "/..",
        "/a/../b",
        "/a/./b",
        "/%2e",
        "/%2E%2e",
        "/.%2e/b",
        "/a/%2e./b",
        "/a%00b",
        "/%00",
        "/a?x=%00",
        "/a?%00=x",
        "/a%2fb",
        "/a%2Fb",
        "/%2f",
        "/a%",
        "/a%4",
        "/a%zz",
        "/a%4g",
        "/a%-1",
        "/a%+1",
        "/a% 1",
        "/a?x=%",
        "/a?x=%4",
        "/%ff",
        "/%c0%af",       // overlong slash
        "/%c0%80",       // overlong NUL
        "/%e0%80%af",    //
        "/%ed%a0%80",    // a surrogate
        "/%f4%90%80%80", // past the last character
        "/%c3",          // cut
        "/a?x=%c3%28",   //
        "/a?x=1&x=2",    //
        "/a?x=1&%78=2",  // the same name, written otherwise
        "/a?x&x",        //
        "/a?=1",         //
        "/a?&",          //
        "/a?x=1&",       //
        "/a?x=1&&y=2",   //
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(bad[i], ERR_INVALID);
}

CHECK_CASE(limits)
{
    char raw[EDGE_TARGET_MAX + 2];
    struct target target;
    memset(raw, 'a', sizeof raw);
    raw[0] = '/';
    raw[EDGE_TARGET_MAX] = '\0';
    parse_ok(&target, raw);
    assert_int_equal(strlen(target.segments[0]), EDGE_TARGET_MAX - 1);
    target_done(&target);
    raw[EDGE_TARGET_MAX] = 'a';
    raw[EDGE_TARGET_MAX + 1] = '\0';
    refused(raw, ERR_INVALID);

    for (size_t i = 0; i < EDGE_TARGET_MAX / 2; i++) // as many as fit
        memcpy(raw + 2 * i, "/a", 3);
    parse_ok(&target, raw);
    assert_int_equal(target.n_segments, EDGE_TARGET_MAX / 2);
    const char *rest = NULL;
    assert_true(target_match(&target, "/a/{path*}", &rest));
    assert_string_equal(rest, raw + 3);
    target_done(&target);

    size_t n = (size_t)snprintf(raw, sizeof raw, "/");
    for (int i = 0; i < EDGE_QUERY_MAX; i++)
        n += (size_t)snprintf(raw + n, sizeof raw - n, "%cn%d", i == 0 ? '?' : '&', i);
    parse_ok(&target, raw);
    assert_int_equal(target.n_query, EDGE_QUERY_MAX);
    target_done(&target);
    (void)snprintf(raw + n, sizeof raw - n, "&m");
    refused(raw, ERR_INVALID);
}

CHECK_CASE(patterns_match)
{
    static const struct {
        const char *raw;
        const char *pattern;
        const char *params[2]; // NULL: it does not match
    } table[] = {
        {"/",                             "/",                            {"", ""}         },
        {"/a",                            "/",                            {NULL}           },
        {"/",                             "/a",                           {NULL}           },
        {"/sandbox",                      "/sandbox",                     {"", ""}         },
        {"/sandbox?x=1",                  "/sandbox",                     {"", ""}         },
        {"/sandboxes",                    "/sandbox",                     {NULL}           },
        {"/sandbo",                       "/sandbox",                     {NULL}           },
        {"/Sandbox",                      "/sandbox",                     {NULL}           },
        {"/sandbox/a/exec",               "/sandbox/{id}/exec",           {"a", ""}        },
        {"/sandbox/a%20b/exec",           "/sandbox/{id}/exec",           {"a b", ""}      },
        {"/sandbox/{id}/exec",            "/sandbox/{id}/exec",           {"{id}", ""}     },
        {"/sandbox/a",                    "/sandbox/{id}/exec",           {NULL}           },
        {"/sandbox/a/exec/b",             "/sandbox/{id}/exec",           {NULL}           },
        {"/sandbox/a/b",                  "/sandbox/{id}/exec",           {NULL}           },
        {"/sandbox/a/sessions/s",         "/sandbox/{id}/sessions/{sid}", {"a", "s"}       },
        {"/sandbox/a/files",              "/sandbox/{id}/files/{path*}",  {NULL}           },
        {"/sandbox/a/files/b",            "/sandbox/{id}/files/{path*}",  {"a", "b"}       },
        {"/sandbox/a/files/b%20c/d/%25e", "/sandbox/{id}/files/{path*}",  {"a", "b c/d/%e"}},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const char *params[TARGET_PARAMS_MAX] = {"", ""};
        struct target target;
        parse_ok(&target, table[i].raw);
        bool match = target_match(&target, table[i].pattern, params);
        if (match != (table[i].params[0] != NULL))
            fail_msg("'%s' and '%s'", table[i].raw, table[i].pattern);
        for (size_t k = 0; k < 2; k++)
            assert_string_equal(params[k], match ? table[i].params[k] : "");
        target_done(&target);
    }
}

CHECK_MAIN(cmocka_unit_test(the_root_has_no_segments), cmocka_unit_test(segments_are_decoded_once),
           cmocka_unit_test(queries_are_decoded_once),
           cmocka_unit_test(what_could_be_read_in_two_ways_is_refused), cmocka_unit_test(limits),
           cmocka_unit_test(patterns_match))
