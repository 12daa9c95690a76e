// SPDX-License-Identifier: Apache-2.0
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "check.h"
#include "edge/body.h"
#include "edge/limits.h"

struct inner {
    struct body_int depth;
};
struct sample {
    const char *id;
    struct body_bytes bytes;
    struct body_int count, size, ms, seconds, cpus, signal;
    struct body_bool on;
    struct body_strings words;
    struct body_map env, labels;
    struct body_user user;
    struct inner inner;
    const char *json;
    const void *tree;
};

#define AT(member) offsetof(struct sample, member)
static const struct field inner_fields[] = {
    FIELD("depth", FIELD_INT, offsetof(struct inner, depth), .max = 9),
};
static const struct schema inner_schema = SCHEMA("Inner", struct inner, inner_fields);
static const struct field fields[] = {
    FIELD("id", FIELD_STRING, AT(id), .max = 8),
    FIELD("bytes", FIELD_BYTES, AT(bytes)),
    FIELD("count", FIELD_INT, AT(count), .min = 2, .max = 10),
    FIELD("memory", FIELD_SIZE, AT(size)),
    FIELD("timeout", FIELD_MS, AT(ms), .min = 1),
    FIELD("sleepAfter", FIELD_SECONDS, AT(seconds)),
    FIELD("cpus", FIELD_CPUS, AT(cpus), .min = 10),
    FIELD("signal", FIELD_SIGNAL, AT(signal), .min = 1, .max = 64),
    FIELD("keepAlive", FIELD_BOOL, AT(on)),
    FIELD("argv", FIELD_STRINGS, AT(words), .min = 1, .max = 3),
    FIELD("env", FIELD_ENV, AT(env), .max = 3),
    FIELD("labels", FIELD_LABELS, AT(labels)),
    FIELD("user", FIELD_USER, AT(user)),
    FIELD("inner", FIELD_OBJECT, AT(inner), .sub = &inner_schema),
    FIELD("any", FIELD_JSON, AT(json), .max = 24),
    FIELD("tree", FIELD_TREE, AT(tree)),
    FIELD("network", FIELD_LATER, 0),
    FIELD("image", FIELD_FIXED, 0),
};
static const struct schema schema = SCHEMA("Sample", struct sample, fields);

static const struct field strict_fields[] = {
    FIELD("name", FIELD_STRING, 0, .required = true),
};
static const struct schema strict = SCHEMA(
    "Strict", struct { const char *name; }, strict_fields);

static struct body body;

static const struct sample *good(const char *text)
{
    struct err err = {0};
    if (body_read(&body, &schema, text, strlen(text), &err) < 0)
        fail_msg("%s: %s", text, err.msg);
    return body.values;
}

