// SPDX-License-Identifier: Apache-2.0
// The client's side of HTTP: answers at every split of their bytes, against what the whole of them
// means; what must be refused; server-sent events and base64; URLs.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "check.h"
#include "cli/event-stream.h"
#include "cli/http.h"
#include "cli/reply.h"

enum { BODY_MAX = 256 * 1024 };

static int keep(void *data, const void *bytes, size_t len, struct err *err)
{
    (void)err;
    assert_int_equal(buf_append(data, bytes, len), 0);
    assert_int_not_equal(len, 0);
    return 0;
}

// One answer in pieces: cut at `first`, and from there every `step` bytes. 0 or -1; the body and
// whether it is complete are looked at by the caller.
static int feed(struct reply *reply, const char *text, size_t len, size_t first, size_t step,
                struct err *err)
{
    size_t at = 0;
    while (at < len) {
        size_t n = at < first ? first - at : step;
        n = n < len - at ? n : len - at;
        // A copy of its own size, so that reading past it is seen.
        char *piece = malloc(n);
        assert_non_null(piece);
        memcpy(piece, text + at, n);
        int r = reply_feed(reply, piece, n, err);
        free(piece);
        if (r < 0)
            return -1;
        at += n;
    }
    return 0;
}

struct sample {
    const char *text;
    unsigned status;
    const char *body;
    const char *header; // value of X-A
    bool until_end;     // complete only with the connection
};

static const struct sample good[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello", 200, "hello",             "b",             false},
    {"HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n",                 200, "",                  NULL,            false},
    {"HTTP/1.1 204 \r\nx-a:  spaces around\t \r\n\r\n",             204, "",                  "spaces around", false},
    {"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n",     304, "",                  NULL,            false},
    {"HTTP/1.0 200 OK\r\n\r\nuntil the end\r\n",                    200, "until the end\r\n", NULL,            true },
    {"HTTP/1.1 404 Not Found\r\nX-A:\r\n\r\n",                      404, "",                  "",              true },
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0a;x=\"y\"\r\n0123456789\r\n"
     "0\r\n\r\n",                                              200, "abc0123456789",     NULL,            false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: CHUNKED\r\nX-A: 1\r\nX-A: 2\r\n\r\n1\r\n\r\r\n2\r\n\r\n"
     "\r\n0\r\nTrailer: yes\r\nMore: x\r\n\r\n",               200, "\r\r\n",            "1",             false},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 P\r\nX-A: early\r\n\r\nHTTP/1.1 201 Made\r\n"
     "Content-Length: 2\r\nX-A: late\r\n\r\nok",               201, "ok",                "late",          false},
};

static void check_good(const struct sample *s, size_t first, size_t step)
{
    struct reply reply;
    struct err err = {0};
    auto_buf body;
    size_t len = strlen(s->text);
    buf_init(&body, BODY_MAX);
    reply_init(&reply, keep, &body);
    assert_int_equal(feed(&reply, s->text, len, first, step, &err), 0);
    assert_true(reply_has_head(&reply));
    assert_int_equal(reply.state == REPLY_DONE, !s->until_end);
    assert_int_equal(reply_end(&reply, &err), 0);
    assert_int_equal(reply.status, s->status);
    assert_string_equal(buf_str(&body), s->body);
    assert_int_equal(body.len, strlen(s->body));
    const char *header = reply_header(&reply, "x-a");
    if (s->header == NULL)
        assert_null(header);
    else
        assert_string_equal(header, s->header);
    assert_null(reply_header(&reply, "x-none"));
    reply_done(&reply);
}

CHECK_CASE(answers_at_every_split)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        size_t len = strlen(good[i].text);
        for (size_t first = 0; first <= len; first++)
            check_good(&good[i], first, len);
        for (size_t step = 1; step < 8; step++)
            check_good(&good[i], 0, step);
    }
}

// Cut off anywhere before its end, an answer is not complete, and says so.
CHECK_CASE(beginnings_are_not_complete)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        size_t len = strlen(good[i].text);
        const char *end = strstr(good[i].text, "\r\n\r\n");
        for (size_t n = 0; n < len; n++) {
            struct reply reply;
            struct err err = {0};
            auto_buf body;
            if (good[i].until_end && n >= (size_t)(end - good[i].text) + 4)
                break;
            buf_init(&body, BODY_MAX);
            reply_init(&reply, keep, &body);
            assert_int_equal(feed(&reply, good[i].text, n, n, 1, &err), 0);
            assert_int_equal(reply_end(&reply, &err), -1);
            assert_int_equal(err.code, ERR_UNAVAILABLE);
            reply_done(&reply);
        }
    }
}

