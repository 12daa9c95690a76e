// SPDX-License-Identifier: Apache-2.0
// A stream becomes the message that would have come in one piece, however it is cut.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "check.h"
#include "model/message.h"
#include "model/stream.h"

#define START(usage)                                                                               \
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\","       \
    "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-x\",\"content\":[],"           \
    "\"stop_reason\":null,\"usage\":" usage "}}\n\n"
#define BLOCK(index, block)                                                                        \
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":" index         \
    ",\"content_block\":" block "}\n\n"
#define DELTA(index, delta)                                                                        \
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":" index         \
    ",\"delta\":" delta "}\n\n"
#define STOP(index) "data: {\"type\":\"content_block_stop\",\"index\":" index "}\n\n"
#define END(reason, usage)                                                                         \
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" reason \
    "\",\"stop_sequence\":null},\"usage\":" usage "}\n\n"                                          \
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

// Everything that there is.
static const char rich[] = ": a comment\nid: 7\nretry: 5\n\n" START(
    "{\"input_tokens\":1,\"output_tokens\":1,\"cache_creation_input_tokens\":null,"
    "\"server_tool_use\":null,\"x\":0.1}") "event: ping\ndata: {\"type\":\"ping\"}\n\n"
                                           "event: novelty\ndata: {\"type\":\"novelty\",\"index\":-1}\n\n" BLOCK(
                                               "0",
                                               "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}")
                                               DELTA("0", "{\"type\":\"thinking_delta\",\"thinking\":\"Let me \"}") DELTA(
                                                   "0",
                                                   "{\"type\":\"thinking_delta\",\"thinking\":\"see.\\n\"}")
                                                   DELTA("0", "{\"type\":\"signature_delta\",\"signature\":\"c2ln\"}") STOP(
                                                       "0") BLOCK("1",
                                                                  "{\"type\":\"redacted_thinking\",\"data\":\"abc\\/d\"}")
                                                       STOP("1") BLOCK("2", "{\"citations\":[],\"type\":\"text\",\"text\":\"\"}") DELTA(
                                                           "2",
                                                           "{\"type\":\"text_delta\",\"text\":\"a \\\"q\\\" \\ud83d\\ude00\"}")
                                                           DELTA(
                                                               "2",
                                                               "{\"type\":\"citations_delta\",\"citation\":{\"type\":\"char_location\",\"n\":1.50}}")
                                                               DELTA("2", "{\"type\":\"novel_delta\",\"text\":\"not this\"}") DELTA(
                                                                   "2",
                                                                   "{\"type\":\"citations_delta\",\"citation\":{\"n\":2}}")
                                                                   DELTA("2", "{\"type\":\"text_delta\",\"text\":\" \xc3\xa4\\u0000\"}") STOP(
                                                                       "2") BLOCK("3",
                                                                                  "{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"Bash\",\"input\":{}}")
                                                                       DELTA("3", "{\"type\":\"input_json_delta\",\"partial_json\":\"\"}") DELTA(
                                                                           "3",
                                                                           "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"n\\\": 0.1, \\\"big\\\": 123456789\"}")
                                                                           DELTA(
                                                                               "3",
                                                                               "{\"type\":\"input_json_delta\",\"partial_json\":\"01234567890123, \\\"s\\\": \\\"\\\\u0000x\\\"}\"}")
                                                                               STOP("3") BLOCK(
                                                                                   "4",
                                                                                   "{\"type\":\"tool_use\",\"id\":\"toolu_2\",\"name\":\"Todo\",\"input\":{}}")
                                                                                   STOP("4") BLOCK(
                                                                                       "5",
                                                                                       "{\"type\":\"server_tool_use\",\"id\":\"srv_1\",\"name\":\"web_search\",\"input\":{}}")
                                                                                       DELTA(
                                                                                           "5",
                                                                                           "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"query\\\":\\\"x\\\"}\"}")
                                                                                           STOP("5") BLOCK(
                                                                                               "6",
                                                                                               "{\"type\":\"web_search_tool_result\",\"tool_use_id\":\"srv_1\",\"content\":["
                                                                                               "{\"type\":\"web_search_result\",\"url\":\"https://a/\",\"encrypted_content\":\"EqgfC{[]}\\\"\","
                                                                                               "\"page_age\":null}]}")
                                                                                               STOP("6") END(
                                                                                                   "tool_use",
                                                                                                   "{\"output_tokens\":9,\"input_tokens\":null,\"server_tool_use\":"
                                                                                                   "{\"web_search_requests\":2,\"web_fetch_requests\":1}}");

