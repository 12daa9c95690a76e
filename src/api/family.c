// SPDX-License-Identifier: Apache-2.0
#include "api/family.h"

#include <string.h>

#include "api/family-path.h"

// -- which

const struct family *family_of(const char *target, const char **ret_rest)
{
    const struct family *family = &family_native;
    const char *rest = path_of_container(target);
    if (rest == NULL)
        rest = path_of_capability(target);
    if (rest != NULL)
        family = &family_container;
    else if ((rest = path_of_bridge(target)) != NULL)
        family = &family_bridge;
    if (ret_rest != NULL)
        *ret_rest = rest != NULL ? rest : target;
    return family;
}

struct route_match family_find(const struct family *family, enum http_method method,
                               struct target *target)
{
    struct route_match match = {0};
    for (const struct route_table *t = family->tables; t->routes != NULL; t++) {
        struct route_match in = route_find_in(t->routes, *t->n, method, target);
        match.allowed |= in.allowed;
        if (match.route == NULL && in.route != NULL) {
            match.route = in.route;
            memcpy(match.param, in.param, sizeof match.param);
        }
    }
    return match;
}

// -- our own

static unsigned write_native(const struct refusal *r, struct buf *ret)
{
    error_write(ret, r->kind, r->message, r->request_id, r->details);
    return error_status(r->kind);
}

static const struct route_table native_tables[] = {
    ROUTE_TABLE(routes),
    ROUTE_TABLE_END,
};
const struct family family_native = {
    .name = "native",
    .tables = native_tables,
    .write_error = write_native,
};