static const char *const refused[] = {
    "HTTP/2 200 OK\r\n\r\n",
    "HTTP/1.2 200 OK\r\n\r\n",
    "http/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 200\r\n\r\n",
    "HTTP/1.1  200 OK\r\n\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/1.1 20x OK\r\n\r\n",
    "HTTP/1.1 099 OK\r\n\r\n",
    "HTTP/1.1 600 OK\r\n\r\n",
    "HTTP/1.1 101 Switching\r\n\r\n",
    "HTTP/1.1 100 C\r\nContent-Length: 0\r\n\r\n",
    "\r\nHTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 200 OK\n\n",
    "HTTP/1.1 200 OK\r\nA: b\n\r\n",
    "HTTP/1.1 200 O\x1bK\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA\r\n\r\n",
    "HTTP/1.1 200 OK\r\n: b\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551617\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n;a\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1 \r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\na",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000000\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nnot a trailer\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nmore",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
    "HTTP/1.1 204 No\r\n\r\nab",
};

CHECK_CASE(what_is_refused)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        size_t len = strlen(refused[i]);
        for (size_t first = 0; first <= len; first++) {
            struct reply reply;
            struct err err = {0};
            auto_buf body;
            buf_init(&body, BODY_MAX);
            reply_init(&reply, keep, &body);
            if (feed(&reply, refused[i], len, first, 1, &err) == 0)
                fail_msg("taken: %s", refused[i]);
            assert_int_equal(err.code, ERR_INTERNAL);
            reply_done(&reply);
        }
    }
}

// Whatever is sent without end is refused before it has taken much memory.
static void check_bounded(const char *start, const char *repeated)
{
    struct reply reply;
    struct err err = {0};
    auto_buf body;
    buf_init(&body, BODY_MAX);
    reply_init(&reply, keep, &body);
    int r = reply_feed(&reply, start, strlen(start), &err);
    size_t len = strlen(repeated), sent = 0;
    while (r == 0 && sent < 4 * REPLY_HEAD_MAX) {
        r = reply_feed(&reply, repeated, len, &err);
        sent += len;
    }
    assert_int_equal(r, -1);
    assert_true(reply.line.cap + reply.fields.cap <= 4 * REPLY_HEAD_MAX);
    reply_done(&reply);
}

CHECK_CASE(heads_are_bounded)
{
    check_bounded("HTTP/1.1 200 ", "x");
    check_bounded("HTTP/1.1 200 OK\r\nA: ", "x");
    check_bounded("HTTP/1.1 200 OK\r\n", "A: b\r\n");
    check_bounded("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "x");
    check_bounded("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "A: b\r\n");
    check_bounded("", "HTTP/1.1 100 C\r\n\r\n");
}

static int stop(void *data, const void *bytes, size_t len, struct err *err)
{
    (void)data;
    (void)bytes;
    (void)len;
    return err_set(err, ERR_CONFLICT, "enough");
}

CHECK_CASE(a_body_can_be_refused)
{
    struct reply reply;
    struct err err = {0};
    reply_init(&reply, stop, NULL);
    assert_int_equal(reply_feed(&reply, good[0].text, strlen(good[0].text), &err), -1);
    assert_string_equal(err.msg, "enough");
    reply_done(&reply);
}

// -- events

static int write_event(void *data, const struct event *event, struct err *err)
{
    (void)err;
    assert_int_equal(strlen(event->data), event->len);
    return buf_printf(data, "[%s|%s|%s]", event->id, event->name, event->data);
}

CHECK_CASE(events_at_every_split)
{
    static const char text[] = ": hello\n\nid: 1\nevent: a\ndata: x\n\n"
                               "data:two\ndata\ndata:  lines\r\n\r\n"
                               "event: only a name\n\n"
                               "id\ndata: no id\r\r"
                               "retry: 5\nother: x\nid: 7\n\n"
                               "data: last\n\ndata: half\n";
    static const char want[] = "[1|a|x][1|message|two\n\n lines][|message|no id][7|message|last]";
    size_t len = sizeof text - 1;
    for (size_t first = 0; first <= len; first++) {
        for (size_t step = 1; step < 4; step++) {
            struct event_stream stream;
            struct err err = {0};
            auto_buf got;
            buf_init(&got, BODY_MAX);
            event_stream_init(&stream, write_event, &got);
            for (size_t at = 0; at < len;) {
                size_t n = at < first ? first - at : step;
                n = n < len - at ? n : len - at;
                assert_int_equal(event_stream_feed(&stream, text + at, n, &err), 0);
                at += n;
            }
            assert_string_equal(buf_str(&got), want);
            assert_string_equal(stream.id, "7");
            // A new connection forgets the half event, and keeps the place.
            event_stream_restart(&stream);
            assert_int_equal(event_stream_feed(&stream, "data: new\n\n", 11, &err), 0);
            assert_non_null(strstr(buf_str(&got), "[7|message|new]"));
            assert_null(strstr(buf_str(&got), "half"));
            event_stream_done(&stream);
        }
    }
}

CHECK_CASE(ids_that_are_too_long)
{
    struct event_stream stream;
    struct err err = {0};
    char line[EVENT_ID_MAX + 8] = "id: ";
    memset(line + 4, 'x', EVENT_ID_MAX);
    line[4 + EVENT_ID_MAX] = '\n';
    event_stream_init(&stream, write_event, NULL);
    assert_int_equal(event_stream_feed(&stream, line, EVENT_ID_MAX + 5, &err), -1);
    event_stream_done(&stream);
}

// -- base64

CHECK_CASE(base64_comes_back)
{
    char bytes[64];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 37 + 200);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        auto_buf text, back;
        buf_init(&text, 1024);
        buf_init(&back, 1024);
        assert_int_equal(base64_append(&text, bytes, len), 0);
        assert_int_equal(base64_decode(&back, buf_str(&text), text.len), 0);
        assert_int_equal(back.len, len);
        assert_memory_equal(buf_str(&back), bytes, len);
    }
}

