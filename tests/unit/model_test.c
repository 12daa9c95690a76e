// SPDX-License-Identifier: Apache-2.0
// The client against a server that answers from a script: what is sent, what is made of the answer.
#include "model_kit.h"

CHECK_CASE(test_streamed)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    char *answer = kit_answer(KIT_HEAD_STREAM, KIT_STREAM);
    kit_add(&kit.server, answer);
    kit_run(&kit, &out, &kit_streamed);
    assert_int_equal(out.end, MODEL_DONE);
    assert_int_equal(out.status, 200);
    assert_int_equal(out.attempts, 1);
    assert_string_equal(out.content, "[{\"type\":\"text\",\"text\":\"Hello, w\\u00f6rld\"}]");
    assert_string_equal(buf_str(&out.text), "Hello, w\xc3\xb6rld");
    assert_string_equal(out.id, "msg_1");
    assert_string_equal(out.model, "claude-sonnet-5-5");
    assert_string_equal(out.stop_reason, "end_turn");
    assert_string_equal(out.request_id, "req_1");
    assert_int_equal(out.usage.input, 10);
    assert_int_equal(out.usage.output, 42);
    assert_int_equal(out.usage.cache_write, 4);
    assert_int_equal(out.usage.cache_write_1h, 3);
    assert_int_equal(out.usage.cache_read, 5);
    assert_true(out.first_ns > 0 && out.total_ns >= out.first_ns);
    kit_outcome_done(&out);
    kit_close(&kit);
    free(answer);
}

CHECK_CASE(test_plain)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    char *answer = kit_answer(KIT_HEAD_JSON, KIT_JSON);
    kit_add(&kit.server, answer);
    kit_run(&kit, &out, &kit_plain);
    assert_int_equal(out.end, MODEL_DONE);
    assert_string_equal(out.content, "[{\"type\":\"text\",\"text\":\"Hi\"}]");
    assert_string_equal(out.stop_reason, "max_tokens");
    assert_string_equal(out.usage_json, "{\"input_tokens\":3,\"output_tokens\":4}");
    assert_int_equal(out.usage.output, 4);
    kit_outcome_done(&out);
    kit_close(&kit);
    free(answer);
}

// --- what is sent

static const char *request(const struct kit *kit, unsigned n)
{
    assert_true(n < kit->server.n_served);
    return buf_str(&kit->server.requests[n]);
}

static void assert_has(const char *text, const char *part)
{
    if (strcasestr(text, part) == NULL)
        fail_msg("'%s' is not in: %s", part, text);
}

static void assert_lacks(const char *text, const char *part)
{
    if (strcasestr(text, part) != NULL)
        fail_msg("'%s' is in: %s", part, text);
}

CHECK_CASE(test_request)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    char *answer = kit_answer(KIT_HEAD_JSON, KIT_JSON);
    kit_add(&kit.server, answer);
    kit_add(&kit.server, answer);
    struct model_request more = kit_plain;
    char url[128], header[] = "authorization: Bearer sk-ant-oat01-abc";
    (void)snprintf(url, sizeof url, "%s/some/path/", kit.url);
    const struct model_access access = {.base_url = url, .header = header};
    more.access = &access;
    more.beta = "a-1,b-2";
    more.body = "{\"x\":1}";
    kit_run(&kit, &out, &more);
    assert_int_equal(out.end, MODEL_DONE);
    assert_has(request(&kit, 0), "POST /some/path/v1/messages HTTP/1.1\r\n");
    assert_has(request(&kit, 0), "\r\ncontent-type: application/json\r\n");
    assert_has(request(&kit, 0), "\r\nanthropic-version: 2023-06-01\r\n");
    assert_has(request(&kit, 0), "\r\nauthorization: Bearer sk-ant-oat01-abc\r\n");
    assert_has(request(&kit, 0), "\r\nanthropic-beta: a-1,b-2,oauth-2025-04-20\r\n");
    assert_has(request(&kit, 0), "\r\nuser-agent: cay/");
    assert_has(request(&kit, 0), "\r\n\r\n{\"x\":1}");
    kit_outcome_done(&out);
    kit_run(&kit, &out, &kit_plain);
    assert_has(request(&kit, 1), "POST /v1/messages HTTP/1.1\r\n");
    assert_has(request(&kit, 1), "\r\nx-api-key: " KIT_KEY "\r\n");
    assert_lacks(request(&kit, 1), "anthropic-beta");
    assert_lacks(request(&kit, 1), "oauth");
    assert_int_equal(kit.server.n_conns, 1); // kept
    kit_outcome_done(&out);
    kit_close(&kit);
    free(answer);
}

