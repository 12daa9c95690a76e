// SPDX-License-Identifier: Apache-2.0
#include "cli/ws.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"

enum {
    HEAD_MAX = 14,
    SMALL = 125, // lengths above it are in 2 or 8 more bytes
    LENGTH_16 = 126,
    LENGTH_64 = 127,
    READ_SIZE = 64 * 1024,
    CODE_NONE = 1005,
};

void ws_link_init(struct ws_link *link, int fd)
{
    *link = (struct ws_link){.fd = fd};
    buf_init(&link->in, WS_LINK_MESSAGE_MAX + HEAD_MAX + READ_SIZE);
    buf_init(&link->message, WS_LINK_MESSAGE_MAX);
    buf_init(&link->out, WS_LINK_OUT_MAX);
    (void)fd_set_nonblock(fd, 1);
}

void ws_link_done(struct ws_link *link)
{
    fd_close(TAKE_FD(link->fd));
    buf_done(&link->in);
    buf_done(&link->message);
    buf_done(&link->out);
}

size_t ws_link_waiting(const struct ws_link *link)
{
    return link->out.len - link->out_at;
}

void ws_make_key(char ret[static 25])
{
    unsigned char bytes[16] = {0};
    auto_buf text;
    buf_init(&text, 24);
    (void)getrandom(bytes, sizeof bytes, 0);
    (void)base64_append(&text, bytes, sizeof bytes);
    (void)snprintf(ret, 25, "%s", buf_str(&text));
}

// -- out

static size_t put_head(unsigned char *head, enum ws_opcode opcode, size_t len)
{
    size_t n = 2;
    head[0] = (unsigned char)(0x80 | opcode);
    if (len <= SMALL) {
        head[1] = (unsigned char)len;
    } else {
        unsigned more = len <= UINT16_MAX ? 2 : 8;
        head[1] = more == 2 ? LENGTH_16 : LENGTH_64;
        for (unsigned i = more; i-- > 0;)
            head[n++] = (unsigned char)((uint64_t)len >> (8 * i));
    }
    head[1] |= 0x80;
    return n;
}

// The mask keeps what a page in a browser sends from looking like something else on its way; here
// it is there because the protocol asks for it.
void ws_link_send(struct ws_link *link, enum ws_opcode opcode, const void *data, size_t len)
{
    unsigned char head[HEAD_MAX], mask[4] = {0};
    char *at;
    size_t room, n = put_head(head, opcode, len);
    (void)getrandom(mask, sizeof mask, 0);
    memcpy(head + n, mask, sizeof mask);
    (void)buf_append(&link->out, head, n + sizeof mask);
    if (buf_reserve(&link->out, len, &at, &room) < 0 || room < len) {
        link->out.failed = -E2BIG;
        return;
    }
    for (size_t i = 0; i < len; i++)
        at[i] = (char)(((const unsigned char *)data)[i] ^ mask[i % 4]);
    buf_commit(&link->out, len);
}

static int lost(struct err *err)
{
    return err_set(err, ERR_UNAVAILABLE, "the connection broke");
}

int ws_link_flush(struct ws_link *link, struct err *err)
{
    if (link->out.failed != 0)
        return err_set(err, ERR_EXHAUSTED, "too much was typed before the server took it");
    while (ws_link_waiting(link) > 0) {
        ssize_t n =
            send(link->fd, link->out.data + link->out_at, ws_link_waiting(link), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : lost(err);
        link->out_at += (size_t)n;
    }
    buf_reset(&link->out);
    link->out_at = 0;
    return 0;
}

// -- in

struct frame {
    bool fin;
    enum ws_opcode opcode;
    const char *data;
    size_t len;
};

static int bad(struct err *err)
{
    return err_set(err, ERR_INTERNAL, "what answered does not speak WebSocket as it should");
}

// The first frame of `link->in`: how many bytes it takes, 0 when it is not complete, or -1.
static ssize_t read_frame(const struct ws_link *link, struct frame *ret, struct err *err)
{
    const unsigned char *in = (const unsigned char *)link->in.data;
    size_t have = link->in.len, at = 2;
    if (have < 2)
        return 0;
    uint64_t len = in[1];
    if ((in[0] & 0x70) != 0 || len > LENGTH_64) // reserved bits; a mask, which a server has not
        return bad(err);
    if (len > SMALL) {
        size_t more = len == LENGTH_16 ? 2 : 8;
        if (have < at + more)
            return 0;
        for (len = 0; at < 2 + more; at++)
            len = len << 8 | in[at];
    }
    if (len > WS_LINK_MESSAGE_MAX)
        return bad(err);
    if (have < at + len)
        return 0;
    *ret = (struct frame){(in[0] & 0x80) != 0, (enum ws_opcode)(in[0] & 0x0f), link->in.data + at,
                          (size_t)len};
    return (ssize_t)(at + len);
}

static int take_piece(struct ws_link *link, const struct frame *f, ws_message_fn fn, void *data,
                      struct err *err)
{
    if ((f->opcode == WS_CONTINUE) != link->in_message)
        return bad(err);
    if (f->fin && !link->in_message)
        return fn(data, f->opcode, f->data, f->len, err) != 0 ? -1 : 0;
    if (!link->in_message)
        link->kind = f->opcode;
    link->in_message = true;
    if (buf_append(&link->message, f->data, f->len) < 0)
        return bad(err);
    if (!f->fin)
        return 0;
    int r = fn(data, link->kind, link->message.data, link->message.len, err);
    link->in_message = false;
    buf_reset(&link->message);
    return r != 0 ? -1 : 0;
}

static int take_frame(struct ws_link *link, const struct frame *f, ws_message_fn fn, void *data,
                      struct err *err)
{
    switch (f->opcode) {
    case WS_CONTINUE:
    case WS_TEXT:
    case WS_BINARY:
        return take_piece(link, f, fn, data, err);
    case WS_PING:
        ws_link_send(link, WS_PONG, f->data, f->len);
        return 0;
    case WS_PONG:
        return 0;
    case WS_CLOSE:
        link->closed = f->len >= 2
                           ? (unsigned)(unsigned char)f->data[0] << 8 | (unsigned char)f->data[1]
                           : CODE_NONE;
        ws_link_send(link, WS_CLOSE, f->data, f->len >= 2 ? 2 : 0);
        return err_set(err, ERR_UNAVAILABLE, "the server has closed the connection");
    }
    return bad(err);
}

static int take_frames(struct ws_link *link, ws_message_fn fn, void *data, struct err *err)
{
    struct frame f = {0};
    ssize_t n;
    while ((n = read_frame(link, &f, err)) > 0) {
        int r = take_frame(link, &f, fn, data, err);
        buf_consume(&link->in, (size_t)n);
        if (r < 0)
            return -1;
    }
    return n < 0 ? -1 : 0;
}

int ws_link_read(struct ws_link *link, ws_message_fn fn, void *data, struct err *err)
{
    char *at;
    size_t room;
    if (buf_reserve(&link->in, READ_SIZE, &at, &room) < 0 || room == 0)
        return bad(err);
    ssize_t n = read(link->fd, at, room);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return lost(err);
    buf_commit(&link->in, (size_t)n);
    return take_frames(link, fn, data, err);
}