CHECK_CASE(base64_refuses)
{
    static const char *const bad[] = {"A",        "AA",   "AAA",  "A===", "====", "AA=A",
                                      "AAA=AAAA", "AA A", "AA-_", "AB==", "AAB=", "AAAA\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        auto_buf back;
        buf_init(&back, 1024);
        assert_int_equal(base64_decode(&back, bad[i], strlen(bad[i])), -EINVAL);
    }
    auto_buf small;
    buf_init(&small, 2);
    assert_int_equal(base64_decode(&small, "AAAA", 4), -E2BIG);
}

// -- places

CHECK_CASE(urls)
{
    static const struct {
        const char *url, *socket, *host, *port, *prefix, *text;
    } table[] = {
        {"http://localhost:8787", "",            "localhost", "8787", "",     "localhost:8787"},
        {"HTTP://a.b/",           "",            "a.b",       "80",   "",     "a.b:80"        },
        {"http://[::1]:1/cay/",   "",            "::1",       "1",    "/cay", "[::1]:1"       },
        {"http://[::1]",          "",            "::1",       "80",   "",     "[::1]:80"      },
        {"unix:/run/x.sock",      "/run/x.sock", "",          "",     "",     "/run/x.sock"   },
        {"unix:///run/x.sock",    "/run/x.sock", "",          "",     "",     "/run/x.sock"   },
    };
    struct http_place place;
    struct err err = {0};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_int_equal(http_place_url(&place, table[i].url, &err), 0);
        assert_string_equal(place.socket, table[i].socket);
        assert_string_equal(place.host, table[i].host);
        assert_string_equal(place.port, table[i].port);
        assert_string_equal(place.prefix, table[i].prefix);
        assert_string_equal(place.text, table[i].text);
    }
}

CHECK_CASE(urls_refused)
{
    static const char *const bad[] = {
        "",
        "localhost:1",
        "ftp://a",
        "https://a",
        "http://",
        "http://:80",
        "http:///x",
        "http://a:",
        "http://a:0",
        "http://a:65536",
        "http://a:123456",
        "http://a:8x",
        "http://user@a",
        "http://[::1",
        "http://[::1]x",
        "http://[]:1",
        "http://a b",
        "http://a/b c",
        "http://a/\r\nx: y",
        "http://a?x",
        "http://a#x",
    };
    struct http_place place;
    char longer[600];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = {0};
        if (http_place_url(&place, bad[i], &err) == 0)
            fail_msg("taken: %s", bad[i]);
        assert_int_not_equal(err.code, ERR_NONE);
    }
    struct err err = {0};
    memset(longer, 'a', sizeof longer);
    memcpy(longer, "http://", 7);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(http_place_url(&place, longer, &err), -1);
    assert_int_equal(http_place_socket(&place, longer, &err), -1);
}

CHECK_CASE(encoding)
{
    auto_buf text;
    buf_init(&text, 1024);
    assert_int_equal(http_encode(&text, "aZ09-._~ /?&=%\n\xc3\xa4"), 0);
    assert_string_equal(buf_str(&text), "aZ09-._~%20%2F%3F%26%3D%25%0A%C3%A4");
}

CHECK_MAIN(cmocka_unit_test(answers_at_every_split), cmocka_unit_test(beginnings_are_not_complete),
           cmocka_unit_test(what_is_refused), cmocka_unit_test(heads_are_bounded),
           cmocka_unit_test(a_body_can_be_refused), cmocka_unit_test(events_at_every_split),
           cmocka_unit_test(ids_that_are_too_long), cmocka_unit_test(base64_comes_back),
           cmocka_unit_test(base64_refuses), cmocka_unit_test(urls), cmocka_unit_test(urls_refused),
           cmocka_unit_test(encoding))