// Refused, with words that must be in the message.
static void bad_bytes(const char *text, size_t len, const char *words)
{
    struct err err = {0};
    assert_int_equal(body_read(&body, &schema, text, len, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    if (strstr(err.msg, words) == NULL)
        fail_msg("'%s' has no '%s'", err.msg, words);
    assert_null(body.values);
    assert_null(body.tree);
}

static void bad(const char *text, const char *words)
{
    bad_bytes(text, strlen(text), words);
}

CHECK_CASE(test_empty)
{
    const char *const empty[] = {"", " \r\n\t ", "{}", " {} \n"};
    for (size_t i = 0; i < 4; i++) {
        const struct sample *s = good(empty[i]);
        assert_null(s->id);
        assert_null(s->bytes.data);
        assert_null(s->words.items);
        assert_null(s->env.json);
        assert_false(s->count.given || s->on.given || s->user.given);
        body_done(&body);
    }
}

CHECK_CASE(test_values)
{
    const struct sample *s =
        good("{\"id\":\"a\\u00e9\",\"bytes\":\"x\\u0000y\\n\",\"count\":5,\"memory\":\"64m\","
             "\"timeout\":250,\"sleepAfter\":\"10m\",\"cpus\":0.5,\"keepAlive\":true,"
             "\"signal\":\"SIGUSR1\",\"argv\":[\"a\",\"\"],\"env\":{\"B\":\"2\",\"A\":\"1=1\"},"
             "\"labels\":{},\"user\":\"1:2\",\"inner\":{\"depth\":3}}");
    assert_string_equal(s->id, "a\xc3\xa9");
    assert_int_equal(s->bytes.len, 4);
    assert_memory_equal(s->bytes.data, "x\0y\n", 4);
    assert_int_equal(s->count.value, 5);
    assert_int_equal(s->size.value, 64 << 20);
    assert_int_equal(s->ms.value, 250);
    assert_int_equal(s->seconds.value, 600000);
    assert_int_equal(s->cpus.value, 500);
    assert_int_equal(s->signal.value, 10);
    assert_true(s->on.given && s->on.value);
    assert_int_equal(s->words.n, 2);
    assert_string_equal(s->words.items[1], "");
    assert_null(s->words.items[2]);
    assert_string_equal(s->env.json, "{\"A\":\"1=1\",\"B\":\"2\"}"); // in order: can be compared
    assert_int_equal(s->env.n, 2);
    assert_string_equal(s->labels.json, "{}");
    assert_int_equal(s->user.uid, 1);
    assert_int_equal(s->user.gid, 2);
    assert_int_equal(s->inner.depth.value, 3);
    body_done(&body);
}

CHECK_CASE(test_null_is_not_given)
{
    const struct sample *s = good("{\"id\":null,\"count\":null,\"env\":null}");
    assert_null(s->id);
    assert_false(s->count.given);
    body_done(&body);
    bad("{\"network\":null}", "network");
}

CHECK_CASE(test_units)
{
    static const struct {
        const char *text;
        int64_t ms;
    } times[] = {
        {"{\"timeout\":\"1s\"}",    1000},
        {"{\"timeout\":\"1.5ms\"}", 2   },
        {"{\"timeout\":0.2}",       1   },
        {"{\"timeout\":1500.0}",    1500},
        {"{\"timeout\":\"500ms\"}", 500 },
        {"{\"timeout\":1e3}",       1000},
    };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        assert_int_equal(good(times[i].text)->ms.value, times[i].ms);
        body_done(&body);
    }
    assert_int_equal(good("{\"sleepAfter\":90}")->seconds.value, 90000);
    body_done(&body);
    assert_int_equal(good("{\"sleepAfter\":0.5}")->seconds.value, 500);
    body_done(&body);
    assert_int_equal(good("{\"sleepAfter\":\"90\"}")->seconds.value, 90000);
    body_done(&body);
    assert_int_equal(good("{\"cpus\":\"1.25\"}")->cpus.value, 1250);
    body_done(&body);
    assert_int_equal(good("{\"cpus\":2}")->cpus.value, 2000);
    body_done(&body);
    bad("{\"timeout\":\"500\"}", "unit"); // milliseconds or seconds? it does not say
    bad("{\"timeout\":0}", "timeout: must be at least 1");
    bad("{\"timeout\":-5}", "timeout");
    bad("{\"memory\":\"64q\"}", "memory");
    bad("{\"memory\":1.5}", "memory");
    bad("{\"memory\":-1}", "memory");
    bad("{\"cpus\":0}", "cpus");
    bad("{\"cpus\":1e300}", "cpus");
}

CHECK_CASE(test_users_and_signals)
{
    static const struct {
        const char *text;
        uint32_t uid, gid;
    } users[] = {
        {"{\"user\":\"root\"}", 0,     0    },
        {"{\"user\":\"user\"}", 1000,  1000 },
        {"{\"user\":33}",       33,    33   },
        {"{\"user\":\"7\"}",    7,     7    },
        {"{\"user\":65534}",    65534, 65534},
    };
    for (size_t i = 0; i < sizeof users / sizeof *users; i++) {
        const struct sample *s = good(users[i].text);
        assert_true(s->user.given);
        assert_int_equal(s->user.uid, users[i].uid);
        assert_int_equal(s->user.gid, users[i].gid);
        body_done(&body);
    }
    bad("{\"user\":65535}", "user");
    bad("{\"user\":-1}", "user");
    bad("{\"user\":\"\"}", "user");
    bad("{\"user\":\"1:\"}", "user");
    bad("{\"user\":\"1:2:3\"}", "user");
    bad("{\"user\":\"root\\u0000\"}", "user");
    bad("{\"user\":1.5}", "user");
    bad("{\"user\":\"99999999999999999999\"}", "user");
    assert_int_equal(good("{\"signal\":\"term\"}")->signal.value, 15);
    body_done(&body);
    assert_int_equal(good("{\"signal\":34}")->signal.value, 34);
    body_done(&body);
    bad("{\"signal\":0}", "signal");
    bad("{\"signal\":65}", "signal");
    bad("{\"signal\":\"SIGNOPE\"}", "signal");
    bad("{\"signal\":\"TERM\\u0000\"}", "signal");
    assert_string_equal(body_signal_name(9), "SIGKILL");
    assert_null(body_signal_name(99));
}

CHECK_CASE(test_names)
{
    bad("{\"memry\":1}", "unknown field 'memry': did you mean 'memory'?");
    bad("{\"zzz\":1}", "unknown field 'zzz'");
    bad("{\"ID\":1}", "unknown field 'ID'");
    bad("{\"inner\":{\"x\":1}}", "inner: unknown field 'x'");
    bad("{\"network\":\"none\"}", "network: is not supported by this version");
    bad("{\"image\":\"x\"}", "image: cannot be changed");
    bad("{\"id\":\"a\",\"id\":\"b\"}", "duplicate");
}

CHECK_CASE(test_types)
{
    bad("{\"id\":5}", "id: must be a string");
    bad("{\"id\":\"123456789\"}", "id: is longer than 8 bytes");
    bad("{\"id\":\"a\\u0000\"}", "NUL");
    bad("{\"count\":\"5\"}", "count: must be a whole number");
    bad("{\"count\":5.5}", "count");
    bad("{\"count\":1}", "from 2 to 10");
    bad("{\"count\":11}", "from 2 to 10");
    bad("{\"keepAlive\":1}", "true or false");
    bad("{\"argv\":\"ls\"}", "array of strings");
    bad("{\"argv\":[]}", "at least 1");
    bad("{\"argv\":[\"a\",1]}", "entry 1");
    bad("{\"argv\":[\"a\\u0000b\"]}", "entry 0");
    bad("{\"argv\":[\"a\",\"b\",\"c\",\"d\"]}", "more than 3");
    bad("{\"env\":[]}", "object of strings");
    bad("{\"env\":{\"A\":1}}", "'A' must be a string");
    bad("{\"env\":{\"A=B\":\"x\"}}", "no '='");
    bad("{\"env\":{\"\":\"x\"}}", "empty name");
    bad("{\"env\":{\"A\":\"\\u0000\"}}", "NUL");
    bad("{\"env\":{\"A\":\"\",\"B\":\"\",\"C\":\"\",\"D\":\"\"}}", "more than 3");
    bad("{\"inner\":5}", "inner: must be an object");
    bad("{\"bytes\":{}}", "bytes: must be a string");
}

CHECK_CASE(test_label_lengths)
{
    char text[EDGE_LABEL_MAX + 64], name[EDGE_LABEL_MAX + 2];
    memset(name, 'x', sizeof name);
    name[EDGE_LABEL_MAX] = '\0';
    (void)snprintf(text, sizeof text, "{\"labels\":{\"%s\":\"\"}}", name);
    assert_int_equal(good(text)->labels.n, 1);
    body_done(&body);
    name[EDGE_LABEL_MAX] = 'x';
    name[EDGE_LABEL_MAX + 1] = '\0';
    (void)snprintf(text, sizeof text, "{\"labels\":{\"%s\":\"\"}}", name);
    bad(text, "at most 256");
}

CHECK_CASE(test_not_json)
{
    bad("{", "not JSON: line 1");
    bad("[]", "must be a JSON object");
    bad("5", "must be a JSON object");
    bad("null", "must be a JSON object");
    bad("{} {}", "not JSON");
    bad("{\"count\":1e400}", "not JSON");
    bad("{\"count\":99999999999999999999}", "not JSON");
    bad("{'id':'a'}", "not JSON");
    bad("{\"id\":\"\xff\"}", "not JSON");
    bad("{\"id\":\"\xc0\x80\"}", "not JSON");
    bad("{\"id\":\"\xed\xa0\x80\"}", "not JSON");
    bad("{\"id\":\"\\ud800\"}", "not JSON");
    bad("\xef\xbb\xbf{}", "byte order mark");
    bad_bytes("{\"id\":\"a\0b\"}", 12, "not JSON");
    bad_bytes("{}\0", 3, "not JSON");
}

CHECK_CASE(test_depth)
{
    static char text[200001];
    memset(text, '[', sizeof text - 1);
    bad(text, "levels deep");
    memset(text, '[', EDGE_JSON_DEPTH_MAX);
    memset(text + EDGE_JSON_DEPTH_MAX, ']', EDGE_JSON_DEPTH_MAX);
    text[2 * EDGE_JSON_DEPTH_MAX] = '\0';
    bad(text, "must be a JSON object"); // just deep enough to be read
    // Brackets in texts, behind quotes and backslashes, are no depth.
    const struct sample *s = good("{\"bytes\":\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[{\\\\\"}");
    assert_int_equal(s->bytes.len, 39);
    body_done(&body);
}

CHECK_CASE(test_too_many_values)
{
    static char text[EDGE_JSON_VALUES_MAX + 1];
    memset(text, ',', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    bad(text, "more than 16384 values");
    text[sizeof text - 2] = '\0'; // just few enough to be read
    bad(text, "not JSON");
}

CHECK_CASE(test_required)
{
    struct err err = {0};
    assert_int_equal(body_read(&body, &strict, "{}", 2, &err), -1);
    assert_string_equal(err.msg, "field 'name' is missing");
    assert_int_equal(body_read(&body, &strict, "{\"name\":null}", 13, &err), -1);
    assert_int_equal(body_read(&body, &strict, "{\"name\":\"x\"}", 12, &err), 0);
    body_done(&body);
}

CHECK_CASE(test_json)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"{\"any\":\"none\"}",                         "\"none\""                  },
        {"{\"any\": { \"b\" : [1, 2.5], \"a\":true}}", "{\"a\":true,\"b\":[1,2.5]}"},
        {"{\"any\":false}",                            "false"                     },
        {"{\"any\":\"\\u0000\"}",                      "\"\\u0000\""               },
        {"{\"any\":[]}",                               "[]"                        },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(good(cases[i].in)->json, cases[i].out);
        body_done(&body);
    }
    assert_null(good("{\"any\":null}")->json);
    body_done(&body);
    bad("{\"any\":\"1234567890123456789012345\"}", "any: is longer than 24 bytes");
    bad("{\"any\":{\"a\":1,\"a\":2}}", "not JSON");
    assert_null(good("{\"tree\":null}")->tree);
    body_done(&body);
    assert_int_equal(json_array_size(good("{\"tree\":[1,2]}")->tree), 2);
    body_done(&body);
}

