// SPDX-License-Identifier: Apache-2.0
// Names of previews, and heads on their way into a box and out of it.
#include <stdio.h>
#include <string.h>

#include "api/preview-head.h"
#include "api/preview-host.h"
#include "check.h"

#define TOKEN "abcdefgh12345678"

// Stands in for the exchange, which is not needed to write heads.
void exchange_framing(const struct exchange *x, const struct h1_head *head, struct buf *ret)
{
    (void)x;
    (void)buf_append_str(ret, head->status == 0 ? "Framing: request\r\n" : "Framing: answer\r\n");
}

CHECK_CASE(hosts)
{
    static const struct {
        const char *host;
        enum preview_host kind;
        unsigned port;
        const char *slug;
    } cases[] = {
        {"3000-a-0123456789ab-" TOKEN ".localhost:8787",                                    PREVIEW_GOOD, 3000,  "a-0123456789ab"},
        {"3000-a-0123456789ab-" TOKEN ".localhost",                                         PREVIEW_GOOD, 3000,  "a-0123456789ab"},
        {"1-A-B.localhost",                                                                 PREVIEW_BAD,  0,     NULL            },
        {"65535-A--b-ABCDEFGH.LocalHost.:1",                                                PREVIEW_GOOD, 65535, "a--b"          },
        {"65536-a-" TOKEN ".localhost",                                                     PREVIEW_BAD,  0,     NULL            },
        {"080-a-" TOKEN ".localhost",                                                       PREVIEW_BAD,  0,     NULL            },
        {"0-a-" TOKEN ".localhost",                                                         PREVIEW_BAD,  0,     NULL            },
        {"-a-" TOKEN ".localhost",                                                          PREVIEW_BAD,  0,     NULL            },
        {"80--" TOKEN ".localhost",                                                         PREVIEW_BAD,  0,     NULL            },
        {"80-" TOKEN ".localhost",                                                          PREVIEW_BAD,  0,     NULL            },
        {"80-a-" TOKEN "9.localhost",                                                       PREVIEW_BAD,  0,     NULL            },
        {"80-a-abcdefg.localhost",                                                          PREVIEW_BAD,  0,     NULL            },
        {"80-a_b-" TOKEN ".localhost",                                                      PREVIEW_BAD,  0,     NULL            },
        {"x.80-a-" TOKEN ".localhost",                                                      PREVIEW_BAD,  0,     NULL            },
        {"80-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-" TOKEN ".localhost",
         PREVIEW_BAD,                                                                                     0,     NULL            },
        {".localhost",                                                                      PREVIEW_NONE, 0,     NULL            },
        {"localhost",                                                                       PREVIEW_NONE, 0,     NULL            },
        {"localhost:8787",                                                                  PREVIEW_NONE, 0,     NULL            },
        {"",                                                                                PREVIEW_NONE, 0,     NULL            },
        {":",                                                                               PREVIEW_NONE, 0,     NULL            },
        {"api.localhost",                                                                   PREVIEW_NONE, 0,     NULL            },
        {"80-a-" TOKEN ".localhost.evil",                                                   PREVIEW_NONE, 0,     NULL            },
        {"80-a-" TOKEN ".notlocalhost",                                                     PREVIEW_NONE, 0,     NULL            },
        {"[::1]:80",                                                                        PREVIEW_NONE, 0,     NULL            },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct preview_name name = {0};
        enum preview_host kind = preview_read_host(cases[i].host, "localhost", &name);
        if (kind != cases[i].kind)
            fail_msg("'%s' is %d", cases[i].host, (int)kind);
        if (kind == PREVIEW_GOOD) {
            assert_int_equal(name.port, cases[i].port);
            assert_string_equal(name.slug, cases[i].slug);
        }
    }
}

CHECK_CASE(tokens)
{
    char a[PREVIEW_TOKEN_MAX + 1], b[PREVIEW_TOKEN_MAX + 1];
    preview_token_make(a);
    preview_token_make(b);
    assert_true(preview_token_valid(a) && preview_token_valid(b));
    assert_true(preview_token_same(a, a));
    assert_false(preview_token_same(a, b) || preview_token_same(a, "") ||
                 preview_token_same("", a));
    assert_false(preview_token_same("abcdefgh", "abcdefghi") || preview_token_same("abc", "abd"));
    char longer[64];
    (void)snprintf(longer, sizeof longer, "%sx", a);
    assert_false(preview_token_same(a, longer));
}

static void check_url(const char *domain, uint16_t port, bool proxied, const char *want)
{
    struct preview_where where;
    struct err err = {0};
    auto_buf url;
    buf_init(&url, 256);
    int r = preview_where_read(&where, domain, port, proxied, &err);
    assert_int_equal(r, want == NULL ? -1 : 0);
    if (want == NULL)
        return;
    preview_write_url(&where, 3000, "s", TOKEN, &url);
    assert_string_equal(buf_str(&url), want);
}

