// SPDX-License-Identifier: Apache-2.0
// Which requests are meant for us and come from no stranger's page.
#include <string.h>
#include <strings.h>

#include "api/web.h"
#include "check.h"

// --- a request of headers alone

struct http_request {
    const char *name[4], *value[4];
};

const char *http_header(const struct http_request *req, const char *name)
{
    for (unsigned i = 0; i < 4 && req->name[i] != NULL; i++) {
        if (strcasecmp(req->name[i], name) == 0)
            return req->value[i];
    }
    return NULL;
}

bool http_header_twice(const struct http_request *req, const char *name)
{
    unsigned n = 0;
    for (unsigned i = 0; i < 4 && req->name[i] != NULL; i++)
        n += strcasecmp(req->name[i], name) == 0;
    return n > 1;
}

// ---

static void names_of_this_machine(void **state)
{
    static const char *const ours[] = {
        "localhost:8787", "LocalHost:8787", "127.0.0.1:8787", "127.9.8.7:8787", "[::1]:8787",
    };
    (void)state;
    for (unsigned i = 0; i < sizeof ours / sizeof *ours; i++)
        assert_true(web_host_is_ours(ours[i], 8787));
    assert_true(web_host_is_ours("localhost", 80));
    assert_true(web_host_is_ours("localhost:80", 80));
    assert_true(web_host_is_ours("[::1]", 80));
}

static void names_that_only_lead_here(void **state)
{
    static const char *const others[] = {
        "",
        ":8787",
        "localhost",
        "localhost:",
        "localhost:80",
        "localhost:08787",
        "localhost:8787 ",
        "localhost.:8787",
        "localhost.evil.example:8787",
        "evil.example:8787",
        "evil.localhost:8787",
        "xlocalhost:8787",
        "localhost@evil.example:8787",
        "evil.example:8787@localhost:8787",
        "127.0.0.1.evil.example:8787",
        "127.1:8787",
        "127.0.0.01:8787",
        "0x7f.0.0.1:8787",
        "2130706433:8787",
        "0.0.0.0:8787",
        "10.0.0.1:8787",
        "128.0.0.1:8787",
        "::1:8787",
        "[::1%lo]:8787",
        "[::ffff:127.0.0.1]:8787",
        "[::]:8787",
        "localhost:8787:8787",
        "localhostlocalhostlocalhostlocalhostlocalhostlocalhostlocalhostlocalhost:8787",
    };
    (void)state;
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(web_host_is_ours(others[i], 8787));
    assert_false(web_host_is_ours(NULL, 8787));
    assert_false(web_host_is_ours(NULL, 80));
}

static void lists_of_origins(void **state)
{
    (void)state;
    assert_true(web_origin_is_listed("*", "https://a"));
    assert_true(web_origin_is_listed("https://b, https://a", "https://a"));
    assert_false(web_origin_is_listed("", "https://a"));
    assert_false(web_origin_is_listed("https://a.b", "https://a"));
    assert_false(web_origin_is_listed("https://a", "https://a.b"));
}

static void pages(void **state)
{
    static const struct {
        const char *origin, *site;
        bool ours;
    } cases[] = {
        {NULL,                             "none",        true },
        {NULL,                             "same-origin", true },
        {NULL,                             NULL,          true }, // not a browser
        {NULL,                             "cross-site",  false},
        {NULL,                             "same-site",   false},
        {NULL,                             "",            false},
        {"http://localhost:8787",          NULL,          true },
        {"http://localhost:8787",          "same-origin", true },
        {"https://listed.example",         "cross-site",  true },
        {"https://evil.example",           "cross-site",  false},
        {"https://localhost:8787",         NULL,          false},
        {"http://localhost:3000",          "same-site",   false},
        {"http://localhost",               NULL,          false},
        {"http://127.0.0.1:8787",          "cross-site",  false}, // not the one it is sent to
        {"http://3000-a-b.localhost:8787", "same-site",   false}, // a preview
        {"http://localhost:8787.evil",     NULL,          false},
        {"http://localhost:8787@evil",     NULL,          false},
        {"null",                           NULL,          false},
        {"null",                           "same-origin", false},
        {"",                               NULL,          false},
        {"localhost:8787",                 NULL,          false},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(web_page_is_ours(cases[i].origin, cases[i].site, "localhost:8787",
                                          "https://listed.example,null"),
                         cases[i].ours);
}

static void requests(void **state)
{
    const struct http_request plain = {{"Host"}, {"localhost:1"}};
    const struct http_request none = {{"Accept"}, {"x"}};
    const struct http_request two = {
        {"Host",        "host"       },
        {"localhost:1", "localhost:1"}
    };
    const struct http_request origins = {
        {"Host",        "Origin",             "Origin"      },
        {"localhost:1", "http://localhost:1", "https://evil"}
    };
    const struct http_request page = {
        {"Host",        "Origin"      },
        {"localhost:1", "https://evil"}
    };
    (void)state;
    assert_true(web_is_for_us(&plain, 1) && web_is_from_us(&plain, ""));
    assert_false(web_is_for_us(&plain, 2));
    assert_false(web_is_for_us(&none, 1));
    assert_false(web_is_from_us(&none, ""));
    assert_false(web_is_for_us(&two, 1));
    assert_false(web_is_from_us(&origins, ""));
    assert_false(web_is_from_us(&page, ""));
    assert_true(web_is_from_us(&page, "https://evil"));
}

CHECK_MAIN(cmocka_unit_test(names_of_this_machine), cmocka_unit_test(names_that_only_lead_here),
           cmocka_unit_test(lists_of_origins), cmocka_unit_test(pages), cmocka_unit_test(requests))