// Nobody waits for a 100 before a large body is sent.
CHECK_CASE(test_large_request)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    char *answer = kit_answer(KIT_HEAD_JSON, KIT_JSON);
    kit_add(&kit.server, answer);
    size_t len = 5 * 1024 * 1024;
    char *body = malloc(len);
    memset(body, ' ', len);
    struct model_request more = kit_plain;
    more.body = body;
    more.body_len = len;
    kit_run(&kit, &out, &more);
    assert_int_equal(out.end, MODEL_DONE);
    assert_true(kit.server.requests[0].len > len);
    assert_lacks(request(&kit, 0), "expect:");
    free(body);
    kit_outcome_done(&out);
    kit_close(&kit);
    free(answer);
}

// --- answers, cut and long

CHECK_CASE(test_split_answers)
{
    static const size_t steps[] = {1, 2, 3, 7, 100};
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    char *answers[5];
    for (unsigned i = 0; i < 5; i++) {
        answers[i] = kit_chunked(KIT_HEAD_STREAM, KIT_STREAM, steps[i], true);
        kit_add(&kit.server, answers[i])->split = steps[4 - i];
    }
    for (unsigned i = 0; i < 5; i++) {
        kit_run(&kit, &out, &kit_streamed);
        assert_int_equal(out.end, MODEL_DONE);
        assert_int_equal(out.attempts, 1);
        assert_string_equal(out.content, "[{\"type\":\"text\",\"text\":\"Hello, w\\u00f6rld\"}]");
        assert_string_equal(buf_str(&out.text), "Hello, w\xc3\xb6rld");
        assert_int_equal(out.n_raw, 8);
        kit_outcome_done(&out);
    }
    assert_int_equal(kit.server.n_conns, 1);
    kit_close(&kit);
    for (unsigned i = 0; i < 5; i++)
        free(answers[i]);
}

CHECK_CASE(test_long_answers)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    size_t len = 8 * 1000 * 1000;
    char *text = malloc(len + 1), *body = NULL;
    memset(text, 'y', len);
    text[len] = '\0';
    assert_true(asprintf(&body, KIT_START KIT_TEXT_START KIT_TEXT("%s") KIT_STOP KIT_DELTA KIT_END,
                         text) > 0);
    char *streamed = kit_chunked(KIT_HEAD_STREAM, body, 50000, true);
    free(body);
    assert_true(asprintf(&body, "{\"type\":\"message\",\"content\":[\"%s%s%s%s%s\"]}", text, text,
                         text, text, text) > 0);
    char *too_long = kit_answer(KIT_HEAD_JSON, body);
    kit_add(&kit.server, streamed);
    kit_add(&kit.server, too_long);
    kit_run(&kit, &out, &kit_streamed);
    assert_int_equal(out.end, MODEL_DONE);
    assert_int_equal(out.text.len, len);
    assert_true(strlen(out.content) > len);
    kit_outcome_done(&out);
    kit_run(&kit, &out, &kit_plain);
    assert_int_equal(out.end, MODEL_FAILED);
    assert_int_equal(out.attempts, 1);
    assert_has(out.message, "32 MiB");
    kit_outcome_done(&out);
    free(text);
    free(body);
    kit_close(&kit);
    free(too_long);
    free(streamed);
}

// Asked for a stream, the server may answer in one piece, and the other way round.
CHECK_CASE(test_other_than_asked)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    char *plain = kit_answer(KIT_HEAD_JSON, KIT_JSON),
         *stream = kit_answer(KIT_HEAD_STREAM, KIT_STREAM);
    kit_add(&kit.server, plain);
    kit_add(&kit.server, stream);
    kit_run(&kit, &out, &kit_streamed);
    assert_int_equal(out.end, MODEL_DONE);
    assert_string_equal(out.id, "msg_2");
    kit_outcome_done(&out);
    kit_run(&kit, &out, &kit_plain);
    assert_int_equal(out.end, MODEL_DONE);
    assert_string_equal(out.id, "msg_1");
    kit_outcome_done(&out);
    kit_close(&kit);
    free(stream);
    free(plain);
}

// A connection that does not end behind the message costs a moment, not the call.
CHECK_CASE(test_no_end_behind_the_end)
{
    struct kit kit;
    struct kit_outcome out;
    kit_open(&kit);
    char *answer = kit_chunked(KIT_HEAD_STREAM, KIT_STREAM, 1000, false);
    kit_add(&kit.server, answer)->hang = true;
    kit_add(&kit.server, answer)->close = true;
    for (unsigned i = 0; i < 2; i++) {
        kit_run(&kit, &out, &kit_streamed);
        assert_int_equal(out.end, MODEL_DONE);
        assert_int_equal(out.attempts, 1);
        kit_outcome_done(&out);
    }
    kit_close(&kit);
    free(answer);
}

CHECK_MAIN(cmocka_unit_test(test_streamed), cmocka_unit_test(test_plain),
           cmocka_unit_test(test_request), cmocka_unit_test(test_large_request),
           cmocka_unit_test(test_split_answers), cmocka_unit_test(test_long_answers),
           cmocka_unit_test(test_other_than_asked), cmocka_unit_test(test_no_end_behind_the_end))
