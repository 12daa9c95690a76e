// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/json-in.h"
#include "check.h"

// In memory of exactly its size, so that a step too far is seen.
static int read_bytes(const char *text, size_t len, struct json_doc **ret, struct err *err)
{
    char *copy = malloc(len);
    assert_true(copy != NULL || len == 0);
    if (len > 0)
        memcpy(copy, text, len);
    int r = json_read(copy, len, ret, err);
    free(copy); // the document owns nothing of it
    return r;
}

static struct json_doc *must_read(const char *text)
{
    struct json_doc *doc = NULL;
    struct err err = {0};
    if (read_bytes(text, strlen(text), &doc, &err) < 0)
        fail_msg("%s: %s", text, err.msg);
    return doc;
}

static void must_refuse(const char *text, size_t len)
{
    struct json_doc *doc = NULL;
    struct err err = {0};
    if (read_bytes(text, len, &doc, &err) == 0)
        fail_msg("accepted: %s", text);
    assert_null(doc);
    assert_int_equal(err.code, ERR_INVALID);
    assert_non_null(strstr(err.msg, "at byte "));
}

CHECK_CASE(an_answer)
{
    auto_json_doc *doc = must_read(
        " {\"success\" : true, \"exitCode\":-7,\"stdout\":\"a\\nb\", \"gone\":null,\r\n"
        "\t\"limits\":{\"memory\":9223372036854775807,\"cpus\":0.5},\"list\":[1,\"two\",[],{}]} ");
    const struct json_node *root = json_root(doc);
    assert_true(json_is(root, JSON_NODE_OBJECT));
    assert_int_equal(root->n, 6);
    assert_true(json_bool(json_get(root, "success"), false));
    assert_int_equal(json_int(json_get(root, "exitCode"), 0), -7);
    assert_string_equal(json_text(json_get(root, "stdout")), "a\nb");
    assert_true(json_is(json_get(root, "gone"), JSON_NODE_NULL));
    const struct json_node *limits = json_get(root, "limits");
    assert_true(json_int(json_get(limits, "memory"), 0) == INT64_MAX);
    assert_true(json_double(json_get(limits, "cpus"), 0) == 0.5);
    assert_string_equal(json_get(limits, "cpus")->text, "0.5");

    const struct json_node *item = json_first(json_get(root, "list"));
    assert_int_equal(json_int(item, 0), 1);
    assert_null(item->key);
    item = json_next(item);
    assert_string_equal(json_text(item), "two");
    item = json_next(item);
    assert_true(json_is(item, JSON_NODE_ARRAY));
    assert_int_equal(item->n, 0);
    item = json_next(item);
    assert_true(json_is(item, JSON_NODE_OBJECT));
    assert_null(json_next(item));
}

CHECK_CASE(members_come_in_order_and_the_last_of_two_wins)
{
    static const char *const keys[] = {"b", "a", "", "a"};
    auto_json_doc *doc = must_read("{\"b\":1,\"a\":2,\"\":3,\"a\":4}");
    const struct json_node *n = json_first(json_root(doc));
    for (int i = 0; i < 4; i++, n = json_next(n)) {
        assert_string_equal(n->key, keys[i]);
        assert_int_equal(json_int(n, 0), i + 1);
    }
    assert_null(n);
    assert_int_equal(json_int(json_get(json_root(doc), "a"), 0), 4);
    assert_int_equal(json_int(json_get(json_root(doc), ""), 0), 3);
    assert_null(json_get(json_root(doc), "c"));
}

CHECK_CASE(what_is_not_there)
{
    auto_json_doc *doc = must_read("[\"5\",true]");
    const struct json_node *root = json_root(doc);
    assert_null(json_root(NULL));
    assert_null(json_get(NULL, "a"));
    assert_null(json_get(root, "a"));
    assert_null(json_get(json_first(root), "a"));
    assert_null(json_first(json_first(root)));
    assert_null(json_first(NULL));
    assert_null(json_next(NULL));
    assert_null(json_next(root));
    assert_null(json_text(NULL));
    assert_null(json_text(root));
    assert_int_equal(json_int(NULL, 3), 3);
    assert_int_equal(json_int(json_first(root), 3), 3);
    assert_true(json_double(json_first(root), 1.5) == 1.5);
    assert_true(json_bool(NULL, true));
    assert_false(json_bool(json_first(root), false));
    assert_false(json_is(NULL, JSON_NODE_NULL));
    json_doc_free(NULL);
}

