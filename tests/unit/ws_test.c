// SPDX-License-Identifier: Apache-2.0
// WebSockets over a socket pair: frames as raw bytes, in whole and in pieces of every size.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "check.h"
#include "edge/ws.h"

enum { MESSAGE_MAX = 4096, TURNS_MAX = 20000, WIRE_MAX = 4 * 1024 * 1024 };

static struct {
    uv_loop_t loop;
    struct ws *ws;
    int peer;
    struct buf text, binary; // all that came
    unsigned messages, drained, closes, code;
    struct buf wire; // what we sent, as it lies on the wire
    bool echo;
} t;

static void on_text(void *data, const char *text, size_t len)
{
    (void)data;
    t.messages++;
    (void)buf_append(&t.text, text, len);
    if (t.echo)
        ws_send_text(t.ws, text, len);
}

static void on_binary(void *data, const void *bytes, size_t len)
{
    (void)data;
    t.messages++;
    (void)buf_append(&t.binary, bytes, len);
}

static void on_drained(void *data)
{
    (void)data;
    t.drained++;
}

static void on_closed(void *data, unsigned code)
{
    (void)data;
    t.closes++;
    t.code = code;
    t.ws = NULL;
}

static const struct ws_ops ops = {on_text, on_binary, on_drained, on_closed};

static int open_with(struct buf *early)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    t.peer = ends[1];
    t.ws = ws_new(&t.loop, ends[0], early, MESSAGE_MAX, &ops, NULL);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    memset(&t, 0, sizeof t);
    assert_int_equal(uv_loop_init(&t.loop), 0);
    buf_init(&t.text, WIRE_MAX);
    buf_init(&t.binary, WIRE_MAX);
    buf_init(&t.wire, WIRE_MAX);
    return open_with(NULL);
}

static int tear_down(void **state)
{
    (void)state;
    ws_end_all();
    fd_close(t.peer);
    for (int i = 0; i < TURNS_MAX && uv_run(&t.loop, UV_RUN_NOWAIT) != 0; i++)
        ;
    assert_int_equal(uv_loop_close(&t.loop), 0);
    buf_done(&t.text);
    buf_done(&t.binary);
    buf_done(&t.wire);
    return 0;
}

// Some turns of the loop, and what it wrote.
static void turn(int n)
{
    char *at;
    size_t room;
    for (int i = 0; i < n; i++) {
        (void)uv_run(&t.loop, UV_RUN_NOWAIT);
        assert_int_equal(buf_reserve(&t.wire, 64 * 1024, &at, &room), 0);
        ssize_t got = read(t.peer, at, room);
        if (got > 0)
            buf_commit(&t.wire, (size_t)got);
    }
}

static void put(const void *bytes, size_t len)
{
    const char *at = bytes;
    for (int i = 0; len > 0 && i < TURNS_MAX; i++) {
        ssize_t n = write(t.peer, at, len);
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        } else if (n < 0 && errno != EAGAIN) {
            return; // cut off
        }
        turn(1);
    }
}

// A client's frame, with the mask "mask".
static size_t frame(unsigned char *ret, unsigned first, const void *data, size_t len)
{
    static const unsigned char mask[4] = {'m', 'a', 's', 'k'};
    size_t n = 2;
    ret[0] = (unsigned char)first;
    if (len < 126) {
        ret[1] = (unsigned char)(0x80 | len);
    } else {
        ret[1] = 0x80 | 126;
        ret[n++] = (unsigned char)(len >> 8);
        ret[n++] = (unsigned char)len;
    }
    memcpy(ret + n, mask, 4);
    n += 4;
    for (size_t i = 0; i < len; i++)
        ret[n++] = ((const unsigned char *)data)[i] ^ mask[i % 4];
    return n;
}

static void put_frame(unsigned first, const char *text)
{
    unsigned char bytes[512];
    put(bytes, frame(bytes, first, text, strlen(text)));
}

static void expect_closed(unsigned code)
{
    turn(20);
    assert_int_equal(t.closes, 1);
    assert_int_equal(t.code, code);
    const unsigned char close[] = {0x88, 2, (unsigned char)(code >> 8), (unsigned char)code};
    assert_true(t.wire.len >= sizeof close);
    assert_memory_equal(t.wire.data + t.wire.len - sizeof close, close, sizeof close);
}

// --- messages

