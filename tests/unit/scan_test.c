// SPDX-License-Identifier: Apache-2.0
// A credential is found in answers wherever it stands and however they are cut, and nothing else is
// changed or kept for long.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "check.h"
#include "egress/scan.h"

#define SECRET "sk-aaaab-aaaac-0123456789"

// Feeds `text` in pieces of `step` bytes and takes all that comes out. What scan_put said last.
static int run(const char *text, size_t len, size_t step, bool ends, struct buf *out)
{
    struct scan *scan = scan_new();
    int r = 0;
    scan_add(scan, SECRET, strlen(SECRET));
    scan_add(scan, "short", 5);
    for (size_t at = 0; at < len && r == 0; at += step) {
        char taken[97];
        size_t n;
        char *piece = malloc(step);
        size_t here = len - at < step ? len - at : step;
        (void)memcpy(piece, text + at, here);
        r = scan_put(scan, piece, here);
        free(piece);
        if (ends && at + step >= len)
            scan_end(scan);
        assert_true(r == 0 || scan_is_empty(scan));
        while ((n = scan_take(scan, taken, sizeof taken)) > 0)
            (void)buf_append(out, taken, n);
    }
    scan_free(scan);
    return r;
}

static void passes(const char *text)
{
    size_t len = strlen(text);
    for (size_t step = 1; step <= len; step++) {
        auto_buf out;
        buf_init(&out, 64 * 1024);
        assert_int_equal(run(text, len, step, false, &out), 0);
        assert_int_equal(out.len, len);
        assert_memory_equal(out.data, text, len);
    }
}

// It is cut off, and no more than SCAN_LEAST - 1 bytes of the credential went out.
static void is_caught(const char *text)
{
    size_t len = strlen(text);
    for (size_t step = 1; step <= len; step++) {
        auto_buf out;
        buf_init(&out, 64 * 1024);
        assert_int_equal(run(text, len, step, false, &out), -EPERM);
        assert_null(memmem(buf_str(&out), out.len, SECRET, SCAN_LEAST));
    }
}

CHECK_CASE(answers_pass)
{
    passes("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    passes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    passes("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
    passes(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nno!");
    // Nearly it, again and again.
    passes(
        "HTTP/1.1 200 OK\r\nContent-Length: 45\r\n\r\nsk-aaaab-aaaac-012345678 sk-sk-aaaab-aaaaaab.");
    passes(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05hello");
}

CHECK_CASE(it_is_found_in_heads_and_bodies)
{
    is_caught("HTTP/1.1 200 OK\r\nX-Echo: Bearer " SECRET "\r\nContent-Length: 0\r\n\r\n");
    is_caught("HTTP/1.1 200 " SECRET "\r\nContent-Length: 0\r\n\r\n");
    is_caught("HTTP/1.1 200 OK\r\nContent-Length: 29\r\n\r\n<<" SECRET ">>");
    is_caught("HTTP/1.1 200 OK\r\nContent-Length: 31\r\n\r\nsk-aaa" SECRET);
    is_caught("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n..." SECRET);
    is_caught(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\n" SECRET);
    is_caught(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x19" SECRET);
}

CHECK_CASE(it_is_found_across_chunks)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (size_t at = 1; at < strlen(SECRET); at++) {
        auto_buf text;
        buf_init(&text, 4096);
        (void)buf_printf(&text, "%s2\r\n..\r\n%zx\r\n%.*s\r\n%zx\r\n%s\r\n0\r\n\r\n", head, at,
                         (int)at, SECRET, strlen(SECRET) - at, SECRET + at);
        is_caught(buf_str(&text));
    }
    auto_buf text;
    buf_init(&text, 4096);
    (void)buf_append_str(&text, head);
    for (size_t i = 0; i < strlen(SECRET); i++)
        (void)buf_printf(&text, "1\r\n%c\r\n", SECRET[i]);
    is_caught(buf_str(&text));
}

CHECK_CASE(the_end_lets_go_what_was_held)
{
    static const char text[] =
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nkeys begin with sk-aaaab-aaa";
    for (size_t step = 1; step < sizeof text; step++) {
        auto_buf out;
        buf_init(&out, 4096);
        assert_int_equal(run(text, sizeof text - 1, step, true, &out), 0);
        assert_int_equal(out.len, sizeof text - 1);
        assert_memory_equal(out.data, text, out.len);
    }
}

CHECK_CASE(an_answer_to_head_has_no_body)
{
    struct scan *scan = scan_new();
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";
    char out[256];
    scan_add(scan, SECRET, strlen(SECRET));
    scan_request(scan, true);
    assert_int_equal(scan_put(scan, text, sizeof text - 1), 0);
    assert_int_equal(scan_take(scan, out, sizeof out), sizeof text - 1);
    scan_request(scan, false);
    assert_int_equal(scan_put(scan, text, sizeof text - 1), 0);
    assert_int_equal(scan_put(scan, SECRET, strlen(SECRET)), -EPERM);
    scan_free(scan);
}

CHECK_CASE(nonsense_is_not_passed_on)
{
    auto_buf out;
    buf_init(&out, 4096);
    assert_int_equal(run("SSH-2.0-x\r\n\r\n", 13, 13, false, &out), -EBADMSG);
    assert_int_equal(out.len, 0);
    static const char text[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n";
    assert_int_equal(run(text, sizeof text - 1, 1000, false, &out), -EBADMSG);
}

CHECK_MAIN(cmocka_unit_test(answers_pass), cmocka_unit_test(it_is_found_in_heads_and_bodies),
           cmocka_unit_test(it_is_found_across_chunks),
           cmocka_unit_test(the_end_lets_go_what_was_held),
           cmocka_unit_test(an_answer_to_head_has_no_body),
           cmocka_unit_test(nonsense_is_not_passed_on))
