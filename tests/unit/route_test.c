// SPDX-License-Identifier: Apache-2.0
// The router on a table of its own; the real one is tested over HTTP.
#include <string.h>

#include "api/route.h"
#include "check.h"

static void nothing(struct call *call)
{
    (void)call;
}

static const struct route table[] = {
    {HTTP_GET,  "/",             nothing                      },
    {HTTP_GET,  "/sandbox",      nothing                      },
    {HTTP_POST, "/sandbox",      nothing                      },
    {HTTP_GET,  "/sandbox/{id}", nothing,                       .query = {{"limit", ""}, {"after", ""}}},
    {HTTP_DELETE,         "/sandbox/{id}",              nothing                   },
    {HTTP_POST,         "/sandbox/{id}/processes/{pid}/wait",                nothing},
    {HTTP_GET,         "/execute/{run}",                 nothing                                        },
    {HTTP_POST,         "/execute/sdk",                nothing},
    {HTTP_DELETE,         "/execute/{run}",              nothing                                    },
};
enum { ROUTES = sizeof table / sizeof *table };

// What route.c looks at besides: nothing of it here.
const struct route routes[1];
const size_t n_routes = 0;

static struct target target;

static struct route_match find(enum http_method method, const char *path)
{
    struct err err = {0};
    target_done(&target);
    assert_int_equal(target_parse(&target, path, &err), 0);
    return route_find_in(table, ROUTES, method, &target);
}

CHECK_CASE(test_found)
{
    struct route_match m = find(HTTP_GET, "/");
    assert_ptr_equal(m.route, &table[0]);
    m = find(HTTP_GET, "/sandbox");
    assert_ptr_equal(m.route, &table[1]);
    m = find(HTTP_HEAD, "/sandbox?x=1");
    assert_ptr_equal(m.route, &table[1]);
    m = find(HTTP_DELETE, "/sandbox/a%20b");
    assert_ptr_equal(m.route, &table[4]);
    assert_string_equal(m.param[0], "a b");
    m = find(HTTP_POST, "/sandbox/a/processes/p-1/wait");
    assert_ptr_equal(m.route, &table[5]);
    assert_string_equal(m.param[0], "a");
    assert_string_equal(m.param[1], "p-1");
}

CHECK_CASE(test_other_methods)
{
    auto_buf allow;
    struct route_match m = find(HTTP_PUT, "/sandbox/a");
    assert_null(m.route);
    assert_int_equal(m.allowed, HTTP_GET | HTTP_DELETE);
    buf_init(&allow, 128);
    route_allow(m.allowed, &allow);
    assert_string_equal(buf_str(&allow), "GET, HEAD, DELETE, OPTIONS");
    m = find(HTTP_OTHER, "/sandbox");
    assert_null(m.route);
    assert_int_equal(m.allowed, HTTP_GET | HTTP_POST);
}

CHECK_CASE(test_no_such_path)
{
    const char *const paths[] = {"/sandboxes", "/Sandbox", "/sandbox/a/b",
                                 "/sandbox/a/processes/p/wait/x", "/sandbox/a/processes/p"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct route_match m = find(HTTP_GET, paths[i]);
        assert_null(m.route);
        assert_int_equal(m.allowed, 0);
    }
}

CHECK_CASE(test_query)
{
    assert_true(route_takes_query(&table[3], "limit"));
    assert_false(route_takes_query(&table[3], "Limit"));
    assert_false(route_takes_query(&table[0], "limit"));
    assert_string_equal(route_near_query(&table[3], "limt"), "limit");
    assert_null(route_near_query(&table[3], "zzz"));
    target_done(&target);
}

CHECK_CASE(test_a_path_as_it_is)
{
    struct route_match m = find(HTTP_POST, "/execute/sdk");
    assert_ptr_equal(m.route, &table[7]);
    assert_int_equal(m.allowed, HTTP_POST);
    m = find(HTTP_GET, "/execute/sdk");
    assert_null(m.route);
    assert_int_equal(m.allowed, HTTP_POST);
    m = find(HTTP_DELETE, "/execute/sdk2");
    assert_ptr_equal(m.route, &table[8]);
    assert_string_equal(m.param[0], "sdk2");
    assert_int_equal(m.allowed, HTTP_GET | HTTP_DELETE);
    target_done(&target);
}

CHECK_MAIN(cmocka_unit_test(test_a_path_as_it_is), cmocka_unit_test(test_found),
           cmocka_unit_test(test_other_methods), cmocka_unit_test(test_no_such_path),
           cmocka_unit_test(test_query))
