// SPDX-License-Identifier: Apache-2.0
// The framing checker without a server: what is handed on, at every split. What is refused and what
// is not is told by tests/edge/test_framing.py, against the library that reads what is handed on.
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "check.h"
#include "edge/http-frame.h"
#include "edge/limits.h"

// What the library is given when these bytes come in pieces of `step`.
static void feed(struct frame *frame, struct buf *out, const char *data, size_t len, size_t step)
{
    frame_init(frame);
    buf_reset(out);
    for (size_t at = 0; at < len && frame->state != FRAME_REFUSED; at += step) {
        size_t n = len - at < step ? len - at : step;
        size_t held = frame_held(frame);
        size_t good = frame_feed(frame, data + at, n);
        assert_true(good <= n && (good == n || frame->state == FRAME_REFUSED));
        size_t ready = held + good - frame_held(frame);
        assert_true(ready <= held + good);
        (void)buf_append(out, data + at - held, ready); // what was held stands before
    }
    if (frame->state == FRAME_REFUSED)
        (void)buf_append_str(out, frame_ending(frame));
}

static void check(const char *data, size_t len, const char *want, unsigned status, unsigned heads)
{
    auto_buf out;
    struct frame frame;
    buf_init(&out, 1 << 20);
    for (size_t step = 1; step <= len; step++) {
        feed(&frame, &out, data, len, step);
        if (frame.status != status || frame.heads != heads || strcmp(buf_str(&out), want) != 0)
            fail_msg("in pieces of %zu: %u, %u heads, '%s'", step, frame.status, frame.heads,
                     buf_str(&out));
        assert_int_equal(frame.refused_at, status == 0 ? 0 : heads);
        for (unsigned n = 1; n <= heads + 1; n++)
            assert_int_equal(frame_refuses(&frame, n), n > heads || (status != 0 && n == heads));
    }
}

static void passes(const char *data, unsigned heads)
{
    check(data, strlen(data), data, 0, heads);
}

static void ends(const char *data, const char *want, unsigned heads)
{
    check(data, strlen(data), want, 400, heads);
}

#define GET "GET / HTTP/1.1\r\n"
#define H   "Host: a\r\n"

CHECK_CASE(good_messages_pass_as_they_are)
{
    passes(GET H "\r\n", 1);
    passes("\r\n" GET H "\r\n", 1);
    passes(GET H "\r\n" GET H "\r\n" GET H, 2);
    passes("POST / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello" GET H "\r\n", 2);
    passes("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
           "5\r\nhello\r\n0a\r\n0123456789\r\n0\r\n\r\n" GET H "\r\n",
           2);
}

CHECK_CASE(every_state_has_an_ending)
{
    ends("\x16\x03", "GET / HTTP/1.1\r\n\r\n", 1);
    ends("\r\r", "\r\nGET / HTTP/1.1\r\n\r\n", 1);
    ends("G:", "G / HTTP/1.1\r\n\r\n", 1);
    ends("GET *", "GET / HTTP/1.1\r\n\r\n", 1);
    ends("GET /a\x01", "GET /a HTTP/1.1\r\n\r\n", 1);
    ends("GET /a?b\"", "GET /a?b HTTP/1.1\r\n\r\n", 1);
    ends("GET / HTTP/2", "GET / HTTP/1.1\r\n\r\n", 1);
    ends("GET / HTTP/1.9", "GET / HTTP/1.1\r\n\r\n", 1);
    ends("GET / HTTP/1.1\n", "GET / HTTP/1.1\r\n\r\n", 1);
    ends("GET / HTTP/1.1\r\r", "GET / HTTP/1.1\r\n\r\n", 1);
    ends(GET " X", GET "\r\n", 1);
    ends(GET "X : a", GET "X-:\r\n\r\n", 1);
    ends(GET "X:\x01", GET "X:\r\n\r\n", 1);
    ends(GET "X: a\n", GET "X: a\r\n\r\n", 1);
    ends(GET "X: a\r\r", GET "X: a\r\n\r\n", 1);
    ends(GET H "\rX", GET H "\r\n", 1);
    ends(GET "Content-Length: x", GET "Content-Length: 0\r\n\r\n", 1);
    ends(GET "Content-Length: 1x", GET "Content-Length: 1\r\n\r\n", 1);
    ends(GET "Content-Length:\r\n", GET "Content-Length:0\r\n\r\n", 1);
    ends(GET "Content-Length :", GET "Content-Length-:\r\n\r\n", 1);
    ends(GET H "\r\n" GET "X: \x01", GET H "\r\n" GET "X: \r\n\r\n", 2);
    ends(GET "X: a\r\n\r\n", GET "X: a\r\n\r\n", 1); // no Host: the head is whole
}