static const char rich_content[] =
    "[{\"type\":\"thinking\",\"thinking\":\"Let me see.\\n\",\"signature\":\"c2ln\"},"
    "{\"type\":\"redacted_thinking\",\"data\":\"abc\\/d\"},"
    "{\"citations\":[{\"type\":\"char_location\",\"n\":1.50},{\"n\":2}],\"type\":\"text\","
    "\"text\":\"a \\\"q\\\" \\ud83d\\ude00 \xc3\xa4\\u0000\"},"
    "{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"Bash\",\"input\":{\"n\": 0.1, \"big\": "
    "12345678901234567890123, \"s\": \"\\u0000x\"}},"
    "{\"type\":\"tool_use\",\"id\":\"toolu_2\",\"name\":\"Todo\",\"input\":{}},"
    "{\"type\":\"server_tool_use\",\"id\":\"srv_1\",\"name\":\"web_search\",\"input\":"
    "{\"query\":\"x\"}},"
    "{\"type\":\"web_search_tool_result\",\"tool_use_id\":\"srv_1\",\"content\":[{\"type\":"
    "\"web_search_result\",\"url\":\"https://a/\",\"encrypted_content\":\"EqgfC{[]}\\\"\","
    "\"page_age\":null}]}]";

static const char rich_usage[] =
    "{\"input_tokens\":1,\"output_tokens\":9,\"cache_creation_input_tokens\":null,"
    "\"server_tool_use\":{\"web_search_requests\":2,\"web_fetch_requests\":1},\"x\":0.1}";
static const char rich_text[] = "a \"q\" \xf0\x9f\x98\x80 \xc3\xa4";

static bool collect(void *data, const struct model_event *event)
{
    if (event->type == MODEL_TEXT)
        (void)buf_append(data, event->text, event->len);
    return true;
}

// Fed in two parts, then in steps.
static void check_rich(const char *bytes, size_t len, size_t first, size_t step)
{
    struct message message = {0};
    auto_buf text;
    buf_init(&text, 1024);
    struct stream *stream = stream_new(collect, &text);
    (void)stream_feed(stream, bytes, first);
    for (size_t at = first; at < len; at += step)
        (void)stream_feed(stream, bytes + at, len - at < step ? len - at : step);
    assert_int_equal(stream_state(stream), STREAM_WHOLE);
    assert_int_equal(stream_message(stream, &message), 0);
    assert_string_equal(message.content, rich_content);
    assert_string_equal(message.usage_json, rich_usage);
    assert_string_equal(message.stop_reason, "tool_use");
    assert_string_equal(message.stop_details, "null");
    assert_int_equal(message.usage.input, 1);
    assert_int_equal(message.usage.output, 9);
    assert_int_equal(message.usage.searches, 2);
    assert_int_equal(message.usage.fetches, 1);
    assert_int_equal(text.len, sizeof rich_text); // with its NUL
    assert_memory_equal(text.data, rich_text, sizeof rich_text);
    message_done(&message);
    stream_free(stream);
}

CHECK_CASE(test_every_split)
{
    size_t len = sizeof rich - 1;
    check_rich(rich, len, 0, len);
    for (size_t step = 1; step < 20; step++)
        check_rich(rich, len, 0, step);
    for (size_t first = 0; first <= len; first++)
        check_rich(rich, len, first, len);
}

static char *with_line_ends(const char *end)
{
    struct buf out;
    buf_init(&out, 1024 * 1024);
    for (const char *p = rich; *p != '\0'; p++)
        (void)(*p == '\n' ? buf_append_str(&out, end) : buf_append_char(&out, *p));
    return out.data;
}

CHECK_CASE(test_line_ends)
{
    static const char *const ends[] = {"\r", "\r\n"};
    for (unsigned i = 0; i < 2; i++) {
        char *text = with_line_ends(ends[i]);
        size_t len = strlen(text);
        for (size_t step = 1; step < 8; step++)
            check_rich(text, len, 0, step);
        for (size_t first = 0; first <= len; first += 3)
            check_rich(text, len, first, len);
        free(text);
    }
}

// What it ends with, and what the content is.
static enum stream_state feed(const char *text, struct message *ret)
{
    struct stream *stream = stream_new(NULL, NULL);
    enum stream_state state = stream_feed(stream, text, strlen(text));
    *ret = (struct message){0};
    assert_int_equal(stream_message(stream, ret), 0);
    stream_free(stream);
    return state;
}

static void check_content(const char *text, const char *content)
{
    struct message message;
    assert_int_equal(feed(text, &message), STREAM_WHOLE);
    assert_string_equal(message.content, content);
    message_done(&message);
}

