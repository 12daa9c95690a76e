// SPDX-License-Identifier: Apache-2.0
// The client's half: heads, bodies on their way to the upstream, and what comes after an answer.
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "h1/exchange-internal.h"

static void begin_request(struct exchange *x)
{
    const struct h1_head *h = &x->request;
    x->looked = 0;
    x->n_interim = 0;
    x->up_errno = 0;
    x->convert = AS_IT_IS;
    x->begun = x->reused = x->retried = false;
    x->client_old = h->minor == 0;
    x->close_client = h->close;
    x->is_head = h1_same(h->method, "HEAD");
    // RFC 9110, 9.2.2: only these may be asked twice by somebody who is not the client.
    x->is_safe = x->is_head || h1_same(h->method, "GET") || h1_same(h->method, "OPTIONS") ||
                 h1_same(h->method, "PUT") || h1_same(h->method, "DELETE");
    x->has_body = h->body == H1_CHUNKED || (h->body == H1_LENGTH && h->length > 0);
    x->to_up.held = h->len;
}

static void refuse_head(struct exchange *x, const char *why)
{
    x->client_old = x->is_head = false;
    x->close_client = x->has_body = true; // nobody knows where the next one would begin
    lane_clear(&x->to_client);
    exchange_write_answer(x, &x->to_client.lead, why == h1_too_long ? 431 : 400, "text/plain", why);
    exchange_flush(x);
}

void exchange_ask(struct exchange *x)
{
    x->ask_again = false;
    x->state = X_ASKED;
    // What cannot be asked twice is not sent to somebody who has left already.
    if (x->up != NULL && (x->has_body || !x->is_safe) && side_is_stale(x->up))
        exchange_drop_up(x);
    x->ops->request(x->data, x, &x->request);
}

bool exchange_take_request(struct exchange *x)
{
    struct lane *lane = &x->to_up;
    size_t len = lane_len(lane);
    // A head is parsed again only when another line of it is there.
    if (len == x->looked ||
        memchr(lane->data + lane->start + x->looked, '\n', len - x->looked) == NULL) {
        if (len < H1_HEAD_MAX)
            return false;
    }
    const char *why;
    int got = h1_parse_request(&x->request, lane->data + lane->start, len, &why);
    if (got == 0) {
        x->looked = len;
        return false;
    }
    if (got < 0) {
        refuse_head(x, why);
        return true;
    }
    begin_request(x);
    exchange_ask(x);
    return true;
}

bool exchange_feed_request(struct exchange *x)
{
    struct lane *lane = &x->to_up;
    size_t len = lane_fresh_len(lane);
    if (x->request_body.done || len == 0)
        return false;
    size_t n;
    if (!exchange_feed_body(x, EXCHANGE_REQUEST, &x->request_body, lane_fresh(lane), len, &n))
        return true;
    lane->ready += n;
    if (!x->request_body.bad)
        return n > 0;
    exchange_drop_up(x);
    if (x->begun)
        exchange_stop(x);
    else
        refuse_head(x, "the body is not chunked as it says");
    return true;
}

static bool request_is_sent(const struct exchange *x)
{
    return x->request_body.done && !lane_has_output(&x->to_up) && x->up_errno == 0;
}

// An answer that comes from us is the answer to a request whose body nobody reads.
static bool must_linger(const struct exchange *x)
{
    return !x->request_body.done || lane_len(&x->to_up) > x->to_up.held;
}

static void linger(struct exchange *x)
{
    x->state = X_LINGER;
    x->lingered = 0;
    exchange_drop_up(x);
    lane_clear(&x->to_up);
    (void)shutdown(x->client->fd, SHUT_WR);
    uv_timer_start(&x->tick, x->tick.timer_cb, LINGER_MS, 0);
}

static void next_request(struct exchange *x)
{
    lane_skip(&x->to_up, x->to_up.held);
    x->to_up.held = 0;
    x->looked = 0;
    x->head_since = uv_now(x->loop);
    x->state = X_HEAD;
}

// All of the answer is with the client.
bool exchange_end_answer(struct exchange *x)
{
    if (!x->answer_body.done || lane_has_output(&x->to_client))
        return false;
    if (x->state == X_BODY) {
        bool sent = request_is_sent(x);
        x->close_client |= !sent;
        // Bytes behind the answer belong to none.
        if (!sent || x->answer.close || lane_len(&x->to_client) > 0)
            exchange_drop_up(x);
    }
    lane_clear(&x->to_client);
    if (!x->close_client)
        next_request(x);
    else if (must_linger(x))
        linger(x);
    else
        exchange_stop(x);
    return true;
}
