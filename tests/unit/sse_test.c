// SPDX-License-Identifier: Apache-2.0
// The bytes of events, read back as the standard says a browser reads them.
#include <string.h>

#include "check.h"
#include "edge/sse-internal.h"
#include "edge/sse.h"

static void formats(const char *id, const char *event, const char *data, const char *want)
{
    auto_buf buf;
    buf_init(&buf, 4096);
    assert_int_equal(sse_format(&buf, id, event, data, strlen(data)), 0);
    assert_string_equal(buf_str(&buf), want);
}

CHECK_CASE(fields_in_order)
{
    formats(NULL, NULL, "a", "data: a\n\n");
    formats("7", NULL, "a", "id: 7\ndata: a\n\n");
    formats(NULL, "exit", "a", "event: exit\ndata: a\n\n");
    formats("7", "exit", "{\"a\":1}", "id: 7\nevent: exit\ndata: {\"a\":1}\n\n");
    formats(NULL, NULL, "", "data: \n\n");
}

CHECK_CASE(every_line_end_makes_a_data_line)
{
    formats(NULL, NULL, "a\nb", "data: a\ndata: b\n\n");
    formats(NULL, NULL, "a\r\nb", "data: a\ndata: b\n\n");
    formats(NULL, NULL, "a\rb", "data: a\ndata: b\n\n");
    formats(NULL, NULL, "a\n", "data: a\ndata: \n\n");
    formats(NULL, NULL, "\n\n", "data: \ndata: \ndata: \n\n");
    formats(NULL, NULL, "a\r", "data: a\ndata: \n\n");
    formats(NULL, NULL, "a\n\r\n\rb", "data: a\ndata: \ndata: \ndata: b\n\n");
    formats(NULL, NULL, " a: b", "data:  a: b\n\n");
}

// Names of files, processes and branches end up in data, and ids are ours; none forges an event.
CHECK_CASE(nothing_forges_an_event)
{
    formats("1\nevent: x", "e\r\ndata: y", "z", "id: 1\nevent: e\ndata: z\n\n");
    formats(NULL, NULL, "a\n\nevent: exit\ndata: b",
            "data: a\ndata: \ndata: event: exit\ndata: data: b\n\n");
}

CHECK_CASE(bytes_are_kept)
{
    auto_buf buf;
    buf_init(&buf, 64);
    assert_int_equal(sse_format(&buf, NULL, NULL, "a\0b\xff", 4), 0);
    assert_int_equal(buf.len, 6 + 4 + 2);
    assert_memory_equal(buf.data, "data: a\0b\xff\n\n", 12);
}

CHECK_CASE(what_does_not_fit_is_told)
{
    auto_buf buf;
    buf_init(&buf, 8);
    assert_true(sse_format(&buf, NULL, NULL, "abcdef", 6) < 0);
}

CHECK_MAIN(cmocka_unit_test(fields_in_order), cmocka_unit_test(every_line_end_makes_a_data_line),
           cmocka_unit_test(nothing_forges_an_event), cmocka_unit_test(bytes_are_kept),
           cmocka_unit_test(what_does_not_fit_is_told))