#define CHUNKED "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"

CHECK_CASE(every_state_of_a_body_has_an_ending)
{
    ends(CHUNKED "x", CHUNKED "0\r\n\r\n", 1);
    ends(CHUNKED "5;a", CHUNKED "0\r\n\r\n", 1);
    ends(CHUNKED "5\r\r", CHUNKED "0\r\n\r\n", 1);
    ends(CHUNKED "123456789", CHUNKED "0\r\n\r\n", 1);
    ends(CHUNKED "1\r\naX", CHUNKED "1\r\na\r\n0\r\n\r\n", 1);
    ends(CHUNKED "1\r\na\rX", CHUNKED "1\r\na\r\n0\r\n\r\n", 1);
    ends(CHUNKED "1\r\na\r\n5 \r\n", CHUNKED "1\r\na\r\n0\r\n\r\n", 1);
    ends(CHUNKED "0\r\nX: a", CHUNKED "0\r\n\r\n", 1);
    ends(CHUNKED "0\r\n\rX", CHUNKED "0\r\n\r\n", 1);
}

// A buffer that is full takes the beginning of a size; if that goes wrong there is no ending.
CHECK_CASE(a_size_that_was_handed_on_has_no_ending)
{
    struct frame frame;
    const char head[] = CHUNKED "5";
    frame_init(&frame);
    assert_int_equal(frame_feed(&frame, head, sizeof head - 1), sizeof head - 1);
    assert_int_equal(frame_held(&frame), 1);
    frame_release(&frame);
    assert_int_equal(frame_held(&frame), 0);
    assert_int_equal(frame_feed(&frame, ";", 1), 0);
    assert_int_equal(frame.status, 400);
    assert_null(frame_ending(&frame));
}

CHECK_CASE(sizes_of_bodies)
{
    char data[256];
    struct frame frame;
    frame_init(&frame);
    int n = snprintf(data, sizeof data, "POST / HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n",
                     EDGE_BODY_MAX);
    assert_int_equal(frame_feed(&frame, data, (size_t)n), n);
    assert_int_equal(frame.status, 0);
    assert_int_equal(frame.left, EDGE_BODY_MAX);
    n = snprintf(data, sizeof data, "POST / HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n",
                 EDGE_BODY_MAX + 1);
    check(data, (size_t)n, data, 413, 1);
    n = snprintf(data, sizeof data, CHUNKED "%x\r\n", (unsigned)EDGE_BODY_MAX + 1);
    check(data, (size_t)n, CHUNKED "0\r\n\r\n", 413, 1);
}

CHECK_CASE(a_message_begins_when_its_first_byte_comes)
{
    struct frame frame;
    frame_init(&frame);
    assert_true(frame_is_idle(&frame));
    (void)frame_feed(&frame, "G", 1);
    assert_false(frame_is_idle(&frame));
    (void)frame_feed(&frame, "ET / HTTP/1.0\r\n\r\n", 17);
    assert_true(frame_is_idle(&frame));
    (void)frame_feed(&frame, "\r", 1);
    assert_false(frame_is_idle(&frame));
}

CHECK_MAIN(cmocka_unit_test(good_messages_pass_as_they_are),
           cmocka_unit_test(every_state_has_an_ending),
           cmocka_unit_test(every_state_of_a_body_has_an_ending),
           cmocka_unit_test(a_size_that_was_handed_on_has_no_ending),
           cmocka_unit_test(sizes_of_bodies),
           cmocka_unit_test(a_message_begins_when_its_first_byte_comes))
