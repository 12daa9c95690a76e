// SPDX-License-Identifier: Apache-2.0
// Heads and bodies of HTTP/1.1: what is understood, what is refused, and that neither depends on
// where the bytes were cut.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "h1/head.h"

#define H "Host: a\r\n"

// As much memory as there are bytes, so that reading past them is seen.
static int parse(struct h1_head *head, const char *text, size_t len, const char *method,
                 const char **why)
{
    char *copy = malloc(len + 1);
    assert_non_null(copy);
    memcpy(copy + 1, text, len); // not aligned either
    struct h1_text m = {method, method == NULL ? 0 : strlen(method)};
    int got = method == NULL ? h1_parse_request(head, copy + 1, len, why)
                             : h1_parse_answer(head, copy + 1, len, m, why);
    free(copy);
    return got;
}

// Every beginning of what is good needs more; of what is bad, more or is bad already.
static void check_cuts(const char *text, size_t len, const char *method, int want)
{
    static struct h1_head head;
    const char *why = NULL;
    for (size_t n = 0; n < len; n++) {
        int got = parse(&head, text, n, method, &why);
        if (got > 0 || (want > 0 && got != 0))
            fail_msg("%d after %zu bytes of '%s'", got, n, text);
    }
    int got = parse(&head, text, len, method, &why);
    if (got != want)
        fail_msg("%d (%s) for '%s'", got, got < 0 ? why : "", text);
    if (want > 0)
        assert_int_equal(head.len, len);
}

