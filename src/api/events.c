// SPDX-License-Identifier: Apache-2.0
// What happened to a sandbox: a page of it, or followed. The rows are the only source: news from
// the sandbox only say that there are more.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/show.h"
#include "base/text.h"

enum { AT_ONCE = 100 };

struct events {
    struct call *call;
    struct follower *follower;
    int64_t last;
    unsigned n;
};

static int parse_after(struct call *call, uint64_t *ret)
{
    struct err err = {0};
    uint64_t offset;
    const char *last = http_header(call->req, "Last-Event-ID");
    if (call_query_u64(call, "offset", INT64_MAX, 0, &offset) < 0 ||
        call_query_u64(call, "after", INT64_MAX, offset, ret) < 0)
        return -1;
    if (last == NULL || parse_u64(last, 0, INT64_MAX, ret, &err) == 0)
        return 0;
    (void)err_wrap(&err, "Last-Event-ID");
    call_fail(call, &err);
    return -1;
}

// -- a page

struct page {
    struct json *j;
    int64_t last;
};

static int see_event(void *data, const struct event_row *row)
{
    struct page *page = data;
    json_open_object(page->j);
    show_event(page->j, row);
    json_close_object(page->j);
    page->last = row->seq;
    return 0;
}

static void reply_page(struct call *call, uint64_t after, uint64_t max)
{
    struct buf buf;
    struct json j;
    struct err err = {0};
    struct page page = {.j = &j, .last = (int64_t)after};
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    json_key(&j, "events");
    json_open_array(&j);
    if (db_event_each(call->api->db, sandbox_row(call->sandbox)->number, (int64_t)after,
                      (unsigned)max, see_event, &page, &err) < 0) {
        buf_done(&buf);
        call_fail(call, &err);
        return;
    }
    json_close_array(&j);
    show_int(&j, "next", page.last);
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}

// -- followed

static void let_go(struct events *e)
{
    follower_free(e->follower);
    e->follower = NULL;
}

static void stop(struct call *call)
{
    let_go(call->state);
}

static int send_event(void *data, const struct event_row *row)
{
    struct events *e = data;
    char id[24];
    struct buf buf;
    struct json j;
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_event(&j, row);
    json_close_object(&j);
    (void)snprintf(id, sizeof id, "%" PRId64, row->seq);
    e->last = row->seq;
    e->n++;
    stream_event(e->call, id, row->type, &j);
    return 0;
}

static void pump(struct events *e)
{
    struct err err = {0};
    struct call *call = e->call;
    do {
        e->n = 0;
        if (call->req == NULL || stream_full(call))
            return; // the drain brings us back
        if (db_event_each(call->api->db, sandbox_row(call->sandbox)->number, e->last, AT_ONCE,
                          send_event, e, &err) < 0) {
            let_go(e);
            stream_end(call);
            return;
        }
    } while (e->n == AT_ONCE);
}

static void on_drain(void *data)
{
    struct events *e = data;
    if (e->follower != NULL)
        pump(e);
}

static void on_event(void *data, const struct event_row *row)
{
    struct events *e = data;
    struct buf buf;
    struct json j;
    if (row != NULL) {
        pump(e);
        return;
    }
    buf_init(&buf, 256);
    json_init(&j, &buf);
    json_open_object(&j);
    show_str(&j, "type", "destroyed");
    show_time_now(&j, "timestamp");
    json_close_object(&j);
    stream_event(e->call, NULL, "destroyed", &j);
    let_go(e);
    stream_end(e->call);
}

static void follow(struct call *call, uint64_t after, bool live)
{
    struct events *e = calloc(1, sizeof *e);
    if (e == NULL)
        abort();
    *e = (struct events){.call = call, .last = (int64_t)after};
    call->state = e;
    call->stop = stop;
    stream_begin_sse(call);
    if (!live) {
        pump(e); // a thousand rows are kept: they fit
        stream_end(call);
        return;
    }
    http_on_drain(call->req, on_drain, e);
    e->follower = sandbox_follow(call->sandbox, on_event, e);
    pump(e);
}

void handle_events(struct call *call)
{
    uint64_t after, max;
    bool live;
    bool sse = call_accepts(call, "text/event-stream");
    if (parse_after(call, &after) < 0 ||
        call_query_u64(call, "limit", EDGE_PAGE_MAX, EDGE_PAGE_DEFAULT, &max) < 0 ||
        call_query_bool(call, "follow", sse, &live) < 0)
        return;
    if (sse)
        follow(call, after, live && !call->is_head);
    else if (live)
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "?follow=1 comes as events: send 'Accept: text/event-stream'");
    else if (max == 0)
        call_error(call, ERROR_INVALID_REQUEST, NULL, "?limit: must be at least 1");
    else
        reply_page(call, after, max);
}
