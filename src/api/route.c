// SPDX-License-Identifier: Apache-2.0
#include "api/route.h"

#include <string.h>

#include "base/text.h"

struct route_match route_find_in(const struct route *table, size_t n_table, enum http_method method,
                                 struct target *target)
{
    struct route_match match = {0};
    bool is_exact = false;
    unsigned wanted = method == HTTP_HEAD ? (unsigned)HTTP_GET : (unsigned)method;
    for (size_t i = 0; i < n_table; i++) {
        const char *param[ROUTE_PARAMS_MAX] = {0};
        if (!target_match(target, table[i].pattern, param))
            continue;
        // A path that is named as it is, is not one of those that a {name} stands for.
        bool exact = strchr(table[i].pattern, '{') == NULL;
        if (is_exact && !exact)
            continue;
        if (exact && !is_exact)
            match = (struct route_match){0};
        is_exact = exact;
        match.allowed |= (unsigned)table[i].method;
        if ((unsigned)table[i].method == wanted && match.route == NULL) {
            match.route = &table[i];
            memcpy(match.param, param, sizeof param);
        }
    }
    return match;
}

const struct route *route_of(void (*handle)(struct call *call))
{
    for (size_t i = 0; i < n_routes; i++) {
        if (routes[i].handle == handle)
            return &routes[i];
    }
    return NULL;
}

bool route_takes_query(const struct route *route, const char *name)
{
    for (size_t i = 0; i < ROUTE_QUERY_MAX && route->query[i].name != NULL; i++) {
        if (strcmp(route->query[i].name, name) == 0)
            return true;
    }
    return false;
}

const char *route_near_query(const struct route *route, const char *name)
{
    for (size_t i = 0; i < ROUTE_QUERY_MAX && route->query[i].name != NULL; i++) {
        if (text_near(name, route->query[i].name))
            return route->query[i].name;
    }
    return NULL;
}

void route_allow(unsigned allowed, struct buf *ret)
{
    static const struct {
        unsigned method;
        const char *name;
    } names[] = {
        {HTTP_GET,    "GET, HEAD"},
        {HTTP_POST,   "POST"     },
        {HTTP_PUT,    "PUT"      },
        {HTTP_PATCH,  "PATCH"    },
        {HTTP_DELETE, "DELETE"   },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (allowed & names[i].method)
            (void)buf_printf(ret, "%s, ", names[i].name);
    }
    (void)buf_append_str(ret, "OPTIONS");
}