CHECK_CASE(values_alone)
{
    static const struct {
        const char *text;
        enum json_node_type type;
    } cases[] = {
        {"null",   JSON_NODE_NULL  },
        {" true ", JSON_NODE_BOOL  },
        {"false",  JSON_NODE_BOOL  },
        {"0",      JSON_NODE_NUMBER},
        {"-0",     JSON_NODE_NUMBER},
        {"\"\"",   JSON_NODE_STRING},
        {"[]",     JSON_NODE_ARRAY },
        {"[ ]",    JSON_NODE_ARRAY },
        {"{ }",    JSON_NODE_OBJECT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        auto_json_doc *doc = must_read(cases[i].text);
        assert_int_equal(json_root(doc)->type, cases[i].type);
        assert_int_equal(json_root(doc)->n, 0);
    }
}

CHECK_CASE(strings)
{
    static const struct {
        const char *text, *want;
        size_t len;
    } cases[] = {
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",   "\"\\/\b\f\n\r\t",                  8},
        {"\"\\u0041\\u00e9\\u20AC\"",        "A\xc3\xa9\xe2\x82\xac",            6},
        {"\"\\uD83D\\ude00\"",               "\xf0\x9f\x98\x80",                 4},
        {"\"\\udbff\\udfff\"",               "\xf4\x8f\xbf\xbf",                 4},
        {"\"\\uffff\\u07ff\\u0800\"",        "\xef\xbf\xbf\xdf\xbf\xe0\xa0\x80", 8},
        {"\"a\\u0000b\"",                    "a\0b",                             3},
        {"\"\xc3\xa9\xf0\x9f\x98\x80\x7f\"", "\xc3\xa9\xf0\x9f\x98\x80\x7f",     7},
        {"\"[{,:]}\"",                       "[{,:]}",                           6},
        {"\"\\\\\"",                         "\\",                               1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        auto_json_doc *doc = must_read(cases[i].text);
        const struct json_node *node = json_root(doc);
        assert_int_equal(node->text_len, cases[i].len);
        assert_memory_equal(node->text, cases[i].want, cases[i].len + 1);
    }
}

CHECK_CASE(numbers)
{
    static const struct {
        const char *text;
        int64_t as_int;
        double as_double;
    } cases[] = {
        {"0",                    0,                0                     },
        {"-0",                   0,                0                     },
        {"-12",                  -12,              -12                   },
        {"1.0",                  1,                1                     },
        {"1e3",                  1000,             1000                  },
        {"1E+2",                 100,              100                   },
        {"250e-1",               25,               25                    },
        {"2.5",                  99,               2.5                   },
        {"-0.125",               99,               -0.125                },
        {"9007199254740993",     9007199254740993, 9007199254740992.0    },
        {"-9223372036854775808", INT64_MIN,        -9223372036854775808.0},
        {"9223372036854775808",  99,               9223372036854775808.0 },
        {"1e18",                 99,               1e18                  },
        {"1e400",                99,               99                    },
        {"-1e400",               99,               99                    },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        auto_json_doc *doc = must_read(cases[i].text);
        const struct json_node *node = json_root(doc);
        assert_string_equal(node->text, cases[i].text);
        assert_true(json_int(node, 99) == cases[i].as_int);
        assert_true(json_double(node, 99) == cases[i].as_double);
    }
}

CHECK_CASE(nonsense)
{
    static const char *const cases[] = {
        "",
        " ",
        "nul",
        "nulll",
        "True",
        "tru",
        "'a'",
        "a",
        "NaN",
        "Infinity",
        "-",
        "+1",
        "-a",
        "01",
        "-01",
        "1.",
        ".5",
        "1.e1",
        "1e",
        "1e+",
        "0x1",
        "1 2",
        "--1",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "{",
        "}",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{a:1}",
        "{1:1}",
        "{\"a\":1]",
        "{\"a\":1 \"b\":2}",
        "{,}",
        "[\"a\":1]",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u\"",
        "\"\\U0041\"",
        "\"\\ud800\"",
        "\"\\ud800x\"",
        "\"\\ud800\\n\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"\\ud800\\ud800\"",
        "\"\t\"",
        "\"\n\"",
        "\"\x1f\"",
        "\"\xff\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xc3\"",
        "\"\xf4\x90\x80\x80\"",
        "{\"a\\u0000\":1}",
        "[1]x",
        "[]]",
        "{}{}",
        "null,",
        "// x\n1",
        "/**/1",
        "\xef\xbb\xbf"
        "1",
        "\f1",
        "\v1",
        "\xc2\xa0"
        "1",
        "[1,,2]",
        "{\"a\":}",
        "{:1}",
        "\"\\",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        must_refuse(cases[i], strlen(cases[i]));
    must_refuse("1\0", 2);
    must_refuse("\"a\0b\"", 5);
    must_refuse("\0", 1);
    must_refuse("[1\0]", 4);
}

CHECK_CASE(every_beginning_of_a_text_is_refused)
{
    static const char text[] =
        "{\"a\":[1.5e-3,true,null,\"\\ud83d\\ude00\\n\xc3\xa9\"],\"b\":{\"c\":[[],{}]}}";
    for (size_t len = 0; len < sizeof text - 1; len++)
        must_refuse(text, len);
    json_doc_free(must_read(text));
}

static void nest(char *text, unsigned depth, const char *open, const char *close)
{
    size_t at = 0;
    for (unsigned i = 0; i < depth; i++, at += strlen(open))
        memcpy(text + at, open, strlen(open));
    text[at++] = '1';
    for (unsigned i = 0; i < depth; i++)
        text[at++] = *close;
    text[at] = '\0';
}

CHECK_CASE(depth)
{
    char text[JSON_READ_DEPTH_MAX * 8];
    static const char *const pairs[][2] = {
        {"[",       "]"},
        {"{\"a\":", "}"},
    };
    for (int i = 0; i < 2; i++) {
        nest(text, JSON_READ_DEPTH_MAX, pairs[i][0], pairs[i][1]);
        auto_json_doc *doc = must_read(text);
        const struct json_node *n = json_root(doc);
        for (unsigned d = 0; d < JSON_READ_DEPTH_MAX; d++)
            n = json_first(n);
        assert_int_equal(json_int(n, 0), 1);
        nest(text, JSON_READ_DEPTH_MAX + 1, pairs[i][0], pairs[i][1]);
        must_refuse(text, strlen(text));
    }
    // Beside each other is not inside each other.
    size_t at = 0;
    char wide[1024] = "[";
    for (at = 1; at < 900; at += 3)
        memcpy(wide + at, "[],", 3);
    memcpy(wide + at, "0]", 3);
    json_doc_free(must_read(wide));
}

CHECK_CASE(a_long_text)
{
    const size_t n = 100000;
    char *text = malloc(n * 8 + 3);
    assert_non_null(text);
    size_t len = 0;
    text[len++] = '[';
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, 9, "%s%zu", i > 0 ? "," : "", i);
    text[len++] = ']';
    struct json_doc *doc = NULL;
    struct err err;
    assert_int_equal(read_bytes(text, len, &doc, &err), 0);
    assert_int_equal(json_root(doc)->n, n);
    int64_t want = 0;
    for (const struct json_node *e = json_first(json_root(doc)); e != NULL; e = json_next(e))
        assert_true(json_int(e, -1) == want++);
    assert_int_equal(want, n);
    json_doc_free(doc);
    free(text);
}

CHECK_MAIN(cmocka_unit_test(an_answer),
           cmocka_unit_test(members_come_in_order_and_the_last_of_two_wins),
           cmocka_unit_test(what_is_not_there), cmocka_unit_test(values_alone),
           cmocka_unit_test(strings), cmocka_unit_test(numbers), cmocka_unit_test(nonsense),
           cmocka_unit_test(every_beginning_of_a_text_is_refused), cmocka_unit_test(depth),
           cmocka_unit_test(a_long_text))