static void test_messages_come_whole(void **state)
{
    (void)state;
    put_frame(0x81, "hello");
    put_frame(0x82, "by");
    put_frame(0x02, "tes ");
    put_frame(0x89, "ping");
    put_frame(0x00, "in ");
    put_frame(0x80, "pieces");
    turn(3);
    assert_string_equal(buf_str(&t.text), "hello");
    assert_string_equal(buf_str(&t.binary), "bytes in pieces");
    assert_int_equal(t.messages, 3);
    assert_int_equal(t.wire.len, 6);
    assert_memory_equal(t.wire.data, "\x8a\x04ping", 6);
}

static void test_every_split(void **state)
{
    unsigned char all[256];
    size_t len = frame(all, 0x81, "first", 5);
    len += frame(all + len, 0x89, "?", 1);
    len += frame(all + len, 0x02, "sec", 3);
    len += frame(all + len, 0x80, "ond", 3);
    for (size_t piece = 1; piece < len; piece++) {
        buf_reset(&t.text);
        buf_reset(&t.binary);
        buf_reset(&t.wire);
        for (size_t at = 0; at < len; at += piece) {
            put(all + at, len - at < piece ? len - at : piece);
            turn(1);
        }
        turn(2);
        assert_string_equal(buf_str(&t.text), "first");
        assert_string_equal(buf_str(&t.binary), "second");
        assert_memory_equal(t.wire.data, "\x8a\x01?", 3);
    }
    (void)state;
}

static void test_early_bytes_are_read(void **state)
{
    (void)state;
    unsigned char bytes[64];
    struct buf early;
    fd_close(t.peer);
    turn(3);
    assert_int_equal(t.code, WS_BROKEN);
    buf_init(&early, 64);
    (void)buf_append(&early, bytes, frame(bytes, 0x81, "early", 5));
    (void)open_with(&early);
    turn(3);
    assert_string_equal(buf_str(&t.text), "early");
}

static void test_sends_in_order(void **state)
{
    (void)state;
    char large[70000];
    memset(large, 'x', sizeof large);
    ws_send_text(t.ws, "a", 1);
    ws_send_binary(t.ws, large, 300);
    ws_send_binary(t.ws, large, sizeof large);
    assert_true(ws_queued(t.ws) > 70000);
    turn(10);
    assert_int_equal(t.wire.len, 3 + 4 + 300 + 10 + sizeof large);
    assert_memory_equal(t.wire.data,
                        "\x81\x01"
                        "a\x82\x7e\x01\x2c",
                        7);
    assert_memory_equal(t.wire.data + 307, "\x82\x7f\0\0\0\0\0\x01\x11\x70", 10);
    assert_int_equal(ws_queued(t.ws), 0);
    assert_true(t.drained >= 1);
}

static void test_sending_within_a_message(void **state)
{
    (void)state;
    t.echo = true;
    put_frame(0x81, "echo");
    turn(3);
    assert_memory_equal(t.wire.data,
                        "\x81\x04"
                        "echo",
                        6);
}

static void test_pause_leaves_bytes_where_they_are(void **state)
{
    (void)state;
    ws_pause(t.ws, true);
    put_frame(0x81, "later");
    turn(20);
    assert_int_equal(t.messages, 0);
    ws_pause(t.ws, false);
    turn(3);
    assert_string_equal(buf_str(&t.text), "later");
}

// --- ends

static void test_they_say_goodbye(void **state)
{
    (void)state;
    put_frame(0x88, "\x03\xe8");
    turn(3);
    assert_int_equal(t.code, 1000);
    assert_memory_equal(t.wire.data, "\x88\x02\x03\xe8", 4);
}

static void test_goodbye_at_every_split(void **state)
{
    unsigned char all[32];
    size_t len = frame(all, 0x88,
                       "\x03\xe8"
                       "bye",
                       5);
    for (size_t piece = 1; piece <= len; piece++) {
        for (size_t at = 0; at < len; at += piece) {
            put(all + at, len - at < piece ? len - at : piece);
            turn(1);
        }
        turn(3);
        assert_int_equal(t.code, 1000);
        assert_int_equal(tear_down(state), 0);
        assert_int_equal(set_up(state), 0);
    }
}

static void test_we_say_goodbye(void **state)
{
    (void)state;
    ws_send_text(t.ws, "last", 4);
    ws_close(t.ws, 1001, "bye");
    ws_send_text(t.ws, "never", 5);
    turn(3);
    assert_int_equal(t.wire.len, 6 + 7);
    assert_memory_equal(t.wire.data + 6,
                        "\x88\x05\x03\xe9"
                        "bye",
                        7);
    assert_int_equal(t.closes, 0);
    put_frame(0x81, "not heard any more");
    put_frame(0x88, "\x03\xe9");
    turn(3);
    assert_int_equal(t.code, 1001);
    assert_int_equal(t.messages, 0);
}

