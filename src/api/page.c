// SPDX-License-Identifier: Apache-2.0
#include "api/page.h"

#include <stdio.h>

#include "api/show.h"

bool page_open(struct page *page, const char *id)
{
    page->more = page->n == page->max;
    if (page->more)
        return false;
    page->n++;
    (void)snprintf(page->last, sizeof page->last, "%s", id);
    json_open_object(page->j);
    return true;
}

void page_reply(struct call *call, const char *key, unsigned max, page_fn each, const void *query)
{
    struct buf buf;
    struct json j;
    struct err err = {0};
    struct page page = {.call = call, .j = &j, .max = max};
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    json_key(&j, key);
    json_open_array(&j);
    if (each(&page, query, &err) < 0) {
        buf_done(&buf);
        call_fail(call, &err);
        return;
    }
    json_close_array(&j);
    show_str(&j, "next", page.more ? page.last : NULL);
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}