CHECK_CASE(requests_that_pass)
{
    static const char *const good[] = {
        "GET / HTTP/1.1\r\n" H "\r\n",
        "\r\nGET / HTTP/1.1\r\n" H "\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET http://a:80/b?c=%20[x]|{y} HTTP/1.1\r\n" H "\r\n",
        "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n",
        "PUT /a HTTP/1.1\r\n" H "Content-Length: 12\r\n\r\n",
        "PUT /a HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nhOST:\t a \t\r\nX: \xc3\xa4\t\"<>\\#\r\nEmpty:\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        check_cuts(good[i], strlen(good[i]), NULL, 1);
}

CHECK_CASE(requests_that_do_not)
{
    static const char *const bad[] = {
        "GET / HTTP/1.1\r\n\r\n",                  // no Host
        "GET / HTTP/1.1\n" H "\r\n",               // LF alone
        "GET / HTTP/1.1\r\nHost: a\n\r\n",         //
        "GET / HTTP/1.1\r\n" H "\n",               //
        "GET / HTTP/1.1\r\r\n" H "\r\n",           //
        "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", // CR alone
        "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n",
        " GET / HTTP/1.1\r\n" H "\r\n",
        "GET  / HTTP/1.1\r\n" H "\r\n",
        "GET /\tHTTP/1.1\r\n" H "\r\n",
        "GET / a HTTP/1.1\r\n" H "\r\n",
        "GET /  HTTP/1.1\r\n" H "\r\n",
        "GET /a#b HTTP/1.1\r\n" H "\r\n",
        "GET /\xc3\xa4 HTTP/1.1\r\n" H "\r\n",
        "GET /\"> HTTP/1.1\r\n" H "\r\n",
        "GET / HTTP/2.0\r\n" H "\r\n",
        "GET / HTTP/1.2\r\n" H "\r\n",
        "GET / http/1.1\r\n" H "\r\n",
        "GET / HTTP/1.1 \r\n" H "\r\n",
        "GET /\r\n\r\n",
        "G@T / HTTP/1.1\r\n" H "\r\n",
        "GETGETGETGETGETGETGETGETGETGETGET / HTTP/1.1\r\n" H "\r\n",
        "GET / HTTP/1.1\r\n X: folded\r\n" H "\r\n",
        "GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\n" H "X : a\r\n\r\n",
        "GET / HTTP/1.1\r\n" H ": a\r\n\r\n",
        "GET / HTTP/1.1\r\n" H "X\r\n\r\n",
        "GET / HTTP/1.1\r\n" H "X: a\x01\r\n\r\n",
        "GET / HTTP/1.1\r\n" H "X: a\x7f\r\n\r\n",
        "GET / HTTP/1.1\r\n" H H "\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
        "PUT / HTTP/1.1\r\n" H "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "PUT / HTTP/1.1\r\n" H "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n",
        "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n",
        "PUT / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n",
        "PUT / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n",
        "PUT / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n",
        "PUT / HTTP/1.1\r\n" H "Content-Length: +1\r\n\r\n",
        "PUT / HTTP/1.1\r\n" H "Content-Length: -1\r\n\r\n",
        "PUT / HTTP/1.1\r\n" H "Content-Length: 0x1\r\n\r\n",
        "PUT / HTTP/1.1\r\n" H "Content-Length: 1, 1\r\n\r\n",
        "PUT / HTTP/1.1\r\n" H "Content-Length: 1 1\r\n\r\n",
        "PUT / HTTP/1.1\r\n" H "Content-Length: 9999999999999999999\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_cuts(bad[i], strlen(bad[i]), NULL, -1);
    static const char nul[] = "GET / HTTP/1.1\r\n" H "X: a\0b\r\n\r\n";
    check_cuts(nul, sizeof nul - 1, NULL, -1);
}

CHECK_CASE(answers)
{
    static const char *const good[] = {
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.0 404 Not \xc3\xa4 there\r\nA: b\r\n\r\n",
        "HTTP/1.1 204 \r\n\r\n",
        "HTTP/1.1 204\r\n\r\n",
        "HTTP/1.1 101 x\r\nConnection: a, Upgrade\r\nUpgrade: WebSocket\r\n\r\n",
    };
    static const char *const bad[] = {
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\n\n",
        "HTTP/1.1 200 O\x08K\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\nSet-Cookie: c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 101 x\r\n\r\n",
        "HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        "SSH-2.0-x\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        check_cuts(good[i], strlen(good[i]), "GET", 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_cuts(bad[i], strlen(bad[i]), "GET", -1);
}

static void body_of(const char *answer, const char *method, enum h1_body body, uint64_t length,
                    bool close)
{
    static struct h1_head head;
    const char *why;
    assert_int_equal(parse(&head, answer, strlen(answer), method, &why), 1);
    assert_int_equal(head.body, body);
    assert_int_equal(head.length, length);
    assert_int_equal(head.close, close);
}

CHECK_CASE(bodies_of_answers)
{
#define LEN "Content-Length: 7\r\n\r\n"
    body_of("HTTP/1.1 200 OK\r\n" LEN, "GET", H1_LENGTH, 7, false);
    body_of("HTTP/1.0 200 OK\r\n" LEN, "GET", H1_LENGTH, 7, true);
    body_of("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n" LEN, "GET", H1_LENGTH, 7, true);
    body_of("HTTP/1.1 200 OK\r\n" LEN, "HEAD", H1_NO_BODY, 7, false);
    body_of("HTTP/1.1 304 OK\r\n" LEN, "GET", H1_NO_BODY, 7, false);
    body_of("HTTP/1.1 204 OK\r\n" LEN, "GET", H1_NO_BODY, 0, false);
    body_of("HTTP/1.1 100 OK\r\n\r\n", "GET", H1_NO_BODY, 0, false);
    body_of("HTTP/1.1 200 OK\r\n\r\n", "GET", H1_TO_END, 0, true);
    body_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "GET", H1_CHUNKED, 0, false);
}

CHECK_CASE(too_much)
{
    static struct h1_head head;
    static char text[2 * H1_HEAD_MAX];
    const char *why = NULL;
    int n = snprintf(text, sizeof text, "GET / HTTP/1.1\r\n" H "X: ");
    memset(text + n, 'x', sizeof text - (size_t)n);
    assert_int_equal(parse(&head, text, H1_HEAD_MAX - 1, NULL, &why), 0);
    assert_int_equal(parse(&head, text, H1_HEAD_MAX, NULL, &why), -1);
    assert_string_equal(why, h1_too_long);
    size_t at = (size_t)snprintf(text, sizeof text, "GET / HTTP/1.1\r\n" H);
    for (unsigned i = 1; i < H1_FIELDS_MAX; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "X: y\r\n");
    memcpy(text + at, "\r\n", 2);
    assert_int_equal(parse(&head, text, at + 2, NULL, &why), 1);
    assert_int_equal(head.n_fields, H1_FIELDS_MAX);
    memcpy(text + at, "X: y\r\n\r\n", 8);
    assert_int_equal(parse(&head, text, at + 8, NULL, &why), -1);
}

CHECK_CASE(fields_by_name)
{
    static const char text[] =
        "GET /x HTTP/1.1\r\nHost: a:8787\r\nConnection: keep-alive , X-Mine,Host\r\n"
        "x-mine: 1\r\nPROXY-Thing: 2\r\nX-Mine: 3\r\nTE: trailers\r\nOther:  4 \r\n\r\n";
    static struct h1_head head;
    const char *why;
    assert_int_equal(h1_parse_request(&head, text, sizeof text - 1, &why), 1);
    assert_true(h1_same(head.method, "GET") && !h1_same(head.method, "get"));
    assert_true(h1_same(head.target, "/x"));
    assert_true(h1_same(h1_find(&head, "HOST")->value, "a:8787"));
    assert_null(h1_find(&head, "Hos"));
    assert_int_equal(h1_count(&head, "X-mine"), 2);
    assert_true(h1_same(h1_find(&head, "Other")->value, "4"));
    static const char *const hops[] = {"x-mine", "connection", "PROXY-Thing", "te", "Upgrade"};
    for (size_t i = 0; i < sizeof hops / sizeof *hops; i++)
        assert_true(h1_is_hop_by_hop(&head, (struct h1_text){hops[i], strlen(hops[i])}));
    // Nobody gets rid of these by calling them his own.
    assert_false(h1_is_hop_by_hop(&head, (struct h1_text){"Host", 4}));
    assert_false(h1_is_hop_by_hop(&head, (struct h1_text){"Other", 5}));
    assert_true(h1_has_word((struct h1_text){" ,a\t, Bc ,", 10}, "bC"));
    assert_false(h1_has_word((struct h1_text){"ab", 2}, "a"));
    assert_false(head.upgrade || head.close);
}

static bool upgrades(const char *rest)
{
    static struct h1_head head;
    char text[512];
    const char *why;
    int n = snprintf(text, sizeof text, "%s\r\n", rest);
    assert_int_equal(h1_parse_request(&head, text, (size_t)n, &why), 1);
    return head.upgrade;
}

CHECK_CASE(upgrades_are_for_websockets)
{
#define U "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
    assert_true(upgrades("GET / HTTP/1.1\r\n" H U));
    assert_false(upgrades("GET / HTTP/1.0\r\n" H U));
    assert_false(upgrades("POST / HTTP/1.1\r\n" H U));
    assert_false(upgrades("GET / HTTP/1.1\r\n" H U "Content-Length: 1\r\n"));
    assert_false(upgrades("GET / HTTP/1.1\r\n" H "Upgrade: websocket\r\n"));
    assert_false(upgrades("GET / HTTP/1.1\r\n" H "Connection: upgrade\r\nUpgrade: h2c\r\n"));
}

// --- framing

// The bytes of the body alone, fed in pieces.
static void follow(const struct h1_head *head, const char *text, size_t step, char *ret_data,
                   size_t *ret_used, struct h1_framing *f)
{
    size_t len = strlen(text), n_data = 0;
    h1_framing_init(f, head);
    *ret_used = 0;
    while (*ret_used < len && !f->done && !f->bad) {
        size_t most = len - *ret_used < step ? len - *ret_used : step;
        bool is_data, next = h1_framing_in_data(f);
        size_t n = h1_framing_next(f, text + *ret_used, most, &is_data);
        assert_true(n <= most && is_data == next);
        if (is_data) {
            memcpy(ret_data + n_data, text + *ret_used, n);
            n_data += n;
        }
        *ret_used += n;
    }
    ret_data[n_data] = '\0';
}

static void check_body(enum h1_body body, uint64_t length, const char *text, const char *want,
                       size_t used, bool done, bool bad)
{
    char data[256];
    struct h1_head head = {.body = body, .length = length};
    for (size_t step = 1; step <= strlen(text) + 1; step++) {
        struct h1_framing f, g;
        size_t n;
        follow(&head, text, step, data, &n, &f);
        assert_string_equal(data, want);
        assert_int_equal(n, used);
        assert_true(f.done == done && f.bad == bad);
        h1_framing_init(&g, &head);
        assert_int_equal(h1_framing_feed(&g, text, strlen(text)), used);
        assert_true(g.done == done && g.bad == bad);
    }
}

CHECK_CASE(framing)
{
    check_body(H1_LENGTH, 3, "abcdef", "abc", 3, true, false);
    check_body(H1_LENGTH, 8, "abcdef", "abcdef", 6, false, false);
    check_body(H1_LENGTH, 0, "abc", "", 0, true, false);
    check_body(H1_NO_BODY, 0, "abc", "", 0, true, false);
    check_body(H1_TO_END, 0, "abc", "abc", 3, false, false);
    check_body(H1_CHUNKED, 0, "3\r\nabc\r\n0a\r\n0123456789\r\n0\r\n\r\nGET", "abc0123456789", 29,
               true, false);
    check_body(H1_CHUNKED, 0, "0\r\n\r\n", "", 5, true, false);
    check_body(H1_CHUNKED, 0, "3\r\nab", "ab", 5, false, false);
    static const struct {
        const char *text, *want;
        size_t used;
    } bad[] = {
        {"\r\n",                    "",    0},
        {"g\r\n",                   "",    0},
        {"3;a=b\r\nabc\r\n",        "",    1},
        {"3 \r\nabc\r\n",           "",    1},
        {"3\nabc\r\n",              "",    1},
        {"3\r\nabcd\r\n",           "abc", 6},
        {"3\r\nabc\n0\r\n\r\n",     "abc", 6},
        {"0\r\nTrailer: x\r\n\r\n", "",    3},
        {"0\r\n\n",                 "",    3},
        {"123456789\r\n",           "",    8},
        {"-1\r\n",                  "",    0},
        {"0x1\r\n",                 "",    1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_body(H1_CHUNKED, 0, bad[i].text, bad[i].want, bad[i].used, false, true);
}

CHECK_MAIN(cmocka_unit_test(requests_that_pass), cmocka_unit_test(requests_that_do_not),
           cmocka_unit_test(answers), cmocka_unit_test(bodies_of_answers),
           cmocka_unit_test(too_much), cmocka_unit_test(fields_by_name),
           cmocka_unit_test(upgrades_are_for_websockets), cmocka_unit_test(framing))