struct listed {
    struct body_objects items;
};
static const struct field listed_fields[] = {
    FIELD("items", FIELD_OBJECTS, offsetof(struct listed, items), .min = 1, .max = 3,
          .sub = &inner_schema),
};
static const struct schema listed = SCHEMA("Listed", struct listed, listed_fields);

CHECK_CASE(test_objects)
{
    struct err err = {0};
    static const char two[] = "{\"items\":[{\"depth\":4},{}]}";
    assert_int_equal(body_read(&body, &listed, two, strlen(two), &err), 0);
    const struct listed *l = body.values;
    const struct inner *items = l->items.items;
    assert_int_equal(l->items.n, 2);
    assert_int_equal(items[0].depth.value, 4);
    assert_false(items[1].depth.given);
    body_done(&body);
    static const struct {
        const char *text, *words;
    } wrong[] = {
        {"{\"items\":[]}",                      "items: must have from 1 to 3 entries"      },
        {"{\"items\":[{},{},{},{}]}",           "items: must have from 1 to 3 entries"      },
        {"{\"items\":{}}",                      "items: must be an array of objects"        },
        {"{\"items\":[{},1]}",                  "items: entry 1: must be an object"         },
        {"{\"items\":[{\"depth\":10}]}",        "items: entry 0: depth: must be from 0 to 9"},
        {"{\"items\":[{\"depth\":1,\"x\":2}]}", "items: entry 0: unknown field 'x'"         },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(body_read(&body, &listed, wrong[i].text, strlen(wrong[i].text), &err), -1);
        if (strstr(err.msg, wrong[i].words) == NULL)
            fail_msg("'%s' has no '%s'", err.msg, wrong[i].words);
    }
}