CHECK_CASE(test_odd_but_fine)
{
    // Data of several lines, no space behind the colon, a mark at the beginning.
    check_content("\xef\xbb\xbf" START("{}") "data:{\"type\":\ndata:  \"message_stop\"}\n\n", "[]");
    // No end of a block, no message_delta.
    check_content(
        START("{}") BLOCK("0", "{\"type\":\"text\",\"text\":\"Hi\"}") DELTA(
            "0",
            "{\"type\":\"text_delta\",\"text\":\"!\"}") "data: {\"type\":\"message_stop\"}\n\n",
        "[{\"type\":\"text\",\"text\":\"Hi!\"}]");
    // Members that the start did not have.
    check_content(
        START("null") BLOCK("0", "{}") DELTA("0", "{\"type\":\"text_delta\",\"text\":\"x\"}")
            DELTA("0", "{\"type\":\"citations_delta\",\"citation\":null}") END("end_turn", "{}"),
        "[{\"text\":\"x\",\"citations\":[null]}]");
    // Empty data, data that says nothing, what comes behind the end.
    check_content("data:\n\ndata: {}\n\ndata: 5\n\n" START("{}")
                      END("end_turn", "null") "data: nonsense\n\n",
                  "[]");
    // Pieces of a kind that nobody knows, wherever they come.
    check_content(DELTA("9", "{\"type\":\"novelty\"}") START("{}") BLOCK("0", "{}") STOP("0")
                      DELTA("0", "{\"type\":\"novelty\"}") DELTA("0", "{}") END("x", "{}"),
                  "[{}]");
    // Several blocks open at once.
    check_content(START("{}") BLOCK("0", "{\"text\":\"\"}") BLOCK("1", "{\"text\":\"\"}")
                      DELTA("0", "{\"type\":\"text_delta\",\"text\":\"a\"}")
                          DELTA("1", "{\"type\":\"text_delta\",\"text\":\"b\"}")
                              DELTA("0", "{\"type\":\"text_delta\",\"text\":\"c\"}") END("x", "{}"),
                  "[{\"text\":\"ac\"},{\"text\":\"b\"}]");
}

CHECK_CASE(test_input_cut_off)
{
    check_content(START("{}") BLOCK("0", "{\"type\":\"tool_use\",\"input\":{}}") DELTA(
                      "0", "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\": \\\"b\"}")
                      STOP("0") END("max_tokens", "{}"),
                  "[{\"type\":\"tool_use\",\"input\":{\"INVALID_JSON\":\"{\\\"a\\\": \\\"b\"}}]");
}

static void check_states(const char *const *texts, size_t n, enum stream_state state)
{
    for (size_t i = 0; i < n; i++) {
        struct message message;
        if (feed(texts[i], &message) != state)
            fail_msg("not state %d: %s", state, texts[i]);
        assert_string_equal(message.content, "[]");
        message_done(&message);
    }
}

CHECK_CASE(test_broken)
{
    static const char *const open[] = {
        "",
        START("{}"),
        START("{}") "data: {\"type\":\"message_stop\"}\n",
    };
    static const char *const broken[] = {
        "data: {\"type\":\"message_stop\"}\n\n",
        "data: {\"type\":\n\n",
        "data: {\"type\":\"x\",}\n\n",
        START("{}") START("{}"),
        "data: {\"type\":\"message_start\"}\n\n",
        START("{}") BLOCK("1", "{}"),
        START("{}") BLOCK("-1", "{}"),
        START("{}") BLOCK("0", "[]"),
        BLOCK("0", "{}"),
        START("{}") STOP("0"),
        START("{}") DELTA("0", "{\"type\":\"text_delta\",\"text\":\"\"}"),
        START("{}") BLOCK("0", "{}") STOP("0")
            DELTA("0", "{\"type\":\"text_delta\",\"text\":\"\"}"),
        START("{}") BLOCK("0", "{}") DELTA("0", "{\"type\":\"text_delta\"}"),
        START("{}") BLOCK("0", "{}") DELTA("0", "{\"type\":\"text_delta\",\"text\":1}"),
    };
    static const char *const errors[] = {
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
        START("{}") "data: {\"type\":\"error\"}\n\n",
    };
    check_states(open, sizeof open / sizeof *open, STREAM_OPEN);
    check_states(broken, sizeof broken / sizeof *broken, STREAM_BROKEN);
    check_states(errors, sizeof errors / sizeof *errors, STREAM_ERROR);
}

CHECK_CASE(test_error_event)
{
    static const char text[] = START(
        "{\"input_tokens\":5}") "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Over\"}}\n\n";
    struct stream *stream = stream_new(NULL, NULL);
    struct message message = {0};
    assert_int_equal(stream_feed(stream, text, sizeof text - 1), STREAM_ERROR);
    assert_string_equal(stream_error(stream)->type, "overloaded_error");
    assert_string_equal(stream_error(stream)->message, "Over");
    assert_int_equal(stream_message(stream, &message), 0);
    assert_int_equal(message.usage.input, 5); // as far as it was told
    message_done(&message);
    stream_free(stream);
}

static bool halt(void *data, const struct model_event *event)
{
    unsigned *n = data;
    return event->type != MODEL_TEXT || --*n > 0;
}

