// SPDX-License-Identifier: Apache-2.0
// The client against the stand-in for the Messages API (tests/standin), which refuses what the API
// would refuse: conversations with what it said before, the same message streamed and not, trouble.
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "check.h"
#include "model/keys.h"
#include "model/model.h"

struct asked {
    unsigned n_done, n_again;
    enum model_end end;
    unsigned attempts;
    struct model_usage usage;
    char stop_reason[64], error_type[64], message[1400];
    struct buf content, text;
};

static uv_loop_t loop;
static struct model *model;
static char url[128];
static pid_t standin;

static int start(void **state)
{
    extern char **environ;
    const char *program = getenv("CAY_STANDIN");
    char *const argv[] = {(char[]){"python3"},
                          strdup(program != NULL ? program : "tests/standin/standin.py"),
                          (char[]){"--die-with-parent"}, NULL};
    posix_spawn_file_actions_t actions;
    int pipe_fds[2];
    (void)state;
    (void)alarm(240);
    assert_int_equal(pipe2(pipe_fds, 0), 0);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], 1);
    (void)posix_spawn_file_actions_addclose(&actions, pipe_fds[0]);
    assert_int_equal(posix_spawn(&standin, "/usr/bin/python3", &actions, NULL, argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(pipe_fds[1]);
    FILE *out = fdopen(pipe_fds[0], "r");
    assert_non_null(fgets(url, sizeof url, out));
    url[strcspn(url, "\n")] = '\0';
    (void)fclose(out);
    free(argv[1]);
    assert_int_equal(uv_loop_init(&loop), 0);
    struct err err = {0};
    return model_open(&(struct model_config){.loop = &loop, .ca_file = ""}, &model, &err);
}

static int stop(void **state)
{
    (void)state;
    model_close(model);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)kill(standin, SIGKILL);
    (void)waitpid(standin, NULL, 0);
    return uv_loop_close(&loop);
}

static void on_event(void *data, const struct model_event *event)
{
    struct asked *asked = data;
    if (event->type == MODEL_TEXT)
        (void)buf_append(&asked->text, event->text, event->len);
    if (event->type == MODEL_AGAIN) {
        asked->n_again++;
        buf_reset(&asked->text);
    }
}

static void on_done(void *data, const struct model_result *result)
{
    struct asked *asked = data;
    asked->n_done++;
    asked->end = result->end;
    asked->attempts = result->attempts;
    asked->usage = result->usage;
    (void)snprintf(asked->stop_reason, sizeof asked->stop_reason, "%s", result->stop_reason);
    (void)snprintf(asked->error_type, sizeof asked->error_type, "%s", result->error_type);
    (void)snprintf(asked->message, sizeof asked->message, "%s", result->message);
    (void)buf_append(&asked->content, result->content, result->content_len);
}

// `rest` follows in the list of messages.
static void ask_as(struct asked *asked, const char *header, const char *prompt, const char *rest,
                   bool stream, int64_t timeout_ms)
{
    struct buf body;
    struct json json;
    buf_init(&body, 1024 * 1024);
    *asked = (struct asked){0};
    buf_init(&asked->content, 64 * 1024 * 1024);
    buf_init(&asked->text, 64 * 1024 * 1024);
    (void)buf_printf(
        &body,
        "{\"model\":\"claude-sonnet-5-5\",\"max_tokens\":4096,\"stream\":%s,\"tools\":[{\"name\":\"Bash\","
        "\"description\":\"x\",\"input_schema\":{\"type\":\"object\"}},{\"type\":\"web_search_20250305\","
        "\"name\":\"web_search\"}],\"messages\":[{\"role\":\"user\",\"content\":",
        stream ? "true" : "false");
    json_init(&json, &body);
    json_put_str(&json, prompt);
    (void)buf_printf(&body, "}%s]}", rest);
    char *line = strdup(header);
    const struct model_access access = {.base_url = url, .header = line};
    const struct model_request request = {
        .access = &access,
        .body = buf_str(&body),
        .body_len = body.len,
        .stream = stream,
        .timeout_ms = timeout_ms,
        .retries = -1,
    };
    (void)model_ask(model, &request, on_event, on_done, asked);
    free(line);
    buf_done(&body);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(asked->n_done, 1);
}

