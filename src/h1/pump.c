// SPDX-License-Identifier: Apache-2.0
// Moves bytes for as long as some can be moved.
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "h1/exchange-internal.h"

static bool wants_client(const struct exchange *x)
{
    const struct lane *lane = &x->to_up;
    if (x->client->eof)
        return false;
    if (x->state == X_LINGER)
        return true;
    return lane->end < lane->cap || (lane->start > 0 && lane->held == 0);
}

static bool wants_up(const struct exchange *x)
{
    if (x->up == NULL || x->up->eof)
        return false;
    const struct lane *lane = &x->to_client;
    switch (x->state) {
    case X_HEAD:
    case X_ASKED:
        return true; // to hear that it has closed
    case X_ANSWER:
    case X_BODY:
    case X_TUNNEL:
        return lane->end < lane->cap || lane->start > 0;
    case X_FLUSH:
    case X_LINGER:
    case X_DEAD:
        break;
    }
    return false;
}

static void client_ended(struct exchange *x)
{
    if (x->state != X_TUNNEL)
        exchange_stop(x);
}

static bool linger_read(struct exchange *x)
{
    char scrap[16 * 1024];
    ssize_t n = side_read(x->client, scrap, sizeof scrap);
    if (n == -EAGAIN)
        return false;
    x->lingered += n > 0 ? (uint64_t)n : 0;
    if (n <= 0 || x->lingered > LINGER_BYTES)
        exchange_stop(x);
    return true;
}

static bool read_client(struct exchange *x)
{
    if (!x->client->can_read || !wants_client(x))
        return false;
    if (x->state == X_LINGER)
        return linger_read(x);
    char *at;
    size_t room = lane_room(&x->to_up, &at);
    ssize_t n = side_read(x->client, at, room);
    if (n == -EAGAIN)
        return false;
    x->last = uv_now(x->loop);
    if (n > 0) {
        if (lane_len(&x->to_up) == 0)
            x->head_since = x->last;
        x->to_up.end += (size_t)n;
    } else if (n == 0) {
        client_ended(x);
    } else {
        exchange_stop(x);
    }
    return true;
}

// Between two requests: whatever it says, it is of no use any more.
static bool read_idle_up(struct exchange *x)
{
    char byte[64];
    if (side_read(x->up, byte, sizeof byte) == -EAGAIN)
        return false;
    exchange_drop_up(x);
    return true;
}

static bool read_up(struct exchange *x)
{
    if (!wants_up(x) || !x->up->can_read)
        return false;
    if (x->state == X_HEAD || x->state == X_ASKED)
        return read_idle_up(x);
    char *at;
    size_t room = lane_room(&x->to_client, &at);
    ssize_t n = side_read(x->up, at, room);
    if (n == -EAGAIN)
        return false;
    x->last = uv_now(x->loop);
    if (n > 0) {
        x->to_client.end += (size_t)n;
    } else if (n < 0) {
        if (x->up_errno == 0)
            x->up_errno = (int)-n;
        x->up->eof = true;
    }
    return true;
}

static bool write_up(struct exchange *x)
{
    if (x->up == NULL || !lane_has_output(&x->to_up) || !x->up->can_write || x->up_errno != 0)
        return false;
    ssize_t n = lane_write(&x->to_up, x->up);
    if (n == -EAGAIN)
        return false;
    x->last = uv_now(x->loop);
    if (n >= 0) {
        x->moved_up += (uint64_t)n;
        return n > 0;
    }
    x->up_errno = (int)-n;
    x->up->can_read = true; // it may have answered before it closed
    return true;
}

static bool write_client(struct exchange *x)
{
    if (x->state == X_DEAD || !lane_has_output(&x->to_client) || !x->client->can_write)
        return false;
    ssize_t n = lane_write(&x->to_client, x->client);
    if (n == -EAGAIN)
        return false;
    x->last = uv_now(x->loop);
    if (n < 0) {
        exchange_stop(x);
        return true;
    }
    x->moved_client += (uint64_t)n;
    x->begun |= n > 0 && (x->state == X_BODY || x->state == X_TUNNEL);
    return n > 0;
}

static bool advance(struct exchange *x)
{
    switch (x->state) {
    case X_HEAD:
        return exchange_take_request(x);
    case X_ASKED:
        if (!x->ask_again)
            return false;
        exchange_ask(x);
        return true;
    case X_ANSWER:
        return exchange_feed_request(x) || exchange_take_answer(x);
    case X_BODY:
        return exchange_feed_request(x) || exchange_feed_answer(x) || exchange_end_answer(x);
    case X_FLUSH:
        return exchange_end_answer(x);
    case X_TUNNEL:
        return exchange_tunnel(x);
    case X_LINGER:
    case X_DEAD:
        break;
    }
    return false;
}

// All that is known is done before anything is written, so that a head and what there is of its
// body are one write. Reading comes last, so that room is made first.
static bool round_of(struct exchange *x)
{
    bool moved = false;
    while (advance(x))
        moved = true;
    if (x->state == X_DEAD)
        return true;
    moved |= write_up(x);
    moved |= write_client(x);
    if (moved || x->state == X_DEAD)
        return true;
    moved = read_client(x);
    if (x->state == X_DEAD)
        return true;
    return read_up(x) || moved;
}

static void tell_moved(struct exchange *x)
{
    if (x->state == X_DEAD)
        return;
    uint64_t up = x->moved_up, client = x->moved_client;
    x->moved_up = x->moved_client = 0;
    if (x->ops->moved != NULL && up + client > 0 && x->ops->moved(x->data, up, client) != 0)
        exchange_stop(x);
}

// Others have their turn: what is left to read is told of again.
static void yield(struct exchange *x)
{
    x->client->can_read = false;
    if (x->up != NULL && x->up->ops == NULL)
        x->up->can_read = false;
    exchange_kick(x);
}

static void arm(struct exchange *x)
{
    side_arm(x->client, wants_client(x), lane_has_output(&x->to_client));
    if (x->up != NULL)
        side_arm(x->up, wants_up(x), lane_has_output(&x->to_up) && x->up_errno == 0);
}

void exchange_pump(struct exchange *x)
{
    if (x->pumping || x->state == X_DEAD)
        return;
    x->pumping = true;
    unsigned rounds = 0;
    while (x->state != X_DEAD && round_of(x)) {
        if (++rounds == ROUNDS_MAX && x->state != X_DEAD) {
            yield(x);
            break;
        }
    }
    x->pumping = false;
    tell_moved(x);
    if (x->state != X_DEAD)
        arm(x);
}
