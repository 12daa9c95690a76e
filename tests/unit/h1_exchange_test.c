// SPDX-License-Identifier: Apache-2.0
// Exchanges over real sockets: what arrives on the other side, however it was cut; what is kept
// open; and what hostile, slow and vanishing ends do to it.
#include <netinet/in.h>
#include <sys/socket.h>

#include "h1_kit.h"

#define GET   "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
#define OK(n) "HTTP/1.1 200 OK\r\nContent-Length: " n "\r\n\r\n"

CHECK_CASE(one_after_the_other)
{
    struct kit kit;
    kit_begin(&kit); // libuv opens something for all loops, once
    kit_finish(&kit);
    int before = check_fds();
    kit_begin(&kit);
    kit_say(&kit, "GET /a?b HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n"
                  "Keep-Alive: 5\r\nTE: trailers\r\nX-Mine: 2\r\n\r\n");
    kit_got(&kit, "GET /a?b HTTP/1.1\r\nHost: h\r\nX-Mine: 2\r\n\r\n");
    kit_reply(&kit, "HTTP/1.1 201 Made\r\nKeep-Alive: 9\r\nA: b\r\nContent-Length: 2\r\n\r\nhi");
    kit_heard(&kit, "HTTP/1.1 201 Made\r\nA: b\r\nContent-Length: 2\r\n\r\nhi");
    assert_int_equal(kit.moved_up, kit.got.len);
    assert_int_equal(kit.moved_client, kit.heard.len);
    kit_forget(&kit);
    kit_say(&kit, "POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
    kit_got(&kit, "POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
    kit_reply(&kit, OK("0"));
    kit_heard(&kit, OK("0"));
    assert_int_equal(kit.n_up, 1);
    assert_int_equal(kit.asked, 2);
    assert_false(kit.client_ended || kit.up_ended);
    fd_close(kit.client);
    kit.client = -1;
    kit_settle(&kit);
    assert_true(kit.closed && kit.up_ended);
    kit_finish(&kit);
    assert_int_equal(check_fds(), before);
}

// One request and its answer in pieces of every size; what comes out does not depend on it.
static void check_splits(const char *request, const char *got, const char *answer, bool then_close,
                         const char *heard)
{
    size_t most = strlen(request) > strlen(answer) ? strlen(request) : strlen(answer);
    for (size_t step = 1; step <= most; step++) {
        struct kit kit;
        kit_begin(&kit);
        kit_send(&kit, kit.client, request, strlen(request), step);
        assert_int_equal(kit.n_up, 1);
        kit_got(&kit, got);
        kit_send(&kit, kit.up[0], answer, strlen(answer), step);
        if (then_close)
            kit_end_up(&kit);
        kit_heard(&kit, heard);
        kit_finish(&kit);
    }
}

CHECK_CASE(every_split)
{
    static const char chunked[] =
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n";
    static const char answer[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                 "3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n";
    check_splits(chunked, chunked, answer, false, answer);
    check_splits(GET, GET, "HTTP/1.1 100 Go on\r\nA: b\r\n\r\n" OK("5") "hello", false,
                 "HTTP/1.1 100 Go on\r\nA: b\r\n\r\n" OK("5") "hello");
    // An answer that ends with its connection, to HTTP/1.0: as it is.
    check_splits("GET / HTTP/1.0\r\nHost: h\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
                 "HTTP/1.0 200 OK\r\n\r\nhello", true,
                 "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello");
    // A chunked one to HTTP/1.0: without its chunks.
    check_splits("GET / HTTP/1.0\r\nHost: h\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", answer,
                 false, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcd");
}

CHECK_CASE(an_answer_without_an_end_keeps_its_client)
{
    struct kit kit;
    kit_begin(&kit);
    kit_say(&kit, GET);
    kit_reply(&kit, "HTTP/1.0 200 OK\r\n\r\nhello");
    kit_heard(&kit, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    kit_reply(&kit, "0123456789abcdef");
    kit_end_up(&kit);
    kit_heard(&kit, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n10\r\n"
                    "0123456789abcdef\r\n0\r\n\r\n");
    assert_false(kit.client_ended);
    kit_forget(&kit);
    kit_say(&kit, GET);
    assert_int_equal(kit.n_up, 2);
    kit_reply(&kit, "HTTP/1.0 200 OK\r\n\r\n");
    kit_end_up(&kit);
    kit_heard(&kit, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    kit_finish(&kit);
}

CHECK_CASE(answers_without_a_body)
{
    static const struct {
        const char *request, *answer, *heard;
    } cases[] = {
        {"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", OK("1000"),                                       OK("1000")               },
        {"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",                                "HTTP/1.1 200 OK\r\n\r\n"},
        {GET,                                  "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n",   "HTTP/1.1 204 No\r\n\r\n"},
        {GET,                                  "HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n",
         "HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n"                                                                 },
    };
    struct kit kit;
    kit_begin(&kit);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kit_forget(&kit);
        kit_say(&kit, cases[i].request);
        kit_reply(&kit, cases[i].answer);
        kit_heard(&kit, cases[i].heard);
    }
    assert_int_equal(kit.n_up, 1);
    kit_finish(&kit);
}

CHECK_CASE(interim_answers)
{
    struct kit kit;
    kit_begin(&kit);
    kit_say(&kit, "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_non_null(strstr(buf_str(&kit.got), "Expect: 100-continue\r\n"));
    kit_reply(&kit, "HTTP/1.1 100 Continue\r\n\r\n");
    kit_heard(&kit, "HTTP/1.1 100 Continue\r\n\r\n");
    kit_forget(&kit);
    kit_say(&kit, "ab");
    kit_got(&kit, "ab");
    kit_reply(&kit, "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" OK("0"));
    kit_heard(&kit, "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" OK("0"));
    assert_false(kit.client_ended);
    kit_finish(&kit);
    // HTTP/1.0 has none.
    kit_begin(&kit);
    kit_say(&kit, "GET / HTTP/1.0\r\n\r\n");
    kit_reply(&kit, "HTTP/1.1 100 Continue\r\n\r\n" OK("0"));
    kit_heard(&kit, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert_true(kit.client_ended);
    kit_finish(&kit);
    // One that never stops saying so.
    kit_begin(&kit);
    kit_say(&kit, GET);
    for (int i = 0; i < 40 && !kit.up_ended; i++)
        kit_reply(&kit, "HTTP/1.1 102 Wait\r\n\r\n");
    assert_non_null(strstr(buf_str(&kit.heard), "HTTP/1.1 502 "));
    kit_finish(&kit);
}

CHECK_CASE(hostile_answers)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nA: b\nSet-Cookie: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\rSet-Cookie: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 101 Up\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        "nonsense\r\n\r\n",
        "\x16\x03\x01\n",
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct kit kit;
        kit_begin(&kit);
        kit_say(&kit, GET);
        kit_reply(&kit, answers[i]);
        if (strncmp(buf_str(&kit.heard), "HTTP/1.1 502 Bad Gateway\r\n", 26) != 0)
            fail_msg("'%s' became '%s'", answers[i], buf_str(&kit.heard));
        assert_null(strstr(buf_str(&kit.heard), "Set-Cookie"));
        assert_true(kit.up_ended);
        assert_false(kit.client_ended);
        kit_forget(&kit); // and the connection is good for another one
        kit_say(&kit, GET);
        kit_reply(&kit, OK("0"));
        kit_heard(&kit, OK("0"));
        kit_finish(&kit);
    }
}

CHECK_CASE(a_head_without_end)
{
    struct kit kit;
    kit_begin(&kit);
    kit_say(&kit, GET);
    kit_reply(&kit, "HTTP/1.1 200 OK\r\nA: ");
    char x[1024];
    memset(x, 'x', sizeof x);
    for (int i = 0; i < 20; i++)
        kit_send(&kit, kit.up[0], x, sizeof x, sizeof x);
    assert_non_null(strstr(buf_str(&kit.heard), "HTTP/1.1 502 "));
    kit_finish(&kit);
    kit_begin(&kit);
    kit_say(&kit, "GET / HTTP/1.1\r\nA: ");
    for (int i = 0; i < 20; i++)
        kit_send(&kit, kit.client, x, sizeof x, sizeof x);
    assert_non_null(strstr(buf_str(&kit.heard), "HTTP/1.1 431 "));
    assert_true(kit.client_ended);
    assert_int_equal(kit.asked, 0);
    kit_finish(&kit);
}

// What comes behind an answer is nobody's: neither the next request's answer nor the client's.
CHECK_CASE(an_answer_too_many)
{
    struct kit kit;
    kit_begin(&kit);
    kit_say(&kit, GET);
    kit_reply(&kit, OK("0") "HTTP/1.1 200 Evil\r\nContent-Length: 0\r\n\r\n");
    kit_heard(&kit, OK("0"));
    assert_true(kit.up_ended);
    kit_say(&kit, GET);
    assert_int_equal(kit.n_up, 2);
    kit_reply(&kit, OK("0"));
    kit_heard(&kit, OK("0") OK("0"));
    kit_reply(&kit, "HTTP/1.1 200 Evil\r\nContent-Length: 0\r\n\r\n"); // while nobody asks
    assert_true(kit.up_ended);
    kit_heard(&kit, OK("0") OK("0"));
    kit_finish(&kit);
}

CHECK_CASE(bad_requests)
{
    static const char *const requests[] = {
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\nHost: h\n\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "\x16\x03\x01\x02\n",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        struct kit kit;
        kit_begin(&kit);
        kit_say(&kit, requests[i]);
        kit_say(&kit, GET); // is not heard any more
        assert_int_equal(strncmp(buf_str(&kit.heard), "HTTP/1.1 400 Bad Request\r\n", 26), 0);
        assert_null(strstr(buf_str(&kit.heard), "200"));
        assert_int_equal(kit.asked, 0);
        assert_true(kit.client_ended);
        kit_finish(&kit);
    }
    struct kit kit;
    kit_begin(&kit);
    kit_say(&kit, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nx");
    assert_int_equal(strncmp(buf_str(&kit.heard), "HTTP/1.1 400 ", 13), 0);
    assert_true(kit.up_ended && kit.client_ended);
    kit_finish(&kit);
}

CHECK_CASE(pipelined)
{
    static const char three[] = "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"
                                "POST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"
                                "GET /3 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    for (size_t step = 1; step < sizeof three; step++) {
        struct kit kit;
        kit_begin(&kit);
        kit_send(&kit, kit.client, three, sizeof three - 1, step);
        kit_got(&kit, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
        kit_reply(&kit, OK("1") "1");
        kit_reply(&kit, OK("1") "2");
        kit_reply(&kit, OK("1") "3");
        kit_heard(&kit,
                  OK("1") "1" OK(
                      "1") "2"
                           "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n3");
        assert_int_equal(kit.n_up, 1);
        assert_true(kit.client_ended && kit.up_ended);
        kit_finish(&kit);
    }
}

CHECK_CASE(bytes_read_before)
{
    static const char all[] = "POST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabcdef";
    for (size_t n = 0; n < sizeof all; n++) {
        struct kit kit;
        kit_begin_with(&kit, all, n, 60000);
        assert_int_equal(kit.asked, 0);
        kit_say(&kit, all + n);
        kit_got(&kit, all);
        kit_finish(&kit);
    }
}

// --- upstreams that are not there

CHECK_CASE(a_stale_upstream_is_asked_again)
{
    static const struct {
        const char *request;
        unsigned n_up;
        bool fails;
    } cases[] = {
        {GET,                                                        2, false},
        {"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n",                      2, false},
        {"POST /a HTTP/1.1\r\nHost: h\r\n\r\n",                      1, true },
        {"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx", 1, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kit kit;
        kit_begin(&kit);
        kit_say(&kit, GET);
        kit_reply(&kit, OK("0"));
        kit_forget(&kit);
        kit_say(&kit, cases[i].request); // arrives, and is not answered
        kit_end_up(&kit);
        assert_int_equal(kit.n_up, cases[i].n_up);
        assert_int_equal(strncmp(buf_str(&kit.heard), "HTTP/1.1 502 ", 13) == 0, cases[i].fails);
        if (!cases[i].fails) {
            assert_int_equal(kit.got.len, 2 * strlen(cases[i].request));
            kit_end_up(&kit); // once is enough
            assert_int_equal(kit.n_up, 2);
            assert_int_equal(strncmp(buf_str(&kit.heard), "HTTP/1.1 502 ", 13), 0);
        }
        kit_finish(&kit);
    }
}

CHECK_CASE(a_closed_upstream_is_not_used)
{
    static const char *const requests[] = {GET, "POST /a HTTP/1.1\r\nHost: h\r\n\r\n"};
    for (size_t i = 0; i < 2; i++) {
        struct kit kit;
        kit_begin(&kit);
        kit_say(&kit, GET);
        kit_reply(&kit, OK("0"));
        kit_end_up(&kit);
        kit_forget(&kit);
        kit_say(&kit, requests[i]);
        assert_int_equal(kit.n_up, 2);
        kit_reply(&kit, OK("0"));
        kit_heard(&kit, OK("0"));
        // It closes at the same moment: known when the owner is asked, or heard of by writing.
        fd_close(kit.up[1]);
        kit.up[1] = -1;
        kit_say(&kit, requests[i]);
        assert_int_equal(kit.n_up, 3);
        kit_finish(&kit);
    }
}

CHECK_CASE(nobody_there)
{
    struct kit kit;
    kit_begin(&kit);
    kit.dead_upstream = true;
    kit_say(&kit, GET);
    assert_int_equal(strncmp(buf_str(&kit.heard), "HTTP/1.1 502 Bad Gateway\r\n", 26), 0);
    assert_false(kit.client_ended);
    kit_forget(&kit);
    kit_say(&kit, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    assert_int_equal(strncmp(buf_str(&kit.heard), "HTTP/1.1 502 Bad Gateway\r\n", 26), 0);
    assert_non_null(strstr(buf_str(&kit.heard), "Connection: close\r\n"));
    assert_true(kit.client_ended);
    kit_finish(&kit);
}

struct refused {
    int fd;
    struct err err;
    bool closed;
};

static void refused_request(void *data, struct exchange *x, const struct h1_head *head)
{
    struct refused *r = data;
    auto_buf text;
    buf_init(&text, 100);
    (void)head;
    (void)buf_append_str(&text, GET);
    struct upstream up = {.fd = r->fd};
    exchange_forward(x, &text, &up);
}

static void refused_failed(void *data, struct exchange *x, const struct err *err, struct buf *ret)
{
    struct refused *r = data;
    r->err = *err;
    exchange_write_answer(x, ret, 502, "text/plain", "mine");
}

static void refused_closed(void *data)
{
    ((struct refused *)data)->closed = true;
}

// A connection that is still being made when it is handed over, and refused.
CHECK_CASE(connection_refused)
{
    static const struct exchange_ops ops = {
        .request = refused_request, .failed = refused_failed, .closed = refused_closed};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof to;
    auto_fd taken = socket(AF_INET, SOCK_STREAM, 0); // bound, and nobody listens
    assert_int_equal(bind(taken, (struct sockaddr *)&to, len), 0);
    assert_int_equal(getsockname(taken, (struct sockaddr *)&to, &len), 0);
    struct refused r = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)};
    (void)connect(r.fd, (struct sockaddr *)&to, len);
    uv_loop_t loop;
    int pair[2];
    uv_loop_init(&loop);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    struct exchange *x = exchange_start(&(struct exchange_config){
        .loop = &loop,
        .client = pair[1],
        .early = GET,
        .early_len = sizeof GET - 1,
        .ops = &ops,
        .data = &r,
        .idle_ms = 60000,
    });
    char heard[512] = "";
    for (int i = 0; i < 1000 && read(pair[0], heard, sizeof heard - 1) < 0; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    assert_non_null(strstr(heard, "HTTP/1.1 502 Bad Gateway\r\n"));
    assert_non_null(strstr(heard, "\r\n\r\nmine"));
    assert_int_equal(r.err.sys_errno, ECONNREFUSED);
    exchange_stop(x);
    assert_true(r.closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    fd_close(pair[0]);
}

// --- ends

CHECK_CASE(an_answer_that_breaks_off)
{
    static const struct {
        const char *request, *answer, *heard;
    } cases[] = {
        {GET, OK("10") "abc",                                                  OK("10") "abc"},
        {GET, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc"                     },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kit kit;
        kit_begin(&kit);
        kit_say(&kit, cases[i].request);
        kit_reply(&kit, cases[i].answer);
        kit_heard(&kit, cases[i].heard);
        assert_false(kit.client_ended);
        kit_end_up(&kit);
        kit_heard(&kit, cases[i].heard);
        assert_true(kit.client_ended && kit.closed);
        kit_finish(&kit);
    }
    struct kit kit; // a chunk goes wrong after some were passed on
    kit_begin(&kit);
    kit_say(&kit, GET);
    kit_reply(&kit, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
    kit_reply(&kit, "5;evil\r\n");
    assert_true(kit.client_ended && kit.up_ended);
    assert_null(strstr(buf_str(&kit.heard), "evil"));
    kit_finish(&kit);
}

CHECK_CASE(an_answer_before_the_body)
{
    struct kit kit;
    kit_begin(&kit);
    kit_say(&kit, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nabc");
    kit_reply(&kit, "HTTP/1.1 413 Large\r\nContent-Length: 2\r\n\r\nno");
    kit_heard(&kit, "HTTP/1.1 413 Large\r\nContent-Length: 2\r\n\r\nno");
    assert_true(kit.client_ended && kit.up_ended); // its writing half: the rest is read for a while
    assert_false(kit.closed);
    kit_say(&kit, "more of the body");
    fd_close(kit.client);
    kit.client = -1;
    kit_settle(&kit);
    assert_true(kit.closed);
    kit_finish(&kit);
    // The same from one that has closed as well: the answer is still passed on.
    kit_begin(&kit);
    kit_say(&kit, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nabc");
    assert_int_equal(send(kit.up[0], OK("0"), sizeof OK("0") - 1, MSG_NOSIGNAL),
                     sizeof OK("0") - 1);
    fd_close(kit.up[0]);
    kit.up[0] = -1;
    kit_say(&kit, "more of it");
    kit_heard(&kit, OK("0"));
    kit_finish(&kit);
}

CHECK_CASE(a_client_that_leaves)
{
    static const char *const moments[] = {"", OK("10"), OK("10") "abc"};
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        struct kit kit;
        kit_begin(&kit);
        kit_say(&kit, GET);
        kit_reply(&kit, moments[i]);
        fd_close(kit.client);
        kit.client = -1;
        kit_settle(&kit);
        assert_true(kit.closed && kit.up_ended);
        kit_finish(&kit);
    }
    struct kit kit; // and while the owner thinks
    kit_begin(&kit);
    kit.later = true;
    kit_say(&kit, GET);
    fd_close(kit.client);
    kit.client = -1;
    kit_settle(&kit);
    assert_true(kit.closed);
    kit_finish(&kit);
}

// Fills a side until it takes no more, with the other end not reading; how much it took.
static size_t stuff(struct kit *kit, int fd)
{
    static char data[16 * 1024];
    size_t total = 0;
    memset(data, 'x', sizeof data);
    for (int stuck = 0; stuck < 50;) {
        ssize_t n = send(fd, data, sizeof data, MSG_NOSIGNAL);
        total += n > 0 ? (size_t)n : 0;
        stuck = n > 0 ? 0 : stuck + 1;
        uv_run(&kit->loop, UV_RUN_NOWAIT);
    }
    return total;
}

enum { SOCKETS_MOST = 1 << 20 }; // what the kernel keeps of two pairs, and more

CHECK_CASE(a_client_that_does_not_read)
{
    struct kit kit;
    kit_begin(&kit);
    kit_say(&kit, GET);
    kit_reply(&kit, "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
    size_t head = kit.heard.len;
    size_t sent = stuff(&kit, kit.up[0]);
    assert_true(sent > 64 * 1024 && sent < SOCKETS_MOST);
    kit_settle(&kit); // reads
    assert_int_equal(kit.heard.len, head + sent);
    for (size_t i = head; i < kit.heard.len; i++)
        assert_int_equal(kit.heard.data[i], 'x');
    kit_finish(&kit);
}

// The same where chunks are made of what comes.
CHECK_CASE(a_client_that_does_not_read_chunks)
{
    struct kit kit;
    kit_begin(&kit);
    kit_say(&kit, GET);
    kit_reply(&kit, "HTTP/1.1 200 OK\r\n\r\n");
    size_t head = kit.heard.len;
    size_t sent = stuff(&kit, kit.up[0]);
    assert_true(sent > 64 * 1024 && sent < SOCKETS_MOST);
    kit_settle(&kit);
    kit_end_up(&kit);
    struct h1_framing f;
    h1_framing_init(&f, &(struct h1_head){.body = H1_CHUNKED});
    size_t n_data = 0;
    for (size_t at = head; at < kit.heard.len;) {
        bool is_data;
        size_t n = h1_framing_next(&f, kit.heard.data + at, kit.heard.len - at, &is_data);
        assert_true(n > 0);
        for (size_t i = at; i < at + n && is_data; i++)
            assert_int_equal(kit.heard.data[i], 'x');
        n_data += is_data ? n : 0;
        at += n;
    }
    assert_true(f.done && !f.bad);
    assert_int_equal(n_data, sent);
    kit_finish(&kit);
}

CHECK_CASE(an_upstream_that_does_not_read)
{
    struct kit kit;
    kit_begin(&kit);
    kit_say(&kit, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n");
    size_t head = kit.got.len;
    size_t sent = stuff(&kit, kit.client);
    assert_true(sent > 64 * 1024 && sent < SOCKETS_MOST);
    kit_settle(&kit);
    assert_int_equal(kit.got.len, head + sent);
    kit_finish(&kit);
}

CHECK_CASE(much)
{
    static char data[4 << 20];
    struct kit kit;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7 + i / 251);
    kit_begin(&kit);
    kit_say(&kit, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4194304\r\n\r\n");
    buf_reset(&kit.got);
    kit_send(&kit, kit.client, data, sizeof data, 100000);
    assert_int_equal(kit.got.len, sizeof data);
    assert_memory_equal(kit.got.data, data, sizeof data);
    kit_reply(&kit, OK("4194304"));
    buf_reset(&kit.heard);
    kit_send(&kit, kit.up[0], data, sizeof data, 100000);
    assert_int_equal(kit.heard.len, sizeof data);
    assert_memory_equal(kit.heard.data, data, sizeof data);
    assert_false(kit.client_ended || kit.up_ended);
    kit_finish(&kit);
}

// --- after a 101

#define UPGRADE  "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
#define UPGRADED "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

CHECK_CASE(websockets)
{
    struct kit kit;
    kit_begin(&kit);
    kit_say(&kit, UPGRADE "early");
    kit_got(&kit, UPGRADE);
    kit_reply(&kit, UPGRADED "first");
    kit_heard(&kit, UPGRADED "first");
    kit_got(&kit, UPGRADE "early");
    kit_forget(&kit);
    kit_say(&kit, GET); // bytes now, not a request
    kit_got(&kit, GET);
    kit_reply(&kit, OK("0"));
    kit_heard(&kit, OK("0"));
    assert_int_equal(kit.asked, 1);
    (void)shutdown(kit.client, SHUT_WR);
    kit_settle(&kit);
    assert_true(kit.up_ended);
    assert_false(kit.client_ended);
    kit_reply(&kit, "last words");
    kit_heard(&kit, OK("0") "last words");
    kit_end_up(&kit);
    assert_true(kit.client_ended && kit.closed);
    kit_finish(&kit);
}

CHECK_CASE(a_websocket_that_does_not_read)
{
    struct kit kit;
    kit_begin(&kit);
    kit_say(&kit, UPGRADE);
    kit_reply(&kit, UPGRADED);
    kit_forget(&kit);
    size_t down = stuff(&kit, kit.up[0]);
    size_t up = stuff(&kit, kit.client); // the other direction does not wait for this one
    assert_true(down < SOCKETS_MOST && up < SOCKETS_MOST);
    kit_settle(&kit);
    assert_int_equal(kit.heard.len, down);
    assert_int_equal(kit.got.len, up);
    kit_end_up(&kit);
    fd_close(kit.client);
    kit.client = -1;
    kit_settle(&kit);
    assert_true(kit.closed);
    kit_finish(&kit);
}

CHECK_CASE(an_upgrade_refused)
{
    struct kit kit;
    kit_begin(&kit);
    kit_say(&kit, UPGRADE);
    kit_reply(&kit, OK("0"));
    kit_heard(&kit, OK("0"));
    kit_say(&kit, GET);
    assert_int_equal(kit.asked, 2);
    kit_finish(&kit);
}

// --- the owner

CHECK_CASE(decisions)
{
    struct kit kit;
    kit_begin(&kit);
    kit.refuse = true;
    kit_say(&kit, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n" GET);
    kit_heard(&kit,
              "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n"
              "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nno");
    kit_forget(&kit);
    kit_say(&kit, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    assert_non_null(strstr(buf_str(&kit.heard), "Connection: close\r\n"));
    assert_true(kit.client_ended);
    kit_finish(&kit);

    kit_begin(&kit);
    kit.close_after = true;
    kit_say(&kit, GET);
    kit_reply(&kit, OK("0"));
    kit_heard(&kit, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert_true(kit.client_ended && kit.closed);
    kit_finish(&kit);

    kit_begin(&kit);
    kit.later = true;
    kit_say(&kit, GET "GET /next");
    kit_forward(&kit, kit.x, kit_pending);
    kit_settle(&kit);
    kit_got(&kit, GET);
    kit_finish(&kit);

    kit_begin(&kit); // the upstream leaves while the owner, who counts on it, thinks
    kit_say(&kit, GET);
    kit_reply(&kit, OK("0"));
    kit.later = true;
    kit_say(&kit, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
    kit_end_up(&kit);
    auto_buf head;
    buf_init(&head, 100);
    (void)buf_append_str(&head, GET);
    kit.later = false;
    exchange_forward(kit.x, &head, NULL);
    kit_settle(&kit);
    assert_int_equal(kit.asked, 3);
    assert_int_equal(kit.n_up, 2);
    kit_reply(&kit, OK("0"));
    kit_heard(&kit, OK("0") OK("0"));
    kit_finish(&kit);

    kit_begin(&kit);
    kit.release = true;
    kit_say(&kit, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\nbytes");
    assert_string_equal(buf_str(&kit.early), "bytes");
    assert_int_equal(send(kit.released, "hi", 2, 0), 2);
    kit_settle(&kit);
    kit_heard(&kit, "hi");
    assert_false(kit.closed);
    kit_finish(&kit);

    kit_begin(&kit);
    kit.stop_after = 100;
    kit_say(&kit, GET);
    kit_reply(
        &kit,
        OK("1000") "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    assert_true(kit.closed);
    kit_finish(&kit);
}

CHECK_CASE(idle)
{
    static const char *const before[] = {"", "GET / HT", GET};
    for (size_t i = 0; i < 3; i++) {
        struct kit kit;
        kit_begin_with(&kit, NULL, 0, 20);
        kit_say(&kit, before[i]);
        for (int n = 0; n < 200 && !kit.closed; n++) {
            uv_run(&kit.loop, UV_RUN_NOWAIT);
            usleep(2000);
        }
        assert_int_equal(kit.closed, i < 2); // whoever waits for an answer may wait
        kit_finish(&kit);
    }
}

// --- a stream that is not a socket: it has bytes of its own when the socket has none

static char stash[64];
static size_t n_stash;

static ssize_t odd_read(void *stream, void *data, size_t len)
{
    if (n_stash == 0) {
        ssize_t n = read(*(int *)stream, stash, sizeof stash);
        if (n <= 0)
            return n < 0 ? -errno : 0;
        n_stash = (size_t)n;
    }
    size_t n = n_stash < 5 ? n_stash : 5;
    n = n < len ? n : len;
    memcpy(data, stash, n);
    memmove(stash, stash + n, n_stash - n);
    n_stash -= n;
    return (ssize_t)n;
}

static ssize_t odd_write(void *stream, const void *data, size_t len)
{
    ssize_t n = send(*(int *)stream, data, len < 7 ? len : 7, MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
}

static int odd_waits(void *stream)
{
    (void)stream;
    return UV_READABLE | UV_WRITABLE;
}

CHECK_CASE(streams)
{
    static const struct stream_ops ops = {odd_read, odd_write, odd_waits, free};
    struct kit kit;
    kit_begin(&kit);
    kit.stream_ops = &ops;
    for (int i = 0; i < 3; i++) {
        kit_forget(&kit);
        kit_say(&kit,
                "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\n01234567890123456789");
        kit_got(&kit,
                "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\n01234567890123456789");
        kit_reply(&kit, OK("60") "012345678901234567890123456789012345678901234567890123456789");
        kit_heard(&kit, OK("60") "012345678901234567890123456789012345678901234567890123456789");
    }
    assert_int_equal(kit.n_up, 1);
    kit_finish(&kit);
}

static void check_shown(const char *answer, bool then_close, bool old_client, size_t step)
{
    static const char chunked[] =
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n";
    static const char old[] = "POST /a HTTP/1.0\r\nHost: h\r\nContent-Length: 21\r\n\r\n"
                              "hello0123456789abcdef";
    struct kit kit;
    kit_begin(&kit);
    const char *request = old_client ? old : chunked;
    kit_send(&kit, kit.client, request, strlen(request), step);
    kit_send(&kit, kit.up[0], answer, strlen(answer), step);
    if (then_close)
        kit_end_up(&kit);
    assert_string_equal(buf_str(&kit.asked_body), "hello0123456789abcdef");
    assert_string_equal(buf_str(&kit.told_body), "abcd");
    assert_int_equal(kit.told_ends, 1);
    kit_finish(&kit);
}

// The owner sees bodies as they are, whatever frames them on either side.
CHECK_CASE(bodies_are_shown)
{
    static const char framed[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                 "3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n";
    for (size_t step = 1; step < 100; step += 3) {
        check_shown(framed, false, false, step);
        check_shown(framed, false, true, step);
        check_shown(OK("4") "abcd", false, false, step);
        check_shown("HTTP/1.0 200 OK\r\n\r\nabcd", true, false, step);
        check_shown("HTTP/1.0 200 OK\r\n\r\nabcd", true, true, step);
    }
}

CHECK_CASE(the_end_of_an_answer_is_shown_once)
{
    static const char *const answers[] = {
        OK("0"), "HTTP/1.1 204 No\r\n\r\n", "HTTP/1.1 100 Go on\r\n\r\n" OK("1") "x",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"};
    struct kit kit;
    kit_begin(&kit);
    for (unsigned i = 0; i < sizeof answers / sizeof *answers; i++) {
        kit_say(&kit, GET);
        kit_reply(&kit, answers[i]);
        assert_int_equal(kit.told_ends, i + 1);
    }
    kit_say(&kit, GET);
    kit_reply(&kit, OK("100") "not all of it");
    kit_end_up(&kit);
    assert_int_equal(kit.told_ends, sizeof answers / sizeof *answers);
    assert_true(kit.closed);
    kit_finish(&kit);
}

CHECK_CASE(an_owner_that_has_enough)
{
    static const char *const heads[] = {
        OK("1000"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n",
        "HTTP/1.0 200 OK\r\n\r\n"};
    for (unsigned i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct kit kit;
        kit_begin(&kit);
        kit.cut_after = 10;
        kit_say(&kit, GET);
        kit_reply(&kit, heads[i]);
        kit_reply(&kit, "0123456789");
        assert_false(kit.closed);
        kit_reply(&kit, "never told");
        assert_true(kit.closed && kit.up_ended && kit.client_ended);
        assert_null(strstr(buf_str(&kit.heard), "never"));
        assert_null(strstr(buf_str(&kit.heard), "\r\n0\r\n\r\n"));
        assert_int_equal(kit.told_ends, 0);
        kit_finish(&kit);
    }
}

CHECK_MAIN(cmocka_unit_test(one_after_the_other), cmocka_unit_test(every_split),
           cmocka_unit_test(an_answer_without_an_end_keeps_its_client),
           cmocka_unit_test(answers_without_a_body), cmocka_unit_test(interim_answers),
           cmocka_unit_test(hostile_answers), cmocka_unit_test(a_head_without_end),
           cmocka_unit_test(an_answer_too_many), cmocka_unit_test(bad_requests),
           cmocka_unit_test(pipelined), cmocka_unit_test(bytes_read_before),
           cmocka_unit_test(a_stale_upstream_is_asked_again),
           cmocka_unit_test(a_closed_upstream_is_not_used), cmocka_unit_test(nobody_there),
           cmocka_unit_test(connection_refused), cmocka_unit_test(an_answer_that_breaks_off),
           cmocka_unit_test(an_answer_before_the_body), cmocka_unit_test(a_client_that_leaves),
           cmocka_unit_test(a_client_that_does_not_read),
           cmocka_unit_test(a_client_that_does_not_read_chunks),
           cmocka_unit_test(an_upstream_that_does_not_read), cmocka_unit_test(much),
           cmocka_unit_test(websockets), cmocka_unit_test(a_websocket_that_does_not_read),
           cmocka_unit_test(an_upgrade_refused), cmocka_unit_test(decisions),
           cmocka_unit_test(idle), cmocka_unit_test(streams), cmocka_unit_test(bodies_are_shown),
           cmocka_unit_test(the_end_of_an_answer_is_shown_once),
           cmocka_unit_test(an_owner_that_has_enough))