static void test_connection_ends_without_a_word(void **state)
{
    (void)state;
    put("\x81\x85mas", 5); // in the middle of a frame
    fd_close(t.peer);
    t.peer = -1;
    for (int i = 0; i < 5; i++)
        (void)uv_run(&t.loop, UV_RUN_NOWAIT);
    assert_int_equal(t.closes, 1);
    assert_int_equal(t.code, WS_BROKEN);
}

static void test_reader_that_stops_loses_it(void **state)
{
    (void)state;
    char large[64 * 1024];
    memset(large, 'x', sizeof large);
    for (int i = 0; i < 100 && t.closes == 0; i++) {
        if (t.ws != NULL)
            ws_send_binary(t.ws, large, sizeof large);
        (void)uv_run(&t.loop, UV_RUN_NOWAIT);
        assert_true(t.ws == NULL || ws_queued(t.ws) <= WS_QUEUE_MAX + 64 * 1024);
    }
    assert_int_equal(t.closes, 1);
}

// --- frames of those who mean no good

struct bad {
    const char *what;
    const char *bytes;
    size_t len;
    unsigned code;
};
#define BAD(what, bytes, code)                                                                     \
    {                                                                                              \
        (what), (bytes), sizeof(bytes) - 1, (code)                                                 \
    }

static const struct bad bad[] = {
    BAD("unmasked", "\x81\x01x", 1002),
    BAD("reserved bit 1", "\xc1\x81mask\0", 1002),
    BAD("reserved bit 2", "\xa1\x81mask\0", 1002),
    BAD("reserved bit 3", "\x91\x81mask\0", 1002),
    BAD("opcode 3", "\x83\x81mask\0", 1002),
    BAD("opcode 11", "\x8b\x81mask\0", 1002),
    BAD("fragmented ping", "\x09\x80mask", 1002),
    BAD("fragmented close", "\x08\x80mask", 1002),
    BAD("ping of 126", "\x89\xfe\0\x7emask", 1002),
    BAD("2^63", "\x82\xff\x80\0\0\0\0\0\0\0mask", 1002),
    BAD("2^64-1", "\x82\xff\xff\xff\xff\xff\xff\xff\xff\xffmask", 1002),
    BAD("2^63-1", "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xffmaskx", 1009),
    BAD("one more than may be", "\x82\xfe\x10\x01maskx", 1009),
    BAD("16 bits for 1", "\x82\xfe\0\x01mask", 1002),
    BAD("64 bits for 1", "\x82\xff\0\0\0\0\0\0\0\x01mask", 1002),
    BAD("continuation of nothing", "\x80\x80mask", 1002),
    BAD("text within text", "\x01\x80mask\x81\x80mask", 1002),
    BAD("not UTF-8", "\x81\x81mask\x92", 1007), // 'm' ^ 0xff
    BAD("close of one byte", "\x88\x81mask\x00", 1002),
    BAD("close with code 0", "\x88\x82mask\x6d\x61", 1002),
    BAD("close with code 1005", "\x88\x82mask\x6e\x8c", 1002),
};

static void test_bad_frames(void **state)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (i > 0) {
            assert_int_equal(tear_down(state), 0);
            assert_int_equal(set_up(state), 0);
        }
        put(bad[i].bytes, bad[i].len);
        turn(20);
        if (t.closes != 1 || t.code != bad[i].code)
            fail_msg("%s: %u closes, code %u", bad[i].what, t.closes, t.code);
        expect_closed(bad[i].code);
        assert_int_equal(t.messages, 0);
    }
}

static void test_too_many_pieces(void **state)
{
    (void)state;
    put_frame(0x02, "");
    for (int i = 0; i <= WS_FRAGMENTS_MAX && t.closes == 0; i++)
        put_frame(0x00, "");
    expect_closed(WS_POLICY);
}

static void test_ping_flood(void **state)
{
    (void)state;
    for (int i = 0; i < 100 * WS_CONTROL_BURST && t.closes == 0; i++)
        put_frame(0x89, "flood");
    expect_closed(WS_POLICY);
}

static void test_accept_key(void **state)
{
    char accept[29];
    (void)state;
    ws_accept_key("dGhlIHNhbXBsZSBub25jZQ==", accept); // RFC 6455, section 1.3
    assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_messages_come_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_split, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_early_bytes_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sends_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sending_within_a_message, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pause_leaves_bytes_where_they_are, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_they_say_goodbye, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_goodbye_at_every_split, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_we_say_goodbye, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_connection_ends_without_a_word, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reader_that_stops_loses_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_frames, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_many_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ping_flood, set_up, tear_down),
        cmocka_unit_test(test_accept_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