CHECK_CASE(test_schema)
{
    auto_buf buf;
    struct json j;
    buf_init(&buf, 65536);
    json_init(&j, &buf);
    body_write_schema(&j, &schema);
    assert_int_equal(json_finish(&j), 0);
    assert_non_null(strstr(buf_str(&buf), "\"additionalProperties\":false"));
    assert_non_null(strstr(buf_str(&buf), "\"memory\":{\"type\":[\"integer\",\"string\"]"));
    assert_non_null(strstr(buf_str(&buf), "\"depth\":"));
    assert_null(strstr(buf_str(&buf), "network")); // it is not taken: it is not promised
    assert_null(strstr(buf_str(&buf), "image"));
}

// -- what null removes

struct money {
    struct body_int usd, tokens;
};
static const struct field money_fields[] = {
    FIELD("usd", FIELD_USD, offsetof(struct money, usd), .nullable = true, .min = 1,
          .max = INT64_C(1000000000000000)),
    FIELD("tokens", FIELD_INT, offsetof(struct money, tokens), .nullable = true, .min = 1),
};
static const struct schema money_schema = SCHEMA("Money", struct money, money_fields);
struct purse {
    struct body_int after;
    struct money money;
};
static const struct field purse_fields[] = {
    FIELD("after", FIELD_SECONDS, offsetof(struct purse, after), .nullable = true),
    FIELD("money", FIELD_OBJECT, offsetof(struct purse, money), .sub = &money_schema,
          .nullable = true),
};
static const struct schema purse_schema = SCHEMA("Purse", struct purse, purse_fields);

