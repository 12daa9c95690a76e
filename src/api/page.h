// SPDX-License-Identifier: Apache-2.0
// Lists that are answered a page at a time: {"success": true, KEY: [...], "next": the last id, or
// null at the end}.
#pragma once

#include <stdbool.h>

#include "api/call.h"
#include "base/json.h"
#include "edge/limits.h"

struct page {
    struct call *call;
    struct json *j;
    unsigned n, max;
    char last[EDGE_NAME_MAX + 1];
    bool more;
};
// Whether there is room for one more, whose object is then open.
bool page_open(struct page *page, const char *id);
// `each` looks at one row more than a page has, and calls page_open for every one until that says
// no. -1: err.
typedef int (*page_fn)(struct page *page, const void *query, struct err *err);
void page_reply(struct call *call, const char *key, unsigned max, page_fn each, const void *query);
