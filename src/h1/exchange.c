// SPDX-License-Identifier: Apache-2.0
// The life of an exchange: begin, decisions of its owner, end, time.
#include "h1/exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "h1/exchange-internal.h"

static void on_handle_closed(uv_handle_t *handle)
{
    struct exchange *x = handle->data;
    lane_done(&x->to_up);
    lane_done(&x->to_client);
    free(x);
}

// Memory goes with the timer's handle, when whoever is further up the stack has returned.
static void end(struct exchange *x)
{
    x->state = X_DEAD;
    exchange_drop_up(x);
    uv_close((uv_handle_t *)&x->tick, on_handle_closed);
}

void exchange_stop(struct exchange *x)
{
    if (x->state == X_DEAD)
        return;
    side_close(x->client);
    x->client = NULL;
    end(x);
    if (x->ops->moved != NULL && x->moved_up + x->moved_client > 0)
        (void)x->ops->moved(x->data, x->moved_up, x->moved_client);
    x->ops->closed(x->data);
}

int exchange_release(struct exchange *x, struct buf *ret_early)
{
    struct lane *lane = &x->to_up;
    size_t skip = lane->held;
    (void)buf_append(ret_early, lane->data + lane->start + skip, lane_len(lane) - skip);
    int fd = side_release(x->client);
    x->client = NULL;
    end(x);
    return fd;
}

void exchange_drop_up(struct exchange *x)
{
    side_close(x->up);
    x->up = NULL;
}

bool exchange_upstream_is_open(const struct exchange *x)
{
    return x->up != NULL;
}

bool exchange_is_idle(const struct exchange *x)
{
    return (x->state == X_HEAD && lane_len(&x->to_up) == 0) || x->state == X_TUNNEL;
}

// --- time

// Whether the client, or an upstream that takes nothing, is what everybody waits for.
static bool waits_for_client(const struct exchange *x)
{
    switch (x->state) {
    case X_HEAD:
    case X_FLUSH:
        return true;
    case X_ANSWER:
    case X_BODY:
        return lane_has_output(&x->to_client) ||
               (!x->request_body.done && !lane_has_output(&x->to_up) && x->up_errno == 0);
    case X_TUNNEL:
        return lane_has_output(&x->to_client) || lane_has_output(&x->to_up);
    case X_ASKED:
    case X_LINGER:
    case X_DEAD:
        break;
    }
    return false;
}

static bool waits_for_upstream_to_take(const struct exchange *x)
{
    return (x->state == X_ANSWER || x->state == X_BODY) && lane_has_output(&x->to_up);
}

static uint64_t tick_ms(const struct exchange *x)
{
    return x->state == X_LINGER ? LINGER_MS : (uint64_t)x->idle_ms / 2 + 1;
}

static void on_tick(uv_timer_t *tick)
{
    struct exchange *x = tick->data;
    uint64_t now = uv_now(x->loop), idle = (uint64_t)x->idle_ms;
    if (x->kicked) {
        x->kicked = false;
        uv_timer_start(tick, on_tick, tick_ms(x), tick_ms(x));
        exchange_pump(x);
        return;
    }
    bool slow_head = x->state == X_HEAD && lane_len(&x->to_up) > 0 && now - x->head_since >= idle;
    if (x->state == X_LINGER || slow_head)
        exchange_stop(x);
    else if (now - x->last < idle)
        return;
    else if (waits_for_client(x))
        exchange_stop(x);
    else if (waits_for_upstream_to_take(x)) {
        exchange_fail(x, ETIMEDOUT, NULL);
        exchange_pump(x);
    } else if (x->state == X_TUNNEL) {
        lane_shrink(&x->to_client);
        lane_shrink(&x->to_up);
    }
}

void exchange_kick(struct exchange *x)
{
    x->kicked = true;
    uv_timer_start(&x->tick, on_tick, 0, 0);
}

struct exchange *exchange_start(const struct exchange_config *config)
{
    struct exchange *x = calloc(1, sizeof *x);
    if (x == NULL)
        abort();
    x->loop = config->loop;
    x->ops = config->ops;
    x->data = config->data;
    x->idle_ms = config->idle_ms;
    lane_init(&x->to_up);
    lane_init(&x->to_client);
    x->client = side_open(x, config->client, NULL, NULL);
    if (x->client == NULL) {
        fd_close(config->client);
        free(x);
        return NULL;
    }
    uv_timer_init(x->loop, &x->tick);
    x->tick.data = x;
    x->last = x->head_since = uv_now(x->loop);
    if (config->early_len > x->to_up.cap)
        x->to_up.cap = config->early_len;
    char *at;
    (void)lane_room(&x->to_up, &at);
    if (config->early_len > 0)
        memcpy(at, config->early, config->early_len);
    x->to_up.end = config->early_len;
    exchange_kick(x); // nobody is called back before the owner knows its exchange
    return x;
}

// --- what the owner decides

