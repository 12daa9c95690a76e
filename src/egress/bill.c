// SPDX-License-Identifier: Apache-2.0
// What one request of a box to a model uses: read off its answer as that passes (model/meter.h),
// counted against the sandbox's budget while it runs, and written down when it is over, however it
// ended: of an answer that comes to its end, before its last bytes go on to the box, so that no
// whole answer is without its price, whenever we are killed. Nobody is believed: neither the box
// about what it asked for, nor an upstream, which may be a tenant's own, about what it has used.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "egress/egress-internal.h"
#include "egress/spend.h"
#include "model/meter.h"

enum {
    TOKENS_MAX = 100 * 1000 * 1000, // of each kind in one answer
    TOOLS_MAX = 10 * 1000,
    // Of a question whose answer was not waited for: about so many bytes are a token, and no more
    // of them than a long one has.
    BYTES_A_TOKEN = 4,
    GUESS_MAX = 200 * 1000,
    REQUEST_ID_MAX = 64,
};

struct bill {
    struct model_access access; // zeros: the tenant's own
    bool counts, sent;
    uint64_t asked_bytes;
    struct meter *asked; // reads the model's name off the request
    struct meter *told;  // NULL: no answer yet
    unsigned status;
    bool streams; // the answer comes piece by piece
    char request_id[REQUEST_ID_MAX];
    int64_t cost, tokens; // as counted in outlet->running
};

// --- reading

static int64_t clamp(int64_t value, int64_t max)
{
    return value < 0 ? 0 : value > max ? max : value;
}

static void clamp_usage(struct model_usage *u)
{
    u->input = clamp(u->input, TOKENS_MAX);
    u->output = clamp(u->output, TOKENS_MAX);
    u->cache_write = clamp(u->cache_write, TOKENS_MAX);
    u->cache_write_1h = clamp(u->cache_write_1h, TOKENS_MAX);
    u->cache_read = clamp(u->cache_read, TOKENS_MAX);
    u->searches = clamp(u->searches, TOOLS_MAX);
    u->fetches = clamp(u->fetches, TOOLS_MAX);
}

static bool is_nothing(const struct model_usage *u)
{
    return model_usage_tokens(u) == 0 && u->searches == 0 && u->fetches == 0;
}

static void read_meter(const struct meter *meter, struct meter_reading *ret)
{
    *ret = (struct meter_reading){0};
    if (meter != NULL)
        meter_read(meter, ret);
    clamp_usage(&ret->usage);
    if (ret->model[0] != '\0' && !model_name_valid(ret->model))
        ret->model[0] = '\0';
}

// The answer knows best; the request tells what it has asked for.
static void read_bill(const struct bill *bill, struct meter_reading *ret)
{
    struct meter_reading asked;
    read_meter(bill->told, ret);
    if (ret->model[0] != '\0')
        return;
    read_meter(bill->asked, &asked);
    (void)snprintf(ret->model, sizeof ret->model, "%s",
                   asked.model[0] != '\0' ? asked.model : "unknown");
}

// Whoever hangs up before anything was told has still asked.
static void guess(const struct bill *bill, struct meter_reading *reading)
{
    bool good = bill->status == 0 || (bill->status >= 200 && bill->status < 300);
    if (!bill->counts || !good || reading->is_final || !is_nothing(&reading->usage))
        return;
    reading->usage.input = clamp((int64_t)(bill->asked_bytes / BYTES_A_TOKEN) + 1, GUESS_MAX);
}

// --- while it runs

// Whether the message has come to its end.
static bool count(struct conn *conn)
{
    struct bill *bill = conn->bill;
    struct running *running = &conn->outlet->running;
    struct meter_reading reading;
    read_bill(bill, &reading);
    int64_t cost = model_cost(reading.model, &reading.usage, NULL);
    int64_t tokens = model_usage_tokens(&reading.usage);
    running->cost += cost - bill->cost;
    running->tokens += tokens - bill->tokens;
    bill->cost = cost;
    bill->tokens = tokens;
    return reading.is_final;
}

void bill_open(struct conn *conn, const struct model_access *access, bool counts)
{
    struct bill *bill = calloc(1, sizeof *bill);
    if (bill == NULL)
        abort();
    bill_drop(conn);
    bill->counts = counts;
    bill->asked = counts ? meter_new(200, "application/json") : NULL;
    if (access != NULL && model_access_copy(access, &bill->access) < 0)
        abort();
    conn->bill = bill;
    conn->outlet->running.n++;
}