static void ask(struct asked *asked, const char *prompt, const char *rest, bool stream)
{
    ask_as(asked, "x-api-key: sk-ant-stand-in", prompt, rest, stream, 0);
}

static void asked_done(struct asked *asked)
{
    buf_done(&asked->content);
    buf_done(&asked->text);
}

// Ids differ from answer to answer.
static void blank_ids(char *text)
{
    static const char *const marks[] = {"\"id\":\"", "\"tool_use_id\":\"", "\"id\": \"",
                                        "\"tool_use_id\": \""};
    for (unsigned i = 0; i < 4; i++)
        for (char *at = text; (at = strstr(at, marks[i])) != NULL;)
            for (at += strlen(marks[i]); *at != '"' && *at != '\0'; at++)
                *at = 'x';
}

// Escapes and white space may differ.
static void assert_same_json(const char *a, const char *b)
{
    json_t *left = json_loads(a, JSON_ALLOW_NUL, NULL),
           *right = json_loads(b, JSON_ALLOW_NUL, NULL);
    assert_true(left != NULL && right != NULL);
    if (!json_equal(left, right))
        fail_msg("%s is not %s", a, b);
    json_decref(left);
    json_decref(right);
}

CHECK_CASE(test_same_either_way)
{
    static const char *const prompts[] = {
        "[[text: Hello, w\xc3\xb6rld \xf0\x9f\x98\x80 \"quoted\"]]",
        "[[text: many pieces of text]] [[piece: 1]] [[odd]]",
        "[[text: other line ends]] [[crlf]] [[odd]] [[split: 3]]",
        "[[thinking: let me see]] [[text: so]]",
        "[[redacted]] [[text: so]]",
        "[[tool: Bash {\"command\": \"echo \\\"hi\\\"\", \"n\": 0.1}]] [[piece: 2]] [[split: 7]]",
        "[[tool: Bash {\"a\": 1}]] [[tool: Bash {\"b\": [1, 2]}]] [[text: both]]",
        "[[websearch: cays]] [[text: found]]",
        "[[refusal]]",
        "[[max_tokens]] [[text: this is cut in the middle]]",
        "[[usage: in=7 out=9 cache_read=3 cache_write=4 cache_1h=2 web_search=6]] [[text: x]]",
    };
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        struct asked streamed, whole;
        ask(&streamed, prompts[i], "", true);
        ask(&whole, prompts[i], "", false);
        if (streamed.end != MODEL_DONE || whole.end != MODEL_DONE)
            fail_msg("%s: %s, %s", prompts[i], streamed.message, whole.message);
        blank_ids(streamed.content.data);
        blank_ids(whole.content.data);
        assert_same_json(streamed.content.data, whole.content.data);
        assert_string_equal(streamed.stop_reason, whole.stop_reason);
        assert_memory_equal(&streamed.usage, &whole.usage, sizeof whole.usage);
        asked_done(&streamed);
        asked_done(&whole);
    }
}

// What was said goes back as it came: the stand-in compares thinking, and pairs tools with results.
CHECK_CASE(test_sent_back)
{
    static const char prompt[] =
        "[[thinking: hm]] [[tool: Bash {\"command\": \"x\"}]] [[websearch: y]]";
    struct asked first, second;
    ask(&first, prompt, "", true);
    assert_string_equal(first.stop_reason, "tool_use");
    const char *id = strstr(first.content.data, "\"toolu_");
    assert_non_null(id);
    char *rest = NULL;
    assert_true(
        asprintf(
            &rest,
            ",{\"role\":\"assistant\",\"content\":%s},{\"role\":\"user\",\"content\":[{\"type\":"
            "\"tool_result\",\"tool_use_id\":%.*s,\"content\":\"done\"}]}",
            first.content.data, (int)(strcspn(id + 1, "\"") + 2), id) > 0);
    ask(&second, prompt, rest, true);
    assert_int_equal(second.end, MODEL_DONE);
    assert_string_equal(second.stop_reason, "end_turn");
    free(rest);
    asked_done(&first);
    asked_done(&second);
}

