// SPDX-License-Identifier: Apache-2.0
// Idempotency-Key: a request that is sent again gets the first one's answer and is not done again,
// also after a restart. The key is taken before anything is done and its answer kept before it is
// sent, so that a crash between the two is known as such: it is said, never guessed.
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "api/body-token.h"
#include "api/call.h"
#include "base/log.h"

enum { STATUS_PROCESS = 1 }; // instead of an HTTP status: the body is the id of a process to follow

static bool is_good_key(const char *key)
{
    size_t n = strlen(key);
    for (size_t i = 0; i < n; i++) {
        if (key[i] <= ' ' || key[i] > '~')
            return false;
    }
    return n > 0 && n <= EDGE_IDEMPOTENCY_KEY_MAX;
}

static void hash_part(crypto_generichash_state *state, const void *data, size_t len)
{
    uint64_t length = len; // so that no two parts can be cut in another place
    (void)crypto_generichash_update(state, (const void *)&length, sizeof length);
    (void)crypto_generichash_update(state, data, len);
}

static int hash_piece(const char *text, size_t len, void *data)
{
    (void)crypto_generichash_update(data, (const void *)text, len);
    return 0;
}

// A token in it is no part of what is asked.
static void hash_body(const struct call *call, crypto_generichash_state *state)
{
    size_t len;
    const char *body = http_body(call->req, &len);
    if (call->route->flags & ROUTE_BODY_TOKEN)
        (void)body_dump(&call->body, BODY_TOKEN_NAME, hash_piece, state);
    else
        hash_part(state, body, len);
}

static void hash_request(struct call *call)
{
    crypto_generichash_state state;
    const char *method = http_method_name(call->req);
    const char *target = http_target(call->req);
    bool sse = call_accepts(call, "text/event-stream");
    (void)crypto_generichash_init(&state, NULL, 0, sizeof call->idem.request);
    hash_part(&state, method, strlen(method));
    hash_part(&state, target, strlen(target));
    hash_part(&state, &sse, sizeof sse);
    hash_body(call, &state);
    (void)crypto_generichash_final(&state, call->idem.request, sizeof call->idem.request);
}

static struct idem_row row_of(const struct call *call)
{
    struct idem_row row = {.tenant = call->tenant, .key = call->idem.key, .run = call->api->run};
    memcpy(row.request, call->idem.request, sizeof row.request);
    return row;
}

static int answer_again(struct call *call, struct idem_row *row)
{
    struct buf buf;
    if (row->status == STATUS_PROCESS) {
        call->idem.process = strndup(row->body, row->body_len);
        return 0;
    }
    buf_init(&buf, row->body_len);
    (void)buf_append(&buf, row->body, row->body_len);
    http_add_header(call->req, "Idempotency-Replayed", "true");
    call_reply(call, row->status, "application/json", &buf);
    return -1;
}

static int decide(struct call *call, enum idem_state state, struct idem_row *row)
{
    switch (state) {
    case IDEM_NEW:
        call->idem.active = true;
        return 0;
    case IDEM_DONE:
        return answer_again(call, row);
    case IDEM_RUNNING:
        call_error(call, ERROR_REQUEST_IN_PROGRESS, NULL,
                   "the first request with this Idempotency-Key still runs; try again later");
        return -1;
    case IDEM_UNKNOWN:
        call_error(call, ERROR_OUTCOME_UNKNOWN, NULL,
                   "the first request with this Idempotency-Key was running when the daemon ended: "
                   "look at the sandbox, then use another key");
        return -1;
    case IDEM_OTHER:
        call_error(
            call, ERROR_IDEMPOTENCY_KEY_REUSED, NULL,
            "this Idempotency-Key was used for another request (method, path or body differ)");
        return -1;
    }
    return -1;
}

// It is done, or waits to be, also when its client has gone: who reads it counts large bodies only
// until then. It is there twice, as it came and as what is given to a program.
static int keep_request(struct call *call)
{
    size_t len;
    (void)http_body(call->req, &len);
    if (call_hold_request(call, 2 * len))
        return 0;
    call_scarce(call);
    return -1;
}

int idem_begin(struct call *call)
{
    struct err err;
    enum idem_state state;
    const char *key = http_header(call->req, "Idempotency-Key");
    if (key == NULL)
        return 0;
    if (!is_good_key(key) || http_header_twice(call->req, "Idempotency-Key")) {
        call_error(
            call, ERROR_INVALID_REQUEST, NULL,
            "Idempotency-Key must be one text of 1 to %d printable characters without spaces",
            EDGE_IDEMPOTENCY_KEY_MAX);
        return -1;
    }
    if (keep_request(call) < 0)
        return -1;
    call->idem.key = strdup(key);
    if (call->idem.key == NULL)
        abort();
    hash_request(call);
    struct idem_row row = row_of(call);
    if (db_idem_take(call->api->db, &row, &state, &err) < 0) {
        call_fail(call, &err);
        return -1;
    }
    int go_on = decide(call, state, &row);
    free(row.body);
    return go_on;
}

static void keep(struct call *call, unsigned status, const char *body, size_t len)
{
    struct err err;
    auto_buf copy; // the row's body is not const
    struct idem_row row = row_of(call);
    buf_init(&copy, len + 1);
    (void)buf_append(&copy, body, len);
    row.status = status;
    row.body = copy.data;
    row.body_len = copy.len;
    if (db_idem_done(call->api->db, &row, &err) < 0)
        log_line(LOG_ERROR, "an idempotent answer is not kept, ignoring", "error", err.msg, "req",
                 call->id, NULL);
}

static void keep_too_large(struct call *call)
{
    auto_buf body;
    buf_init(&body, 1024);
    error_write(&body, ERROR_OUTCOME_UNKNOWN,
                "the first request with this Idempotency-Key was done, but its answer was too "
                "large to keep",
                call->id, NULL);
    keep(call, error_status(ERROR_OUTCOME_UNKNOWN), body.data, body.len);
}

void idem_answer(struct call *call, unsigned status, const char *body, size_t len)
{
    struct err err;
    if (!call->idem.active)
        return;
    call->idem.active = false;
    struct idem_row row = row_of(call);
    if (status == error_status(ERROR_UNAVAILABLE)) { // nothing was done: the key is free again
        if (db_idem_drop(call->api->db, &row, &err) < 0)
            log_line(LOG_ERROR, "an idempotency key stays taken, ignoring", "error", err.msg, "req",
                     call->id, NULL);
    } else if (len > EDGE_IDEMPOTENCY_BODY_MAX) {
        keep_too_large(call);
    } else {
        keep(call, status, body, len);
    }
}

void idem_answer_process(struct call *call, const char *process)
{
    if (!call->idem.active)
        return;
    call->idem.active = false;
    keep(call, STATUS_PROCESS, process, strlen(process));
}
