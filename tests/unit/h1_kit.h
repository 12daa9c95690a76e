// SPDX-License-Identifier: Apache-2.0
// An exchange between two sockets whose other ends the test holds, and an owner that does what a
// test tells it to.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/fd.h"
#include "check.h"
#include "h1/exchange.h"

enum { KIT_UPS = 8, KIT_MAX = 16 << 20 };

struct kit {
    uv_loop_t loop;
    struct exchange *x;
    int client;        // the test's end
    int up[KIT_UPS];   // likewise, of each upstream that was made
    unsigned n_up;     //
    struct buf heard;  // by the client
    struct buf got;    // by all upstreams, in order
    bool client_ended; // the exchange has closed it, or its writing half
    bool up_ended;     // the newest one
    bool closed;
    unsigned asked;
    uint64_t moved_up, moved_client;
    // what the owner does
    bool later; // decides when the test calls kit_decide
    bool close_after, refuse, release, dead_upstream, keep_nothing;
    uint64_t stop_after;
    struct buf asked_body, told_body; // what the owner was shown
    unsigned told_ends;
    uint64_t cut_after; // bytes of an answer's body; 0: never
    int released;
    struct buf early;
    const struct stream_ops *stream_ops;
};

static void kit_forward(struct kit *kit, struct exchange *x, const struct h1_head *h)
{
    auto_buf head;
    buf_init(&head, 64 * 1024);
    (void)buf_printf(&head, "%.*s %.*s HTTP/1.1\r\n", (int)h->method.len, h->method.at,
                     (int)h->target.len, h->target.at);
    for (size_t i = 0; i < h->n_fields; i++) {
        const struct h1_field *f = &h->fields[i];
        if (h1_is(f->name, "Content-Length") || h1_is_hop_by_hop(h, f->name))
            continue;
        (void)buf_printf(&head, "%.*s: %.*s\r\n", (int)f->name.len, f->name.at, (int)f->value.len,
                         f->value.at);
    }
    exchange_framing(x, h, &head);
    (void)buf_append_str(&head, "\r\n");
    if (exchange_upstream_is_open(x) && !kit->keep_nothing) {
        exchange_forward(x, &head, NULL);
        return;
    }
    int pair[2];
    assert_true(kit->n_up < KIT_UPS);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    kit->up[kit->n_up++] = pair[0];
    kit->up_ended = false;
    if (kit->dead_upstream) {
        fd_close(pair[0]);
        kit->up[kit->n_up - 1] = -1;
    }
    struct upstream up = {.fd = pair[1], .ops = kit->stream_ops};
    if (up.ops != NULL) {
        int *fd = malloc(sizeof *fd);
        *fd = pair[1];
        up.stream = fd;
    }
    exchange_forward(x, &head, &up);
}

static const struct h1_head *kit_pending;

static void kit_request(void *data, struct exchange *x, const struct h1_head *head)
{
    struct kit *kit = data;
    kit->asked++;
    if (kit->close_after)
        exchange_close_after(x);
    if (kit->release)
        kit->released = exchange_release(x, &kit->early);
    else if (kit->refuse)
        exchange_refuse(x, 403, "text/plain", "no");
    else if (kit->later)
        kit_pending = head;
    else
        kit_forward(kit, x, head);
}

static int kit_moved(void *data, uint64_t up, uint64_t client)
{
    struct kit *kit = data;
    kit->moved_up += up;
    kit->moved_client += client;
    return kit->stop_after > 0 && kit->moved_client > kit->stop_after;
}

static int kit_payload(void *data, enum exchange_way way, const void *bytes, size_t len)
{
    struct kit *kit = data;
    kit->told_ends += len == 0;
    assert_true(len > 0 || way == EXCHANGE_ANSWER);
    (void)buf_append(way == EXCHANGE_REQUEST ? &kit->asked_body : &kit->told_body, bytes, len);
    return kit->cut_after > 0 && kit->told_body.len > kit->cut_after;
}

static void kit_closed(void *data)
{
    struct kit *kit = data;
    assert_false(kit->closed);
    kit->closed = true;
}

static const struct exchange_ops kit_ops = {
    .request = kit_request,
    .moved = kit_moved,
    .payload = kit_payload,
    .closed = kit_closed,
};