CHECK_CASE(urls)
{
    check_url("localhost", 8787, false, "http://3000-s-" TOKEN ".localhost:8787/");
    check_url("LocalHost", 80, false, "http://3000-s-" TOKEN ".localhost/");
    check_url("a.b-c.de", 8787, true, "https://3000-s-" TOKEN ".a.b-c.de/");
    check_url("a.de:8443", 8787, true, "https://3000-s-" TOKEN ".a.de:8443/");
    check_url("a.de:443", 8787, true, "https://3000-s-" TOKEN ".a.de/");
    check_url("a.de:80", 8787, false, "http://3000-s-" TOKEN ".a.de/");
    static const char *const bad[] = {
        "",        ".",     "a.",
        ".a",      "a..b",  "a/b",
        "a:",      "a:0",   "a:080",
        "a:65536", "a:1:2", "[::1]",
        "a b",     "*.a",   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_url(bad[i], 8787, false, NULL);
}

// --- heads

static bool is_ours(void *data, const char *token)
{
    (void)data;
    return strcmp(token, "secret") == 0;
}

static const struct preview_rules by_host = {.peer = "1.2.3.4", .is_ours = is_ours};
static const struct preview_rules by_path = {
    .by_path = true, .prefix = "/sandbox/a/proxy/80", .peer = "", .tls = true, .is_ours = is_ours};

static void check_request(const struct preview_rules *rules, const char *text, const char *want)
{
    static struct h1_head head;
    const char *why;
    auto_buf got;
    buf_init(&got, 4096);
    assert_int_equal(h1_parse_request(&head, text, strlen(text), &why), 1);
    int r = preview_write_request(rules, NULL, &head, &got);
    assert_int_equal(r, want == NULL ? -1 : 0);
    if (want != NULL)
        assert_string_equal(buf_str(&got), want);
}

#define END_HOST                                                                                   \
    "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\nFraming: request\r\n\r\n"
#define END_PATH                                                                                   \
    "X-Forwarded-Proto: https\r\nX-Forwarded-Host: h\r\nX-Forwarded-Prefix: /sandbox/a/proxy/80\r\nFraming: request\r\n\r\n"

CHECK_CASE(requests)
{
    check_request(
        &by_host,
        "GET /a?cay_token=1 HTTP/1.0\r\nHost: h\r\nX-Forwarded-For: 6\r\nforwarded: x\r\n"
        "X-Real-Ip: 6\r\nX-Cay-Tenant: t\r\nCookie: c\r\nAuthorization: Basic x\r\n"
        "Proxy-X: y\r\nConnection: X-Hop\r\nX-Hop: z\r\nContent-Length: 0\r\n\r\n",
        "GET /a?cay_token=1 HTTP/1.1\r\nHost: h\r\nCookie: c\r\nAuthorization: Basic x\r\n" END_HOST);
    check_request(&by_host, "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: bearer \t secret\r\n\r\n",
                  "GET / HTTP/1.1\r\nHost: h\r\n" END_HOST);
    check_request(&by_host, "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secretx\r\n\r\n",
                  "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secretx\r\n" END_HOST);
    check_request(&by_host,
                  "GET / HTTP/1.1\r\nHost: h\r\nSec-WebSocket-Protocol: a,cay.bearer.x , b\r\n\r\n",
                  "GET / HTTP/1.1\r\nHost: h\r\nSec-WebSocket-Protocol: a, b\r\n" END_HOST);
    check_request(&by_host,
                  "GET / HTTP/1.1\r\nHost: h\r\nSec-WebSocket-Protocol: cay.bearer.x\r\n\r\n",
                  "GET / HTTP/1.1\r\nHost: h\r\n" END_HOST);
    // CGI and what came after it see no difference.
    check_request(&by_host,
                  "GET / HTTP/1.1\r\nHost: h\r\nX_Forwarded_For: 6\r\nX-Forwarded_Host: e\r\n"
                  "x_real_ip: 6\r\nX_Cay_Tenant: t\r\nX_Fine: y\r\n\r\n",
                  "GET / HTTP/1.1\r\nHost: h\r\nX_Fine: y\r\n" END_HOST);
    check_request(&by_host, "GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n", NULL);
    check_request(&by_host, "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", NULL);
    check_request(&by_host, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", NULL);
}

CHECK_CASE(requests_by_path)
{
    static const struct {
        const char *target, *want; // NULL: refused
    } cases[] = {
        {"/sandbox/a/proxy/80/",                            "/"                           },
        {"/sandbox/a/proxy/80//x/../y",                     "//x/../y"                    },
        {"/sandbox/a/proxy/80/?",                           "/"                           },
        {"/sandbox/a/proxy/80/b?c=d",                       "/b?c=d"                      },
        {"/sandbox/a/proxy/80/b?c=d&cay_token=x&e",         "/b?c=d&e"                    },
        {"/sandbox/a/proxy/80/b?cay_token=x",               "/b"                          },
        {"/sandbox/a/proxy/80/b?xcay_token=x&cay_tokens=y", "/b?xcay_token=x&cay_tokens=y"},
        {"/sandbox/a/proxy/80",                             NULL                          },
        {"/sandbox/a/proxy/801/",                           NULL                          },
        {"/sandbox/b/proxy/80/",                            NULL                          },
        {"/",                                               NULL                          },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256], want[256];
        (void)snprintf(
            text, sizeof text,
            "GET %s HTTP/1.1\r\nHost: h\r\nCookie: c\r\nAuthorization: x\r\nReferer: y\r\n\r\n",
            cases[i].target);
        (void)snprintf(want, sizeof want, "GET %s HTTP/1.1\r\nHost: h\r\n" END_PATH,
                       cases[i].want != NULL ? cases[i].want : "");
        check_request(&by_path, text, cases[i].want != NULL ? want : NULL);
    }
}

static void check_answer(const struct preview_rules *rules, const char *text, const char *want)
{
    static struct h1_head head;
    const char *why;
    auto_buf got;
    buf_init(&got, 4096);
    assert_int_equal(h1_parse_answer(&head, text, strlen(text), (struct h1_text){"GET", 3}, &why),
                     1);
    preview_write_answer(rules, NULL, &head, &got);
    assert_string_equal(buf_str(&got), want);
}

CHECK_CASE(answers)
{
    static const char text[] =
        "HTTP/1.0 200 Fine\r\nSet-Cookie: a=b; Domain=x; Path=/\r\nset-cookie: c=d ; DOMAIN\t=y\r\n"
        "Set-Cookie: domain=e;Domain\r\nConnection: close\r\nClear-Site-Data: *\r\nAlt-Svc: x\r\nA: b\r\n\r\n";
    check_answer(
        &by_host, text,
        "HTTP/1.1 200 Fine\r\nSet-Cookie: a=b; Path=/\r\nset-cookie: c=d \r\n"
        "Set-Cookie: domain=e\r\nClear-Site-Data: *\r\nAlt-Svc: x\r\nA: b\r\nFraming: answer\r\n\r\n");
    check_answer(&by_path, text,
                 "HTTP/1.1 200 Fine\r\nA: b\r\nContent-Security-Policy: sandbox\r\n"
                 "X-Content-Type-Options: nosniff\r\nFraming: answer\r\n\r\n");
    check_answer(&by_path, "HTTP/1.1 100 Go\r\nSet-Cookie: a=b\r\n\r\n",
                 "HTTP/1.1 100 Go\r\nFraming: answer\r\n\r\n");
    // For a page that is listed, the API says so, whatever the program says.
    struct preview_rules for_page = by_path;
    for_page.origin = "https://a.example";
    check_answer(&for_page,
                 "HTTP/1.1 404 No\r\nAccess-Control-Allow-Origin: *\r\n"
                 "access-control-allow-credentials: true\r\nA: b\r\n\r\n",
                 "HTTP/1.1 404 No\r\nA: b\r\nContent-Security-Policy: sandbox\r\n"
                 "X-Content-Type-Options: nosniff\r\n"
                 "Access-Control-Allow-Origin: https://a.example\r\n"
                 "Access-Control-Expose-Headers: *\r\nVary: Origin\r\nFraming: answer\r\n\r\n");
}

CHECK_CASE(tokens_in_queries)
{
    static const struct {
        const char *target;
        int want;
        const char *token;
    } cases[] = {
        {"/",                             0,  NULL },
        {"/?",                            0,  NULL },
        {"/cay_token=x",                  0,  NULL },
        {"/?cay_token=x",                 1,  "x"  },
        {"/?a&cay_token=xyz&b",           1,  "xyz"},
        {"/?cay_token=",                  1,  ""   },
        {"/?cay_token",                   0,  NULL },
        {"/?cay_token=a&cay_token=a",     -1, NULL },
        {"/?cay_token=12345678901234567", -1, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char token[PREVIEW_TOKEN_MAX + 1];
        int got =
            preview_query_token(cases[i].target, strlen(cases[i].target), token, sizeof token);
        assert_int_equal(got, cases[i].want);
        if (got == 1)
            assert_string_equal(token, cases[i].token);
    }
}

CHECK_MAIN(cmocka_unit_test(hosts), cmocka_unit_test(tokens), cmocka_unit_test(urls),
           cmocka_unit_test(requests), cmocka_unit_test(requests_by_path),
           cmocka_unit_test(answers), cmocka_unit_test(tokens_in_queries))