static struct purse purse(const char *text)
{
    struct err err = {0};
    if (body_read(&body, &purse_schema, text, strlen(text), &err) < 0)
        fail_msg("%s: %s", text, err.msg);
    struct purse values = *(struct purse *)body.values;
    body_done(&body);
    return values;
}

static void no_purse(const char *text)
{
    struct err err = {0};
    if (body_read(&body, &purse_schema, text, strlen(text), &err) == 0)
        fail_msg("%s was taken", text);
    assert_int_equal(err.code, ERR_INVALID);
}

CHECK_CASE(test_dollars)
{
    static const struct {
        const char *text;
        int64_t nano;
    } cases[] = {
        {"{\"money\":{\"usd\":1}}",            1000000000      },
        {"{\"money\":{\"usd\":1.5}}",          1500000000      },
        {"{\"money\":{\"usd\":0.1}}",          100000000       },
        {"{\"money\":{\"usd\":0.3}}",          300000000       },
        {"{\"money\":{\"usd\":1e-9}}",         1               },
        {"{\"money\":{\"usd\":0.0000000001}}", 1               },
        {"{\"money\":{\"usd\":1000000}}",      1000000000000000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct purse p = purse(cases[i].text);
        assert_true(p.money.usd.given && p.money.usd.value == cases[i].nano);
        assert_false(p.money.tokens.given);
    }
    no_purse("{\"money\":{\"usd\":0}}");
    no_purse("{\"money\":{\"usd\":-1}}");
    no_purse("{\"money\":{\"usd\":\"1\"}}");
    no_purse("{\"money\":{\"usd\":1000001}}");
    no_purse("{\"money\":{\"usd\":1e300}}");
    no_purse("{\"money\":{\"usd\":true}}");
}

CHECK_CASE(test_null_is_given)
{
    struct purse p = purse("{\"after\":null,\"money\":{\"usd\":null}}");
    assert_true(p.after.given && p.after.value == 0);
    assert_true(p.money.usd.given && p.money.usd.value == 0);
    assert_false(p.money.tokens.given);
    p = purse("{\"money\":null}");
    assert_false(p.after.given);
    assert_true(p.money.usd.given && p.money.usd.value == 0);
    assert_true(p.money.tokens.given && p.money.tokens.value == 0);
    p = purse("{\"money\":{}}");
    assert_false(p.money.usd.given || p.money.tokens.given);
}

CHECK_CASE(test_has)
{
    (void)good("{\"id\":\"a\",\"count\":null,\"inner\":{}}");
    assert_true(body_has(&body, "id") && body_has(&body, "inner"));
    assert_false(body_has(&body, "count") || body_has(&body, "depth") || body_has(&body, "any"));
    body_done(&body);
}

static int gather(const char *text, size_t len, void *data)
{
    return buf_append(data, text, len);
}

static void assert_dumps(const char *text, const char *expected)
{
    auto_buf out;
    buf_init(&out, 1024);
    (void)good(text);
    assert_int_equal(body_dump(&body, "id", gather, &out), 0);
    assert_string_equal(buf_str(&out), expected);
    assert_true(strstr(text, "id") == NULL || body_has(&body, "id")); // it is as it was
    body_done(&body);
}

CHECK_CASE(test_dump)
{
    assert_dumps("", "{}");
    assert_dumps("{\"id\":\"a\"}", "{}");
    assert_dumps(
        " { \"env\": {\"b\": \"1\", \"a\": \"\\u0041\"},\n\"id\": \"a\", \"any\": {\"id\": 1}}",
        "{\"any\":{\"id\":1},\"env\":{\"a\":\"A\",\"b\":\"1\"}}");
    auto_buf small; // who cannot take it is heard
    buf_init(&small, 1);
    (void)good("{\"count\":3}");
    assert_int_equal(body_dump(&body, "id", gather, &small), -1);
    body_done(&body);
}

static const struct schema lenient = SCHEMA("Lenient", struct sample, fields, .lenient = true);

static void assert_fault(const struct schema *by, const char *text, enum body_wrong wrong,
                         const char *field)
{
    struct err err = {0};
    assert_int_equal(body_read(&body, by, text, strlen(text), &err), -1);
    assert_int_equal(body.fault.wrong, wrong);
    assert_string_equal(body.fault.field, field);
    assert_null(body.tree);
}

CHECK_CASE(test_faults)
{
    assert_fault(&schema, "{", BODY_UNREADABLE, "");
    assert_fault(&schema, "[]", BODY_UNREADABLE, "");
    assert_fault(&strict, "{}", BODY_MISSING, "name");
    assert_fault(&strict, "{\"name\":null}", BODY_MISSING, "name");
    assert_fault(&strict, "{\"name\":1}", BODY_INVALID, "name");
    assert_fault(&schema, "{\"nmae\":1}", BODY_UNKNOWN, "nmae");
    assert_fault(&schema, "{\"inner\":{\"depth\":10}}", BODY_INVALID, "inner.depth");
    assert_fault(&schema, "{\"inner\":{\"x\":10}}", BODY_UNKNOWN, "inner.x");
    assert_fault(&listed, "{\"items\":[{},{\"depth\":10}]}", BODY_INVALID, "items.1.depth");
    assert_fault(&listed, "{\"items\":[]}", BODY_INVALID, "items");
    (void)good("{}");
    assert_int_equal(body.fault.wrong, BODY_FINE);
    body_done(&body);
}

CHECK_CASE(test_lenient)
{
    struct err err = {0};
    static const char more[] = "{\"origin\":\"user\",\"count\":3,\"idd\":[{}]}";
    assert_int_equal(body_read(&body, &lenient, more, strlen(more), &err), 0);
    const struct sample *s = body.values;
    assert_int_equal(s->count.value, 3);
    assert_null(s->id);
    body_done(&body);
    assert_fault(&lenient, "{\"origin\":1,\"count\":\"x\"}", BODY_INVALID, "count");
    assert_fault(&lenient, "{\"inner\":{\"x\":10}}", BODY_UNKNOWN, "inner.x"); // not lenient itself
}

CHECK_MAIN(cmocka_unit_test(test_empty), cmocka_unit_test(test_values),
           cmocka_unit_test(test_null_is_not_given), cmocka_unit_test(test_units),
           cmocka_unit_test(test_users_and_signals), cmocka_unit_test(test_names),
           cmocka_unit_test(test_types), cmocka_unit_test(test_label_lengths),
           cmocka_unit_test(test_not_json), cmocka_unit_test(test_depth),
           cmocka_unit_test(test_too_many_values), cmocka_unit_test(test_required),
           cmocka_unit_test(test_schema), cmocka_unit_test(test_json),
           cmocka_unit_test(test_objects), cmocka_unit_test(test_dollars),
           cmocka_unit_test(test_null_is_given), cmocka_unit_test(test_has),
           cmocka_unit_test(test_dump), cmocka_unit_test(test_faults),
           cmocka_unit_test(test_lenient))