static inline void kit_begin_with(struct kit *kit, const void *early, size_t len, int64_t idle_ms)
{
    *kit = (struct kit){.released = -1};
    assert_int_equal(uv_loop_init(&kit->loop), 0);
    buf_init(&kit->heard, KIT_MAX);
    buf_init(&kit->got, KIT_MAX);
    buf_init(&kit->early, KIT_MAX);
    buf_init(&kit->asked_body, KIT_MAX);
    buf_init(&kit->told_body, KIT_MAX);
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    kit->client = pair[0];
    kit->x = exchange_start(&(struct exchange_config){
        .loop = &kit->loop,
        .client = pair[1],
        .early = early,
        .early_len = len,
        .ops = &kit_ops,
        .data = kit,
        .idle_ms = idle_ms,
    });
    assert_non_null(kit->x);
}

static inline void kit_begin(struct kit *kit)
{
    kit_begin_with(kit, NULL, 0, 60000);
}

// Reads what there is. True: something has happened.
static inline bool kit_drain(int fd, struct buf *to, bool *ended)
{
    char data[16 * 1024];
    if (fd < 0 || *ended)
        return false;
    ssize_t n = read(fd, data, sizeof data);
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n <= 0)
        *ended = true;
    else
        assert_int_equal(buf_append(to, data, (size_t)n), 0);
    return true;
}

static inline void kit_turn(struct kit *kit)
{
    for (int i = 0; i < 3; i++)
        uv_run(&kit->loop, UV_RUN_NOWAIT);
}

// Until nothing happens any more.
static inline void kit_settle(struct kit *kit)
{
    for (int quiet = 0; quiet < 3;) {
        kit_turn(kit);
        bool moved = kit_drain(kit->client, &kit->heard, &kit->client_ended);
        if (kit->n_up > 0)
            moved |= kit_drain(kit->up[kit->n_up - 1], &kit->got, &kit->up_ended);
        quiet = moved ? 0 : quiet + 1;
    }
}

// Sends all of it in pieces, whatever the other side takes at a time.
static inline void kit_send(struct kit *kit, int fd, const char *data, size_t len, size_t step)
{
    unsigned stuck = 0;
    for (size_t at = 0; at < len && stuck < 1000;) {
        size_t n = len - at < step ? len - at : step;
        ssize_t sent = send(fd, data + at, n, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return;
        at += sent > 0 ? (size_t)sent : 0;
        stuck = sent > 0 ? 0 : stuck + 1;
        if (sent <= 0)
            kit_settle(kit);
        else
            kit_turn(kit);
    }
    kit_settle(kit);
}

static inline void kit_say(struct kit *kit, const char *text) // by the client
{
    kit_send(kit, kit->client, text, strlen(text), SIZE_MAX);
}

static inline void kit_reply(struct kit *kit, const char *text) // by the newest upstream
{
    assert_true(kit->n_up > 0);
    kit_send(kit, kit->up[kit->n_up - 1], text, strlen(text), SIZE_MAX);
}

static inline void kit_end_up(struct kit *kit)
{
    int *fd = &kit->up[kit->n_up - 1];
    fd_close(*fd);
    *fd = -1;
    kit_settle(kit);
}

#define kit_heard(kit, text) assert_string_equal(buf_str(&(kit)->heard), text)
#define kit_got(kit, text)   assert_string_equal(buf_str(&(kit)->got), text)
#define kit_forget(kit)      (buf_reset(&(kit)->heard), buf_reset(&(kit)->got))

// Ends what still runs and sees to it that nothing is left.
static inline void kit_finish(struct kit *kit)
{
    if (!kit->closed && kit->released < 0) {
        exchange_stop(kit->x);
        assert_true(kit->closed);
    }
    uv_run(&kit->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&kit->loop), 0);
    fd_close(kit->client);
    fd_close(kit->released);
    for (unsigned i = 0; i < kit->n_up; i++)
        fd_close(kit->up[i]);
    buf_done(&kit->heard);
    buf_done(&kit->got);
    buf_done(&kit->early);
    buf_done(&kit->asked_body);
    buf_done(&kit->told_body);
}
