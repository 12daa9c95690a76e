// SPDX-License-Identifier: Apache-2.0
// What an answer used, read off as it passes, however it is cut.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "model/meter.h"

static const char stream[] =
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-x\","
    "\"content\":[],\"usage\":{\"input_tokens\":11,\"output_tokens\":2,"
    "\"cache_creation_input_tokens\":7,\"cache_read_input_tokens\":null,\"cache_creation\":"
    "{\"ephemeral_5m_input_tokens\":4,\"ephemeral_1h_input_tokens\":3}}}}\n\n"
    "event: ping\ndata: {\"type\": \"ping\"}\n\n"
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\","
    "\"text\":\"\",\"usage\":{\"input_tokens\":999}}}\n\n"
    "data: {\"delta\":{\"text\":\"0123456789\\\"1\",\"type\":\"text_delta\"},\"index\":0,"
    "\"type\":\"content_block_delta\"}\n\n"
    "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"input_json_delta\","
    "\"partial_json\":\"0123456789012345678901234567890123456789\"}}\n\n"
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":"
    "{\"output_tokens\":5,\"input_tokens\":null,\"server_tool_use\":{\"web_search_requests\":2}}}\n\n";
static const char stop[] = "data: {\"type\":\"message_stop\"}\n\n";

static const char plain[] =
    "{\"id\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"\\\"usage\\\":{\\\"input_tokens\\\":5}\","
    "\"usage\":{\"output_tokens\":77},\"model\":\"no\"}, {\"model\":\"no\"}],\n \"model\" : \"claude-y\" ,"
    "\"usage\":{\"input_tokens\": 3, \"output_tokens\":4 ,\"cache_creation\":{\"x\":1},"
    "\"server_tool_use\":{\"web_search_requests\":1,\"web_fetch_requests\":2}},\"z\":[[{}]]}\n";

static void read_split(const char *type, const char *text, size_t first, size_t step,
                       struct meter_reading *ret)
{
    size_t len = strlen(text);
    struct meter *meter = meter_new(200, type);
    meter_feed(meter, text, first);
    for (size_t at = first; at < len; at += step)
        meter_feed(meter, text + at, len - at < step ? len - at : step);
    memset(ret, 0, sizeof *ret);
    meter_read(meter, ret);
    meter_free(meter);
}

static void check_stream(const struct meter_reading *reading)
{
    assert_string_equal(reading->model, "claude-x");
    assert_int_equal(reading->usage.input, 11);
    assert_int_equal(reading->usage.output, 5);
    assert_int_equal(reading->usage.cache_write, 4);
    assert_int_equal(reading->usage.cache_write_1h, 3);
    assert_int_equal(reading->usage.cache_read, 0);
    assert_int_equal(reading->usage.searches, 2);
}

static void check_plain(const struct meter_reading *reading)
{
    assert_string_equal(reading->model, "claude-y");
    assert_int_equal(reading->usage.input, 3);
    assert_int_equal(reading->usage.output, 4);
    assert_int_equal(reading->usage.searches, 1);
    assert_int_equal(reading->usage.fetches, 2);
    assert_true(reading->is_final);
}

CHECK_CASE(test_every_split)
{
    struct meter_reading reading;
    for (size_t first = 0; first <= sizeof stream - 1; first++) {
        read_split("text/event-stream; charset=utf-8", stream, first, sizeof stream, &reading);
        check_stream(&reading);
        assert_false(reading.is_final);
    }
    for (size_t first = 0; first <= sizeof plain - 1; first++) {
        read_split("application/json", plain, first, sizeof plain, &reading);
        check_plain(&reading);
    }
    for (size_t step = 1; step < 9; step++) {
        read_split("TEXT/Event-Stream", stream, 0, step, &reading);
        check_stream(&reading);
        read_split(NULL, plain, 0, step, &reading);
        check_plain(&reading);
    }
}

