// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 from strangers on both sides. The first byte says what is tried: heads and bodies, which
// must be understood alike however they are cut; or an exchange, into which the rest is fed from
// both sides, and whose output must be whole messages: as many requests to the upstream as its
// owner was asked for, and answers that a strict reader takes.
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "h1/exchange.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// --- heads

static int parse(struct h1_head *head, const char *text, size_t len, int answer)
{
    const char *why = NULL;
    struct h1_text get = {"GET", 3};
    int got = answer ? h1_parse_answer(head, text, len, get, &why)
                     : h1_parse_request(head, text, len, &why);
    assert(got >= 0 || why != NULL);
    assert(got <= 0 || (head->len <= len && head->n_fields <= H1_FIELDS_MAX));
    return got;
}

static void follow_body(const struct h1_head *head, const char *text, size_t len, size_t step)
{
    struct h1_framing whole, cut;
    h1_framing_init(&whole, head);
    h1_framing_init(&cut, head);
    size_t all = h1_framing_feed(&whole, text, len), at = 0;
    while (at < len && !cut.done && !cut.bad) {
        size_t n = len - at < step ? len - at : step;
        at += h1_framing_feed(&cut, text + at, n);
    }
    assert(at == all && whole.done == cut.done && whole.bad == cut.bad && whole.left == cut.left);
    assert(!(whole.done && whole.bad));
}

static void heads(const char *text, size_t len, size_t step)
{
    static struct h1_head head;
    for (int answer = 0; answer < 2; answer++) {
        int whole = parse(&head, text, len, answer);
        if (whole > 0)
            follow_body(&head, text + head.len, len - head.len, step);
        size_t need = whole > 0 ? head.len : len;
        for (size_t n = 0; n < need; n += step) {
            int got = parse(&head, text, n, answer);
            assert(got == 0 || (got < 0 && whole < 0));
        }
    }
}

// --- an exchange

struct world {
    uv_loop_t loop;
    struct exchange *x;
    int client, up; // our ends
    struct buf heard, got;
    unsigned asked;
    bool closed, tunnel;
};

// What one upstream got: whole requests, and perhaps the beginning of one.
static void check_requests(struct world *w)
{
    static struct h1_head head;
    size_t at = 0;
    while (at < w->got.len && !w->tunnel) {
        int got = parse(&head, w->got.data + at, w->got.len - at, 0);
        assert(got >= 0);
        if (got == 0)
            break;
        struct h1_framing body;
        h1_framing_init(&body, &head);
        at += head.len;
        at += h1_framing_feed(&body, w->got.data + at, w->got.len - at);
        assert(!body.bad);
        w->tunnel = head.upgrade;
    }
    buf_reset(&w->got);
}

static void drain(int fd, struct buf *to)
{
    char data[4096];
    ssize_t n;
    while (fd >= 0 && (n = read(fd, data, sizeof data)) > 0)
        assert(buf_append(to, data, (size_t)n) == 0);
}

static void request(void *data, struct exchange *x, const struct h1_head *h)
{
    struct world *w = data;
    auto_buf head;
    buf_init(&head, 64 * 1024);
    w->asked++;
    (void)buf_printf(&head, "%.*s %.*s HTTP/1.1\r\nHost: x\r\n", (int)h->method.len, h->method.at,
                     (int)h->target.len, h->target.at);
    exchange_framing(x, h, &head);
    (void)buf_append_str(&head, "\r\n");
    if (exchange_upstream_is_open(x)) {
        exchange_forward(x, &head, NULL);
        return;
    }
    drain(w->up, &w->got);
    check_requests(w);
    fd_close(w->up);
    int pair[2];
    assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    w->up = pair[0];
    struct upstream up = {.fd = pair[1]};
    exchange_forward(x, &head, &up);
}

static void closed(void *data)
{
    ((struct world *)data)->closed = true;
}

static void turn(struct world *w)
{
    for (int i = 0; i < 4; i++) {
        uv_run(&w->loop, UV_RUN_NOWAIT);
        drain(w->client, &w->heard);
        drain(w->up, &w->got);
    }
}

// The client understands what it hears; what comes in the middle of a message is that one's.
static void check_answers(const struct world *w)
{
    static struct h1_head head;
    size_t at = 0;
    while (at < w->heard.len) {
        int got = parse(&head, w->heard.data + at, w->heard.len - at, 1);
        assert(got >= 0);
        if (got == 0 || head.status == 101 || head.body == H1_TO_END)
            break;
        struct h1_framing body;
        h1_framing_init(&body, &head);
        at += head.len;
        at += h1_framing_feed(&body, w->heard.data + at, w->heard.len - at);
        assert(!body.bad);
        if (head.length > 0 && head.body == H1_NO_BODY)
            break; // 304 or HEAD: parsed as an answer to GET here
    }
}

// Records: a byte that says who and how much, and the bytes.
static void talk(struct world *w, const char *data, size_t len)
{
    for (size_t at = 0; at < len && !w->closed;) {
        unsigned what = (unsigned char)data[at++];
        size_t n = what >> 1 < len - at ? what >> 1 : len - at;
        int *fd = (what & 1) != 0 ? &w->up : &w->client;
        if (n == 0 && (what & 1) != 0) {
            drain(w->up, &w->got);
            fd_close(*fd);
            *fd = -1;
        } else if (*fd >= 0 && n > 0) {
            (void)send(*fd, data + at, n, MSG_NOSIGNAL);
        }
        at += n;
        turn(w);
    }
}

static void exchange(const char *data, size_t len)
{
    static const struct exchange_ops ops = {.request = request, .closed = closed};
    struct world w = {.up = -1};
    int pair[2];
    uv_loop_init(&w.loop);
    buf_init(&w.heard, 1 << 20);
    buf_init(&w.got, 1 << 20);
    assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    w.client = pair[0];
    w.x = exchange_start(&(struct exchange_config){
        .loop = &w.loop, .client = pair[1], .ops = &ops, .data = &w, .idle_ms = 60000});
    assert(w.x != NULL);
    talk(&w, data, len);
    turn(&w);
    check_requests(&w);
    if (memmem(data, len, "HEAD", 4) == NULL) // whose answers need to know what was asked
        check_answers(&w);
    if (!w.closed)
        exchange_stop(w.x);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert(uv_loop_close(&w.loop) == 0);
    fd_close(w.client);
    fd_close(w.up);
    buf_done(&w.heard);
    buf_done(&w.got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 8192)
        return 0;
    const char *text = (const char *)data + 1;
    if (data[0] < 128)
        heads(text, size - 1, data[0] % 61 + 1);
    else
        exchange(text, size - 1);
    return 0;
}
