// SPDX-License-Identifier: Apache-2.0
// What was spent on models, added up in one way or another. A tenant sees its own; an administrator
// any tenant's, or all.
#include <string.h>

#include "api/call.h"
#include "api/handlers.h"
#include "api/show.h"
#include "base/when.h"

enum { LIST_DEFAULT = 100, LIST_MAX = 1000 };

static const char *const names[] = {
    [SPEND_BY_TENANT] = "tenant", [SPEND_BY_SANDBOX] = "sandbox", [SPEND_BY_REQUEST] = "request",
    [SPEND_BY_MODEL] = "model",   [SPEND_BY_SOURCE] = "source",   [SPEND_BY_DAY] = "day",
};

// -- what is asked for

static int read_by(struct call *call, enum spend_by *ret)
{
    const char *text = call_query(call, "by");
    *ret = SPEND_BY_TENANT;
    if (text == NULL)
        return 0;
    for (size_t i = SPEND_BY_TENANT; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], text) == 0) {
            *ret = (enum spend_by)i;
            return 0;
        }
    }
    call_error(call, ERROR_INVALID_REQUEST, NULL,
               "?by: must be tenant, sandbox, request, model, source or day");
    return -1;
}

static int read_time(struct call *call, const char *name, int64_t *ret)
{
    struct err err = {0};
    const char *text = call_query(call, name);
    if (text == NULL || when_parse(text, ret, &err) == 0)
        return 0;
    (void)err_wrap(&err, "?%s", name);
    call_fail(call, &err);
    return -1;
}

static int find_tenant(struct call *call, const char *name, int64_t *ret)
{
    struct err err = {0};
    struct tenant_row row = {0};
    int r = db_tenant_get(call->api->db, name, &row, &err);
    *ret = row.number;
    tenant_row_done(&row);
    if (r < 0)
        call_fail(call, &err);
    else if (r == 0)
        call_error(call, ERROR_NOT_FOUND, NULL, "?tenant: there is no tenant '%.80s'", name);
    return r > 0 ? 0 : -1;
}

static int read_tenant(struct call *call, struct spend_query *query)
{
    const char *name = call_query(call, "tenant");
    query->tenant = call->tenant;
    if (name == NULL)
        return 0;
    if (!call->admin) {
        call_error(call, ERROR_FORBIDDEN, NULL,
                   "?tenant: is for administrators; without it this is your own");
        return -1;
    }
    if (strcmp(name, "all") != 0)
        return find_tenant(call, name, &query->tenant);
    if (query->by == SPEND_BY_SANDBOX || query->by == SPEND_BY_REQUEST || query->sandbox != NULL) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "?tenant: sandboxes and requests are those of one tenant: name it");
        return -1;
    }
    query->tenant = 0;
    return 0;
}

static int64_t a_month_before(int64_t until_ms)
{
    int64_t since_ms = (until_ms != 0 ? until_ms : db_now_ms()) - INT64_C(30) * 24 * 3600 * 1000;
    return since_ms > 0 ? since_ms : 0;
}

static int read_query(struct call *call, struct spend_query *query)
{
    uint64_t max;
    *query = (struct spend_query){.sandbox = call_query(call, "sandbox")};
    if (read_by(call, &query->by) < 0 || read_tenant(call, query) < 0 ||
        read_time(call, "since", &query->since_ms) < 0 ||
        read_time(call, "until", &query->until_ms) < 0 ||
        call_query_u64(call, "limit", LIST_MAX, LIST_DEFAULT, &max) < 0)
        return -1;
    if (call_query(call, "since") == NULL)
        query->since_ms = a_month_before(query->until_ms);
    if (query->until_ms != 0 && query->until_ms <= query->since_ms) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "?until: must be after since");
        return -1;
    }
    // A list and its total are of the same rows.
    query->by_calls = query->by == SPEND_BY_SANDBOX || query->by == SPEND_BY_REQUEST;
    query->max = (unsigned)max;
    return 0;
}

// -- answers

static void show_sum(struct json *j, const struct spend_sum *sum)
{
    show_int(j, "requests", sum->requests);
    show_int(j, "input_tokens", sum->input);
    show_int(j, "output_tokens", sum->output);
    show_int(j, "cache_creation_input_tokens", sum->cache_write + sum->cache_write_1h);
    show_int(j, "cache_read_input_tokens", sum->cache_read);
    show_int(j, "web_search_requests", sum->searches);
    show_int(j, "web_fetch_requests", sum->fetches);
    show_usd(j, "cost_usd", sum->cost);
}

static int see_sum(void *data, const struct spend_sum *sum)
{
    struct json *j = data;
    json_open_object(j);
    show_str(j, "key", sum->key);
    show_sum(j, sum);
    json_close_object(j);
    return 0;
}

static int keep_total(void *data, const struct spend_sum *sum)
{
    struct spend_sum *total = data;
    *total = *sum;
    total->key = "";
    return 0;
}

static int write_usage(struct call *call, const struct spend_query *query, struct json *j,
                       struct err *err)
{
    struct spend_sum total = {.key = ""};
    struct spend_query whole = *query;
    whole.by = SPEND_BY_NONE;
    whole.max = 1;
    if (db_spend_each(call->api->db, &whole, keep_total, &total, err) < 0)
        return -1;
    show_bool(j, "success", true);
    show_str(j, "by", names[query->by]);
    json_key(j, "total");
    json_open_object(j);
    show_sum(j, &total);
    json_close_object(j);
    json_key(j, "usage");
    json_open_array(j);
    if (query->max > 0 && db_spend_each(call->api->db, query, see_sum, j, err) < 0)
        return -1;
    json_close_array(j);
    return 0;
}

void handle_usage(struct call *call)
{
    struct spend_query query;
    struct buf buf;
    struct json j;
    struct err err = {0};
    if (read_query(call, &query) < 0)
        return;
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    if (write_usage(call, &query, &j, &err) < 0) {
        buf_done(&buf);
        call_fail(call, &err);
        return;
    }
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}