// Until the end is told, what was seen counts.
CHECK_CASE(test_guess)
{
    struct meter *meter = meter_new(200, "text/event-stream");
    struct meter_reading reading;
    const char *delta = strstr(stream, "data: {\"type\":\"message_delta\"");
    const char *pieces = strstr(stream, "data: {\"delta\"");
    meter_feed(meter, stream, (size_t)(pieces - stream));
    meter_read(meter, &reading);
    assert_int_equal(reading.usage.output, 2);
    meter_feed(meter, pieces, (size_t)(delta - pieces));
    meter_read(meter, &reading);
    assert_int_equal(reading.usage.output, (13 + 40) / 4);
    meter_feed(meter, delta, strlen(delta));
    meter_feed(meter, stop, sizeof stop - 1);
    meter_read(meter, &reading);
    check_stream(&reading);
    assert_true(reading.is_final);
    meter_free(meter);
}

static void check_nothing(unsigned status, const char *type, const char *text, bool is_final)
{
    struct meter *meter = meter_new(status, type);
    struct meter_reading reading;
    static const struct model_usage none;
    meter_feed(meter, text, strlen(text));
    meter_read(meter, &reading);
    assert_memory_equal(&reading.usage, &none, sizeof none);
    assert_int_equal(reading.is_final, is_final);
    meter_free(meter);
}

CHECK_CASE(test_nothing_to_read)
{
    check_nothing(429, "application/json", plain, true);
    check_nothing(500, "text/event-stream", stream, true);
    check_nothing(200, "application/json", "", false);
    check_nothing(200, "application/json", "<html>", false);
    check_nothing(200, "application/json", "[{\"usage\":{\"input_tokens\":1}}]", true);
    check_nothing(200, "application/json", "{\"input_tokens\":1}", true);
    check_nothing(200, "application/json", "{]\"usage\":{\"input_tokens\":1}}", false);
    check_nothing(200, "application/json",
                  "{\"usage\":{\"input_tokens\":-1,\"output_tokens\":1.5}}", true);
    check_nothing(200, "application/json",
                  "{\"usage\":{\"input_tokens\":\"5\",\"output_tokens\":true}}", true);
    check_nothing(200, "application/json", "{\"us\\u0061ge\":{\"input_tokens\":1}}", true);
    check_nothing(200, "application/json", "{\"usage\":[{\"input_tokens\":1}]}", true);
    check_nothing(200, "text/event-stream", plain, false);
}

CHECK_CASE(test_nonsense)
{
    static char deep[100000];
    struct meter_reading reading;
    memset(deep, '[', sizeof deep - 1);
    check_nothing(200, "application/json", deep, false);
    read_split("application/json", "{\"usage\":{\"input_tokens\":99999999999999999}}", 0, 7,
               &reading);
    assert_true(reading.usage.input > 0 && reading.usage.input <= INT64_C(1) << 40);
    // Names of any length: what does not fit is not known.
    memset(deep, 'm', sizeof deep - 1);
    memcpy(deep, "{\"model\":\"", 10);
    memcpy(deep + sizeof deep - 3, "\"}", 2);
    read_split("application/json", deep, 0, 4096, &reading);
    assert_string_equal(reading.model, "");
    assert_true(reading.is_final);
}

// It must not grow with what passes.
CHECK_CASE(test_long)
{
    struct meter *meter = meter_new(200, "application/json");
    struct meter_reading reading;
    static const char tail[] =
        "\"}],\"model\":\"m\",\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}";
    static char text[65536];
    memset(text, 'x', sizeof text);
    meter_feed(meter, "{\"content\":[{\"text\":\"", 21);
    for (unsigned i = 0; i < 1024; i++)
        meter_feed(meter, text, sizeof text);
    meter_feed(meter, tail, sizeof tail - 1);
    meter_read(meter, &reading);
    assert_string_equal(reading.model, "m");
    assert_int_equal(reading.usage.output, 2);
    assert_true(reading.is_final);
    meter_free(meter);
}

CHECK_MAIN(cmocka_unit_test(test_every_split), cmocka_unit_test(test_guess),
           cmocka_unit_test(test_nothing_to_read), cmocka_unit_test(test_nonsense),
           cmocka_unit_test(test_long))