CHECK_CASE(test_halted)
{
    unsigned n = 1;
    struct stream *stream = stream_new(halt, &n);
    assert_int_equal(stream_feed(stream, rich, sizeof rich - 1), STREAM_HALTED);
    assert_int_equal(n, 0);
    assert_int_equal(stream_feed(stream, rich, sizeof rich - 1), STREAM_HALTED);
    stream_free(stream);
}

// A message without end, in pieces and in one; blocks without end.
CHECK_CASE(test_bounded)
{
    static char piece[1024 * 1024];
    struct stream *stream = stream_new(NULL, NULL);
    static const char head[] = START("{}") BLOCK("0", "{\"type\":\"text\",\"text\":\"\"}");
    int len = snprintf(piece, sizeof piece,
                       "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
                       "{\"type\":\"text_delta\",\"text\":\"");
    memset(piece + len, 'x', 1000000);
    memcpy(piece + len + 1000000, "\"}}\n\n", 6);
    (void)stream_feed(stream, head, sizeof head - 1);
    unsigned n = 0;
    while (n < 100 && stream_feed(stream, piece, strlen(piece)) == STREAM_OPEN)
        n++;
    assert_int_equal(stream_state(stream), STREAM_LARGE);
    assert_int_equal(n, 33);
    stream_free(stream);

    stream = stream_new(NULL, NULL);
    (void)stream_feed(stream, "data: ", 6);
    for (n = 0; n < 100 && stream_state(stream) == STREAM_OPEN; n++)
        (void)stream_feed(stream, piece + len, 1000000);
    assert_int_equal(stream_state(stream), STREAM_LARGE);
    stream_free(stream);

    stream = stream_new(NULL, NULL);
    (void)stream_feed(stream, head, sizeof head - 1);
    for (n = 1; n < 200000 && stream_state(stream) == STREAM_OPEN; n++) {
        len = snprintf(
            piece, sizeof piece,
            "data: {\"type\":\"content_block_start\",\"index\":%u,\"content_block\":{}}\n\n", n);
        (void)stream_feed(stream, piece, (size_t)len);
    }
    assert_int_equal(stream_state(stream), STREAM_LARGE);
    assert_in_range(n, 60000, 70000);
    stream_free(stream);
}

// A short text must not become a large tree.
CHECK_CASE(test_many_values)
{
    struct buf text;
    struct message message;
    buf_init(&text, 4 * 1024 * 1024);
    (void)buf_append_str(&text, "data: {\"type\":\"x\",\"a\":[1");
    for (unsigned i = 0; i < RAW_VALUES_MAX; i++)
        (void)buf_append_str(&text, ",1");
    (void)buf_append_str(&text, "]}\n\n");
    assert_int_equal(feed(text.data, &message), STREAM_BROKEN);
    message_done(&message);
    buf_done(&text);
}

CHECK_CASE(test_whole_messages)
{
    static const char good[] =
        " {\"type\":\"message\", \"id\":\"m\", \"content\" : [ {\"text\":\"\\u00e4\", \"n\":1.0} ] ,"
        "\"stop_reason\":\"refusal\",\"stop_details\":{\"a\":[1]},\"usage\":{\"input_tokens\":2,"
        "\"cache_creation_input_tokens\":5,\"cache_creation\":{\"ephemeral_1h_input_tokens\":2}}}";
    static const char *const bad[] = {"",
                                      "{",
                                      "[]",
                                      "{}",
                                      "{\"type\":\"error\",\"content\":[]}",
                                      "{\"type\":\"message\"}",
                                      "{\"type\":\"message\",\"content\":{}}",
                                      "{\"type\":\"message\",\"content\":[]} x"};
    struct message message = {0};
    struct err err = {0};
    assert_int_equal(message_read(good, sizeof good - 1, &message, &err), 0);
    assert_string_equal(message.content, "[ {\"text\":\"\\u00e4\", \"n\":1.0} ]");
    assert_string_equal(message.stop_details, "{\"a\":[1]}");
    assert_string_equal(message.model, "");
    assert_int_equal(message.usage.cache_write, 3);
    assert_int_equal(message.usage.cache_write_1h, 2);
    message_done(&message);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(message_read(bad[i], strlen(bad[i]), &message, &err), -1);
}

CHECK_MAIN(cmocka_unit_test(test_every_split), cmocka_unit_test(test_line_ends),
           cmocka_unit_test(test_odd_but_fine), cmocka_unit_test(test_input_cut_off),
           cmocka_unit_test(test_broken), cmocka_unit_test(test_error_event),
           cmocka_unit_test(test_halted), cmocka_unit_test(test_bounded),
           cmocka_unit_test(test_many_values), cmocka_unit_test(test_whole_messages))
