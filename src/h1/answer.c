// SPDX-License-Identifier: Apache-2.0
// The upstream's half: answers' heads as the client gets them, and bodies on their way to it.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "h1/exchange-internal.h"

// --- heads

static void append_text(struct buf *ret, struct h1_text text)
{
    (void)buf_append(ret, text.at, text.len);
}

static void frame_request(const struct h1_head *head, struct buf *ret)
{
    if (head->upgrade)
        (void)buf_append_str(ret, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
    else if (head->body == H1_LENGTH)
        (void)buf_printf(ret, "Content-Length: %llu\r\n", (unsigned long long)head->length);
    else if (head->body == H1_CHUNKED)
        (void)buf_append_str(ret, "Transfer-Encoding: chunked\r\n");
}

static void frame_answer(const struct exchange *x, const struct h1_head *head, struct buf *ret)
{
    if (head->status == 101) {
        (void)buf_append_str(ret, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
        return;
    }
    if (head->status < 200)
        return;
    bool tells =
        head->body == H1_NO_BODY && head->status != 204 && h1_find(head, "Content-Length") != NULL;
    if (head->body == H1_LENGTH || tells)
        (void)buf_printf(ret, "Content-Length: %llu\r\n", (unsigned long long)head->length);
    else if (head->body != H1_NO_BODY && !x->client_old)
        (void)buf_append_str(ret, "Transfer-Encoding: chunked\r\n");
    if (x->close_client)
        (void)buf_append_str(ret, "Connection: close\r\n");
}

void exchange_framing(const struct exchange *x, const struct h1_head *head, struct buf *ret)
{
    if (head->status == 0)
        frame_request(head, ret);
    else
        frame_answer(x, head, ret);
}

static const char *reason_of(unsigned status)
{
    static const struct {
        unsigned status;
        const char *text;
    } reasons[] = {
        {200, "OK"                             },
        {400, "Bad Request"                    },
        {401, "Unauthorized"                   },
        {402, "Payment Required"               },
        {403, "Forbidden"                      },
        {404, "Not Found"                      },
        {405, "Method Not Allowed"             },
        {421, "Misdirected Request"            },
        {429, "Too Many Requests"              },
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"          },
        {502, "Bad Gateway"                    },
        {503, "Service Unavailable"            },
        {504, "Gateway Timeout"                },
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (reasons[i].status == status)
            return reasons[i].text;
    }
    return "";
}

void exchange_write_answer_with(const struct exchange *x, struct buf *ret, unsigned status,
                                const char *type, const char *fields, const char *body)
{
    size_t len = strlen(body);
    bool close = x->close_client || x->has_body;
    (void)buf_printf(ret, "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s%s\r\n",
                     status, reason_of(status), type, len, fields,
                     close ? "Connection: close\r\n" : "");
    if (!x->is_head)
        (void)buf_append(ret, body, len);
}

void exchange_write_answer(const struct exchange *x, struct buf *ret, unsigned status,
                           const char *type, const char *body)
{
    exchange_write_answer_with(x, ret, status, type, "", body);
}

static void append_standard(const struct exchange *x, const struct h1_head *head, struct buf *ret)
{
    (void)buf_printf(ret, "HTTP/1.1 %u ", head->status);
    append_text(ret, head->reason);
    (void)buf_append_str(ret, "\r\n");
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct h1_field *f = &head->fields[i];
        if (h1_is(f->name, "Content-Length") || h1_is_hop_by_hop(head, f->name))
            continue;
        append_text(ret, f->name);
        (void)buf_append_str(ret, ": ");
        append_text(ret, f->value);
        (void)buf_append_str(ret, "\r\n");
    }
    exchange_framing(x, head, ret);
    (void)buf_append_str(ret, "\r\n");
}

static int append_head(struct exchange *x, struct err *err)
{
    struct buf *lead = &x->to_client.lead;
    if (x->ops->answer != NULL) {
        if (x->ops->answer(x->data, x, &x->answer, lead, err) < 0)
            return -1;
    } else {
        append_standard(x, &x->answer, lead);
    }
    if (lead->failed != 0)
        return err_set(err, ERR_UNAVAILABLE, "its head is too long");
    return 0;
}

// An answer has begun: the request will not be asked again, and its head may go.
static void release_request(struct exchange *x)
{
    size_t held = x->to_up.held;
    x->to_up.held = 0;
    if (held > 0)
        lane_skip(&x->to_up, held);
}

static void begin_body(struct exchange *x)
{
    h1_framing_init(&x->answer_body, &x->answer);
    x->convert = AS_IT_IS;
    x->payload_ended = false;
    if (x->answer.body == H1_TO_END && !x->client_old)
        x->convert = INTO_CHUNKS;
    else if (x->answer.body == H1_CHUNKED && x->client_old)
        x->convert = OUT_OF_CHUNKS;
    x->state = X_BODY;
}

static void begin_tunnel(struct exchange *x)
{
    x->state = X_TUNNEL;
    x->to_up.ready = lane_len(&x->to_up);
    x->to_client.ready = lane_len(&x->to_client);
}

static void interim(struct exchange *x)
{
    if (++x->n_interim > INTERIM_MAX)
        exchange_fail(x, 0, "it says that there will be an answer, and never gives one");
}

static void pass_head(struct exchange *x)
{
    bool is_interim = x->answer.status < 200 && x->answer.status != 101;
    if (x->answer.status == 101 && !x->request.upgrade) {
        exchange_fail(x, 0, "it changes to a protocol that nobody asked for");
        return;
    }
    struct err err;
    // RFC 9110, 15.2: HTTP/1.0 knows no such thing.
    if (!(is_interim && x->client_old) && append_head(x, &err) < 0) {
        exchange_fail(x, 0, err.msg);
        return;
    }
    if (x->state == X_DEAD)
        return;
    lane_skip(&x->to_client, x->answer.len);
    x->looked = 0;
    if (is_interim)
        interim(x);
    else if (x->answer.status == 101)
        begin_tunnel(x);
    else
        begin_body(x);
}

static bool no_answer(struct exchange *x)
{
    if (x->up != NULL && !x->up->eof)
        return false;
    exchange_fail(x, 0, NULL);
    return true;
}

bool exchange_take_answer(struct exchange *x)
{
    struct lane *lane = &x->to_client;
    size_t len = lane_len(lane);
    if (lane_has_output(lane)) // an interim answer that the client does not take
        return false;
    if (len == x->looked)
        return no_answer(x);
    release_request(x);
    if (memchr(lane->data + lane->start + x->looked, '\n', len - x->looked) == NULL &&
        len < H1_HEAD_MAX) {
        x->looked = len;
        return false;
    }
    const char *why;
    struct h1_text method = {x->is_head ? "HEAD" : "", x->is_head ? 4 : 0};
    int got = h1_parse_answer(&x->answer, lane->data + lane->start, len, method, &why);
    if (got == 0)
        x->looked = len;
    else if (got < 0)
        exchange_fail(x, 0, why);
    else
        pass_head(x);
    return got != 0 || no_answer(x);
}

// --- bodies

// False: the owner has had enough of it.
static bool show(struct exchange *x, const char *data, size_t len)
{
    if (x->ops->payload == NULL || x->ops->payload(x->data, EXCHANGE_ANSWER, data, len) == 0)
        return true;
    exchange_cut(x);
    return false;
}

// All that has come is one chunk.
static bool into_chunks(struct exchange *x)
{
    struct lane *lane = &x->to_client;
    size_t len = lane_fresh_len(lane);
    bool ends = x->up == NULL || x->up->eof;
    if (lane->ready > 0 || (len == 0 && !ends) || x->answer_body.done)
        return false;
    if (len > 0) {
        if (!show(x, lane_fresh(lane), len))
            return true;
        (void)buf_printf(&lane->lead, "%zx\r\n", len);
        memcpy(lane->data + lane->end, "\r\n", CHUNK_END);
        lane->end += CHUNK_END;
        lane->ready = len + CHUNK_END;
    } else if (x->up_errno != 0) {
        exchange_fail(x, x->up_errno, NULL);
    } else {
        (void)buf_append_str(&lane->lead, "0\r\n\r\n");
        x->answer_body.done = true;
    }
    return true;
}

static bool out_of_chunks(struct exchange *x)
{
    struct lane *lane = &x->to_client;
    bool is_data, moved = false;
    while (lane_fresh_len(lane) > 0 && !x->answer_body.done && !x->answer_body.bad) {
        bool next_is_data = h1_framing_in_data(&x->answer_body);
        if (!next_is_data && lane->ready > 0)
            break; // what is around a chunk is cut out when all before it has gone
        const char *at = lane_fresh(lane);
        size_t n = h1_framing_next(&x->answer_body, at, lane_fresh_len(lane), &is_data);
        if (is_data && n > 0 && !show(x, at, n))
            return true;
        if (is_data)
            lane->ready += n;
        else
            lane_skip(lane, n);
        moved |= n > 0;
    }
    return moved;
}

static bool as_it_is(struct exchange *x)
{
    struct lane *lane = &x->to_client;
    size_t len = lane_fresh_len(lane);
    if (len == 0 || x->answer_body.done)
        return false;
    size_t n;
    if (!exchange_feed_body(x, EXCHANGE_ANSWER, &x->answer_body, lane_fresh(lane), len, &n))
        return true;
    lane->ready += n;
    return n > 0;
}

// The upstream has ended. True: something comes of it.
static bool ended(struct exchange *x)
{
    if (x->up != NULL && !x->up->eof)
        return false;
    if (x->answer_body.done || lane_fresh_len(&x->to_client) > 0)
        return false;
    if (x->answer_body.body == H1_TO_END && x->up_errno == 0) {
        x->answer_body.done = true;
        return true;
    }
    if (lane_has_output(&x->to_client) && x->begun)
        return false; // what there is of it is passed on first
    exchange_fail(x, x->up_errno, x->up_errno == 0 ? "it ended too early" : NULL);
    return true;
}

static bool feed(struct exchange *x)
{
    bool moved = false;
    switch (x->convert) {
    case AS_IT_IS:
        moved = as_it_is(x);
        break;
    case INTO_CHUNKS:
        return into_chunks(x);
    case OUT_OF_CHUNKS:
        moved = out_of_chunks(x);
        break;
    }
    if (x->state == X_DEAD)
        return true;
    if (x->answer_body.bad) {
        exchange_fail(x, 0, "its body is not chunked as it says");
        return true;
    }
    return moved || ended(x);
}

bool exchange_feed_answer(struct exchange *x)
{
    bool moved = feed(x);
    if (x->state == X_BODY && x->answer_body.done && !x->payload_ended) {
        x->payload_ended = true;
        (void)show(x, NULL, 0);
    }
    return moved || x->state == X_DEAD;
}

// --- after a 101

// Says to one side that the other has ended. True: done now.
static bool pass_end(struct side *from, struct side *to, const struct lane *lane)
{
    if (!from->eof || to->shut || lane_len(lane) > 0 || lane_has_output(lane))
        return false;
    to->shut = true;
    (void)shutdown(to->fd, SHUT_WR);
    return true;
}

bool exchange_tunnel(struct exchange *x)
{
    x->to_up.ready = lane_len(&x->to_up);
    x->to_client.ready = lane_len(&x->to_client);
    bool broken = x->up_errno != 0 && !lane_has_output(&x->to_client);
    bool moved = pass_end(x->client, x->up, &x->to_up);
    moved |= pass_end(x->up, x->client, &x->to_client);
    bool half_tls = x->up->ops != NULL && (x->up->shut || x->client->shut);
    if (broken || half_tls || (x->up->shut && x->client->shut)) {
        exchange_stop(x);
        return true;
    }
    return moved;
}
