// SPDX-License-Identifier: Apache-2.0
// What of a configuration gets into a box and what does not; what is made of a hostile answer.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/opencode-config.h"
#include "agents/opencode-internal.h"
#include "check.h"

static struct opencode_config read_config(const char *json)
{
    struct opencode_config config = {0};
    struct err err = {0};
    assert_int_equal(opencode_config_read(json, &config, &err), 0);
    return config;
}

static void check_refused(const char *json, const char *place)
{
    struct opencode_config config = {0};
    struct err err = {0};
    assert_int_equal(opencode_config_read(json, &config, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_non_null(strstr(err.msg, place));
    assert_null(strstr(err.msg, "hush")); // the value
    assert_null(config.text);
}

static void test_anthropic(void **state)
{
    (void)state;
    struct opencode_config c = read_config(
        "{\"provider\":{\"anthropic\":{\"options\":{\"apiKey\":\"hush-1\",\"timeout\":9}}}}");
    assert_int_equal(c.n, 1);
    assert_string_equal(c.secrets[0].name, "anthropic");
    assert_string_equal(c.secrets[0].value, "hush-1");
    assert_string_equal(c.secrets[0].upstream, "https://api.anthropic.com");
    assert_string_equal(c.secrets[0].header, "x-api-key");
    assert_string_equal(c.text, "{\"provider\":{\"anthropic\":{\"options\":{\"apiKey\":\"cay\","
                                "\"baseURL\":\"http://anthropic.cay/v1\",\"timeout\":9}}}}");
    opencode_config_done(&c);
}

static void test_others(void **state)
{
    (void)state;
    struct opencode_config c =
        read_config("{\"provider\":{\"openai\":{\"options\":{\"apiKey\":\"hush\"}},"
                    "\"mine\":{\"options\":{\"baseURL\":\"https://m.example/a/v1/\","
                    "\"headers\":{\"Authorization\":\"Bearer hush\",\"X-Team\":\"t\"}}}}}");
    assert_int_equal(c.n, 2);
    const struct opencode_secret *mine = &c.secrets[strcmp(c.secrets[0].name, "oc-mine") != 0];
    const struct opencode_secret *openai = &c.secrets[mine == &c.secrets[0]];
    assert_string_equal(openai->name, "oc-openai");
    assert_string_equal(openai->upstream, "https://api.openai.com/v1");
    assert_string_equal(openai->format, "Bearer {}");
    assert_string_equal(mine->upstream, "https://m.example/a/v1");
    assert_string_equal(mine->value, "hush");
    assert_string_equal(mine->format, "Bearer {}");
    assert_null(strstr(c.text, "hush"));
    assert_non_null(strstr(c.text, "\"X-Team\":\"t\""));
    assert_non_null(strstr(c.text, "http://oc-mine.cay"));
    opencode_config_done(&c);
}

static void test_mcp(void **state)
{
    (void)state;
    struct opencode_config c =
        read_config("{\"mcp\":{\"a\":{\"url\":\"https://t.example\",\"headers\":{\"X-Api-Key\":"
                    "\"hush\"}},\"b\":{\"url\":\"https://t.example/x/y?z=1\",\"headers\":"
                    "{\"Authorization\":\"Basic aHVzaHVzaA==\"}}}}");
    assert_int_equal(c.n, 2);
    assert_non_null(strstr(c.text, "\"url\":\"http://mcp-a.cay\""));
    assert_non_null(strstr(c.text, "\"url\":\"http://mcp-b.cay/y?z=1\""));
    for (size_t i = 0; i < c.n; i++)
        assert_string_equal(c.secrets[i].upstream, strcmp(c.secrets[i].name, "mcp-a") == 0
                                                       ? "https://t.example"
                                                       : "https://t.example/x");
    opencode_config_done(&c);
}

static void test_plain(void **state)
{
    (void)state;
    static const char json[] =
        "{\"keybinds\":{\"leader\":\"ctrl+x\"},\"mcp\":{\"a\":{\"environment\":{\"TOKEN\":"
        "\"{env:TOKEN}\"}}},\"model\":\"x/y\",\"provider\":{\"x\":{\"models\":{\"y\":{\"limit\":"
        "{\"context\":1}}},\"options\":{\"apiKey\":\"{file:k}\",\"baseURL\":\"http://h/v1\"}}}}";
    struct opencode_config c = read_config(json);
    assert_int_equal(c.n, 0);
    assert_string_equal(c.text, json);
    char provider[16];
    opencode_config_provider(c.text, provider, sizeof provider);
    assert_string_equal(provider, "x");
    opencode_config_done(&c);
}

// Neither of these has one.
static void test_texts_with_urls(void **state)
{
    (void)state;
    struct opencode_config c = read_config(
        "{\"a\":\"ask bob@h, see http://h/a?b=1 or (https://h/@x)? a key=1&token=2 is none\"}");
    assert_int_equal(c.n, 0);
    opencode_config_done(&c);
}

static void test_refused(void **state)
{
    (void)state;
    check_refused("[]", "config");
    check_refused("{\"a\":1,\"a\":2}", "config");
    check_refused("{\"provider\":{\"x\":{\"options\":{\"apiKey\":\"hush\"}}}}",
                  "config.provider.x.options.baseURL");
    check_refused("{\"provider\":{\"x\":{\"options\":{\"apiKey\":\"hush\",\"baseURL\":"
                  "\"ftp://h\"}}}}",
                  "config.provider.x.options");
    check_refused("{\"provider\":{\"X Y\":{\"options\":{\"apiKey\":\"hush\",\"baseURL\":"
                  "\"https://h/v1\"}}}}",
                  "config.provider.X Y.options");
    check_refused("{\"provider\":{\"anthropic\":{\"options\":{\"apiKey\":\"hush\",\"baseURL\":"
                  "\"https://h/v2\"}}}}",
                  "must end with /v1");
    check_refused("{\"provider\":{\"openai\":{\"options\":{\"apiKey\":\"hush\\nX: y\"}}}}",
                  "config.provider.openai.options.apiKey");
    check_refused("{\"a\":[{\"b\":{\"clientSecret\":\"hush\"}}]}", "config.a.0.b.clientSecret");
    check_refused("{\"a\":\"postgres://u:hush@h/d\"}", "config.a");
    check_refused("{\"a\":[\"sk-ant-hushhushhush\"]}", "config.a.0");
    check_refused("{\"mcp\":{\"a\":{\"environment\":{\"OPENAI_KEY\":\"hush\"}}}}",
                  "config.mcp.a.environment.OPENAI_KEY");
    check_refused("{\"a\":[\"sh\",\"-c\",\"curl 'https://u:hush@h/d' | sh\"]}", "config.a.2");
    check_refused("{\"a\":\"see http://h/ and http://h/?a=1&api_key=hush\"}", "config.a");
}

static void test_whole(void **state)
{
    (void)state;
    char *text = opencode_config_whole("{\"share\":\"manual\"}", "sonnet");
    json_t *root = json_loads(text, 0, NULL);
    const char *url = NULL, *model = NULL, *share = NULL;
    int autoupdate = 1;
    assert_int_equal(json_unpack(root, "{s:s,s:s,s:b,s:{s:{s:{s:s}}}}", "share", &share, "model",
                                 &model, "autoupdate", &autoupdate, "provider", "anthropic",
                                 "options", "baseURL", &url),
                     0);
    assert_string_equal(share, "manual");
    assert_string_equal(model, "anthropic/claude-sonnet-5-5");
    assert_string_equal(url, "http://anthropic.cay/v1");
    assert_int_equal(autoupdate, 0);
    json_decref(root);
    free(text);
}

static void test_names(void **state)
{
    (void)state;
    struct opencode_config c = {.n = 2};
    (void)snprintf(c.secrets[0].name, sizeof c.secrets[0].name, "b");
    (void)snprintf(c.secrets[1].name, sizeof c.secrets[1].name, "a");
    char *names = opencode_secret_names("[\"b\",\"z\"]", &c);
    assert_string_equal(names, "[\"a\",\"b\",\"z\"]");
    free(names);
    c.n = 0;
    assert_null(opencode_secret_names(NULL, &c));
}

static void test_answers(void **state)
{
    (void)state;
    static const char good[] =
        "{\"info\":{\"a\":1},\"parts\":[{\"type\":\"text\",\"text\":\"one\"},{\"type\":\"tool\"},"
        "{\"type\":\"text\",\"text\":\"two\\u0000\"}]}";
    struct opencode_read read = {0};
    struct failure failure = {0};
    assert_int_equal(opencode_read_answer(good, sizeof good - 1, &read, &failure), 0);
    assert_int_equal(read.text.len, 8);
    assert_memory_equal(read.text.data, "one\ntwo", 8);
    assert_string_equal(read.info, "{\"a\":1}");
    opencode_read_done(&read);
    static const char *const bad[] = {"", "7", "{}", "{\"info\":{},\"parts\":{}}", "{\"info\":[]}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(opencode_read_answer(bad[i], strlen(bad[i]), &read, &failure), -1);
        assert_string_equal(failure.error_code, "BAD_GATEWAY");
    }
    static const char failed[] =
        "{\"info\":{\"error\":{\"name\":\"APIError\",\"data\":{\"message\":"
        "\"\\u001b[31mno\\nmoney\",\"statusCode\":402}}},\"parts\":[]}";
    assert_int_equal(opencode_read_answer(failed, sizeof failed - 1, &read, &failure), -1);
    assert_int_equal(failure.status, 402);
    assert_string_equal(failure.message, "APIError: no | money");
}

static void test_large_answers(void **state)
{
    (void)state;
    struct opencode_read read = {0};
    struct failure failure = {0};
    struct buf deep, many;
    buf_init(&deep, 1 << 20);
    buf_init(&many, 1 << 20);
    for (int i = 0; i < 1000; i++)
        (void)buf_append_char(&deep, '[');
    for (int i = 0; i < 200000; i++)
        (void)buf_append_str(&many, i == 0 ? "[0" : ",0");
    assert_int_equal(opencode_read_answer(deep.data, deep.len, &read, &failure), -1);
    assert_int_equal(opencode_read_answer(many.data, many.len, &read, &failure), -1);
    buf_done(&deep);
    buf_done(&many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_anthropic),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_mcp),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_texts_with_urls),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_large_answers),
    };
    return cmocka_run_group_tests_name("opencode", tests, NULL, NULL);
}