// The request's head is read; of its body nothing yet.
static void take_head(struct exchange *x)
{
    h1_framing_init(&x->request_body, &x->request);
    struct lane *lane = &x->to_up;
    if (x->has_body || !x->is_safe) {
        lane->held = 0;
        lane_skip(lane, x->request.len);
    }
}

static void use_upstream(struct exchange *x, const struct upstream *up)
{
    x->reused = up == NULL;
    if (up == NULL)
        return;
    exchange_drop_up(x);
    x->up = side_open(x, up->fd, up->ops, up->stream);
    if (x->up == NULL)
        fd_close(up->fd);
}

void exchange_forward(struct exchange *x, const struct buf *head, const struct upstream *up)
{
    if (x->state != X_ASKED) {
        if (up != NULL) { // its client has gone
            if (up->ops != NULL)
                up->ops->close(up->stream);
            fd_close(up->fd);
        }
        return;
    }
    if (up == NULL && x->up == NULL && !x->retried) { // it has closed since the owner looked
        x->retried = x->ask_again = true;
        exchange_pump(x);
        return;
    }
    use_upstream(x, up);
    x->up_errno = 0;
    (void)buf_append(&x->to_up.lead, head->data, head->len);
    take_head(x);
    x->state = X_ANSWER;
    if (x->up == NULL)
        exchange_fail(x, ENOTCONN, NULL);
    else if (head->failed != 0 || x->to_up.lead.failed != 0)
        exchange_fail(x, 0, "the request's head is too long");
    exchange_pump(x);
}

void exchange_refuse_raw(struct exchange *x, const struct buf *answer)
{
    if (x->state != X_ASKED)
        return;
    (void)buf_append(&x->to_client.lead, answer->data, answer->len);
    take_head(x);
    exchange_flush(x);
    exchange_pump(x);
}

void exchange_refuse(struct exchange *x, unsigned status, const char *type, const char *body)
{
    if (x->state != X_ASKED)
        return;
    exchange_write_answer(x, &x->to_client.lead, status, type, body);
    take_head(x);
    exchange_flush(x);
    exchange_pump(x);
}

void exchange_close_after(struct exchange *x)
{
    x->close_client = true;
}

// --- when it goes wrong

static void retry(struct exchange *x)
{
    x->retried = true;
    x->state = X_ASKED;
    x->ask_again = true;
    lane_clear(&x->to_client);
    buf_reset(&x->to_up.lead);
    x->to_up.lead_at = 0;
}

static void append_failure(struct exchange *x, const struct err *err)
{
    struct buf *lead = &x->to_client.lead;
    buf_reset(lead);
    if (x->ops->failed != NULL)
        x->ops->failed(x->data, x, err, lead);
    else
        exchange_write_answer(x, lead, 502, "text/plain", err->msg);
}

// A client of HTTP/1.0 would take a plain end for the answer's.
void exchange_cut(struct exchange *x)
{
    struct linger now = {.l_onoff = 1};
    (void)setsockopt(x->client->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    exchange_stop(x);
}

bool exchange_feed_body(struct exchange *x, enum exchange_way way, struct h1_framing *body,
                        const char *data, size_t len, size_t *ret)
{
    bool is_data;
    *ret = 0;
    while (*ret < len && !body->done && !body->bad) {
        const char *at = data + *ret;
        size_t n = h1_framing_next(body, at, len - *ret, &is_data);
        if (is_data && n > 0 && x->ops->payload != NULL &&
            x->ops->payload(x->data, way, at, n) != 0) {
            exchange_cut(x);
            return false;
        }
        *ret += n;
    }
    return true;
}

void exchange_fail(struct exchange *x, int sys_errno, const char *why)
{
    bool untouched = x->to_up.held > 0; // no byte of an answer has come
    int first = x->up_errno != 0 ? x->up_errno : sys_errno;
    bool may_retry = x->state == X_ANSWER && x->reused && !x->retried && untouched && why == NULL;
    exchange_drop_up(x);
    if (may_retry) {
        retry(x);
        return;
    }
    if (x->begun || x->state == X_TUNNEL) {
        exchange_cut(x);
        return;
    }
    struct err err;
    if (why != NULL)
        err_set(&err, ERR_UNAVAILABLE, "the answer cannot be passed on: %s", why);
    else if (first == 0)
        err_set(&err, ERR_UNAVAILABLE, "the connection ended before an answer came");
    else
        err_sys(&err, first, "no answer");
    err.sys_errno = first;
    lane_clear(&x->to_client);
    append_failure(x, &err);
    if (x->state != X_DEAD)
        exchange_flush(x);
}

void exchange_flush(struct exchange *x)
{
    x->state = X_FLUSH;
    h1_framing_init(&x->answer_body, &(struct h1_head){.body = H1_NO_BODY});
    buf_reset(&x->to_up.lead);
    x->to_up.lead_at = 0;
    if (x->has_body)
        x->close_client = true;
}