CHECK_CASE(test_trouble)
{
    static const struct {
        const char *prompt;
        enum model_end end;
        unsigned attempts;
    } cases[] = {
        {"[[status: 401]]",                                               MODEL_AUTH,       1},
        {"[[status: 400]]",                                               MODEL_INVALID,    1},
        {"[[status: 429 retry-after=0]]",                                 MODEL_LIMITED,    3},
        {"[[status: 529 retry-after-ms=1]]",                              MODEL_OVERLOADED, 3},
        {"[[status: 529 retry-after=0 should-retry=false]]",              MODEL_OVERLOADED, 1},
        {"[[status: 500 retry-after=0 times=2]] [[text: a]]",             MODEL_DONE,       3},
        {"[[break: 3 times=1]] [[text: a long enough answer]]",           MODEL_DONE,       2},
        {"[[break: 3 how=reset times=1]] [[text: b long enough answer]]", MODEL_DONE,       2},
        {"[[break: 3 how=end times=1]] [[text: c long enough answer]]",   MODEL_DONE,       2},
        {"[[error-event: overloaded_error after=2 times=1]] [[text: d]]", MODEL_DONE,       2},
        {"[[error-event: overloaded_error after=2]] [[text: e]]",         MODEL_OVERLOADED, 3},
        {"[[garbage]]",                                                   MODEL_FAILED,     1},
        {"[[redirect: http://127.0.0.1:1/]]",                             MODEL_FAILED,     1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct asked asked;
        ask(&asked, cases[i].prompt, "", true);
        if (asked.end != cases[i].end || asked.attempts != cases[i].attempts)
            fail_msg("%s: %d %u", cases[i].prompt, asked.end, asked.attempts);
        assert_int_equal(asked.n_again, cases[i].attempts - 1);
        asked_done(&asked);
    }
}

CHECK_CASE(test_hangs)
{
    static const char *const prompts[] = {"[[hang]]", "[[hang: 3]] [[text: to be cut]]"};
    for (unsigned i = 0; i < 2; i++) {
        struct asked asked;
        ask_as(&asked, "x-api-key: k", prompts[i], "", true, 500);
        assert_int_equal(asked.end, MODEL_TIMEOUT);
        asked_done(&asked);
    }
}

CHECK_CASE(test_long)
{
    struct asked asked;
    ask(&asked, "[[big: 3000000]]", "", true);
    assert_int_equal(asked.end, MODEL_DONE);
    assert_true(asked.text.len >= 3000000);
    asked_done(&asked);
}

struct got {
    unsigned n;
    char header[256];
};

static void on_key(void *data, const struct model_access *access, const struct err *err)
{
    struct got *got = data;
    got->n++;
    (void)snprintf(got->header, sizeof got->header, "%s",
                   access != NULL ? access->header : err->msg);
}

// A token that is refused, renewed and taken.
CHECK_CASE(test_renewed)
{
    char token_url[160];
    struct model_keys *keys = NULL;
    struct asked asked;
    struct got got = {0};
    struct err err = {0};
    (void)snprintf(token_url, sizeof token_url, "%s/oauth/token", url);
    const struct model_keys_config config = {
        .model = model,
        .base_url = url,
        .api_key = "",
        .auth_token = "stale-1",
        .refresh_token = "refresh-rotate-1",
        .token_url = token_url,
        .client_id = "client",
    };
    assert_int_equal(model_keys_open(&config, &keys, &err), 0);
    for (unsigned i = 0; i < 3; i++) {
        got.n = 0;
        model_keys_get(keys, on_key, &got);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        assert_int_equal(got.n, 1);
        ask_as(&asked, got.header, "[[text: hi]]", "", false, 0);
        assert_int_equal(asked.end, i == 0 ? MODEL_AUTH : MODEL_DONE);
        asked_done(&asked);
        const struct model_access access = {.header = got.header};
        assert_true(model_keys_refused(keys, &access)); // also of a good one: rotated tokens work
    }
    model_keys_close(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_either_way),
        cmocka_unit_test(test_sent_back),
        cmocka_unit_test(test_trouble),
        cmocka_unit_test(test_hangs),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_renewed),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