bool bill_is_ours(const struct conn *conn)
{
    return conn->bill != NULL && conn->bill->access.header != NULL;
}

void bill_sent(struct conn *conn)
{
    if (conn->bill != NULL)
        conn->bill->sent = true;
}

static void take_request_id(struct bill *bill, const struct h1_head *head)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const struct h1_field *f = h1_find(head, "request-id");
    char text[REQUEST_ID_MAX];
    if (f == NULL || f->value.len >= sizeof text)
        return;
    (void)memcpy(text, f->value.at, f->value.len);
    text[f->value.len] = '\0';
    if (strspn(text, good) == f->value.len)
        (void)memcpy(bill->request_id, text, sizeof text);
}

static void read_along(struct bill *bill, const struct h1_head *head)
{
    static const char stream[] = "text/event-stream";
    const struct h1_field *f = h1_find(head, "Content-Type");
    char type[128] = "";
    if (f != NULL && f->value.len < sizeof type)
        (void)memcpy(type, f->value.at, f->value.len);
    meter_free(bill->told);
    bill->told = meter_new(head->status, type);
    bill->status = head->status;
    bill->streams = strncasecmp(type, stream, sizeof stream - 1) == 0;
}

void bill_answer(struct conn *conn, const struct h1_head *head, struct buf *ret)
{
    struct bill *bill = conn->bill;
    if (bill == NULL || head->status < 200)
        return;
    read_along(bill, head);
    take_request_id(bill, head);
    // The next request has a new token: clients are told that it is worth it.
    if (head->status == 401 && bill->access.header != NULL &&
        model_keys_refused(conn->outlet->egress->config.keys, &bill->access))
        (void)buf_append_str(ret, "x-should-retry: true\r\n");
}

int bill_payload(void *data, enum exchange_way way, const void *bytes, size_t len)
{
    struct conn *conn = data;
    struct bill *bill = conn->bill;
    if (bill == NULL)
        return 0;
    if (way == EXCHANGE_REQUEST) {
        bill->asked_bytes += len;
        if (bill->asked != NULL)
            meter_feed(bill->asked, bytes, len);
        return 0;
    }
    if (len == 0) {
        bill_end(conn);
        return 0;
    }
    if (bill->told == NULL)
        return 0;
    meter_feed(bill->told, bytes, len);
    // An answer that is paid for is let through; one that would go on is not. Its end as HTTP may
    // be long in coming: whoever asked does not wait for it.
    if (count(conn)) {
        bill_end(conn);
        return 0;
    }
    return bill->streams && gate_is_over(conn->outlet);
}

// --- the end

static void write_down(struct conn *conn, const struct meter_reading *reading)
{
    const struct bill *bill = conn->bill;
    const struct sandbox_row *sandbox = sandbox_row(conn->outlet->s);
    const char *request = sandbox_request(conn->outlet->s);
    if (request[0] == '\0')
        request = bill->request_id;
    struct spend_row row = {
        .tenant = sandbox->tenant,
        .sandbox_number = sandbox->number,
        .sandbox = sandbox->id,
        .request = (char *)(uintptr_t)(request[0] != '\0' ? request : NULL),
        .source = (char *)(uintptr_t) "box",
        .model = (char *)(uintptr_t)reading->model,
    };
    spend_write(conn->outlet->egress->config.fleet, &row, &reading->usage);
}

void bill_drop(struct conn *conn)
{
    struct bill *bill = conn->bill;
    struct running *running = &conn->outlet->running;
    if (bill == NULL)
        return;
    conn->bill = NULL;
    running->n--;
    running->cost -= bill->cost;
    running->tokens -= bill->tokens;
    meter_free(bill->asked);
    meter_free(bill->told);
    model_access_done(&bill->access);
    free(bill);
}

void bill_failed(struct conn *conn)
{
    if (conn->bill != NULL)
        conn->bill->counts = false;
    bill_end(conn);
}

void bill_end(struct conn *conn)
{
    struct bill *bill = conn->bill;
    struct meter_reading reading;
    if (bill == NULL)
        return;
    if (bill->sent && conn->outlet->s != NULL) {
        read_bill(bill, &reading);
        guess(bill, &reading);
        if (!is_nothing(&reading.usage))
            write_down(conn, &reading);
    }
    bill_drop(conn);
    if (conn->outlet->s != NULL)
        (void)gate_is_over(conn->outlet);
}
