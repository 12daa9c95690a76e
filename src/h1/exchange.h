// SPDX-License-Identifier: Apache-2.0
// Forwards HTTP/1.1 messages between two sockets on the loop: reads requests from a client, has the
// owner decide where each goes and what its head becomes, sends it on, and brings the answer back,
// its head rewritten by the owner too. Bodies stream through in both directions within bounded
// memory: nobody is read faster than the other side takes. Keeps connections open on both sides
// where both allow it. After a 101 both are plain byte streams.
//
// An exchange serves one client connection, request after request. All on the loop's thread.
#pragma once

#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "h1/head.h"

struct exchange;

// A stream of bytes that is not a plain socket (TLS). All functions as read(2), write(2) on a
// non-blocking descriptor: bytes, 0 at the end (read), or -errno; -EAGAIN sets what it waits for.
struct stream_ops {
    ssize_t (*read)(void *stream, void *data, size_t len);
    ssize_t (*write)(void *stream, const void *data, size_t len);
    int (*waits_for)(
        void *stream);           // UV_READABLE and/or UV_WRITABLE on the descriptor, after -EAGAIN
    void (*close)(void *stream); // frees it; the descriptor stays
};

struct upstream {
    int fd; // connected or connecting, non-blocking; the exchange's from now on
    const struct stream_ops *ops; // NULL: plain
    void *stream;
};

enum exchange_way { EXCHANGE_REQUEST, EXCHANGE_ANSWER };

struct exchange_ops {
    // A request's head has come. The owner decides, now or later, by exactly one of
    // exchange_forward, exchange_refuse, exchange_refuse_raw, exchange_release and exchange_stop.
    // The head lives until then. It is called a second time for the same request when a kept
    // upstream turns out to have been closed meanwhile, and nothing is lost by asking again; none
    // is open then.
    void (*request)(void *data, struct exchange *x, const struct h1_head *head);
    // An answer's head has come: append what the client shall get (status line, fields, empty line)
    // to `ret`. NULL: the standard (all but hop-by-hop fields). -1 and err: a 502 with its text.
    // exchange_framing must be used for its framing fields. Interim answers (status 100 to 199)
    // come here too.
    int (*answer)(void *data, struct exchange *x, const struct h1_head *head, struct buf *ret,
                  struct err *err);
    // The upstream could not be reached, broke off or spoke nonsense before an answer began: append
    // a whole answer (head and body) for the client. NULL: a plain 502.
    void (*failed)(void *data, struct exchange *x, const struct err *err, struct buf *ret);
    // Bytes of one message pair have moved (for counting and for activity); may be NULL. Not 0:
    // stop at once.
    int (*moved)(void *data, uint64_t to_upstream, uint64_t to_client);
    // Bytes of a body as it passes, without the frame of its chunks, before the other side gets
    // them; may be NULL. `len` 0, of answers: that was all of it, also where there is none. Not 0:
    // it is cut off here, and the other side sees that it is not whole.
    int (*payload)(void *data, enum exchange_way way, const void *bytes, size_t len);
    // The client's connection is over and closed. The exchange is freed after this.
    void (*closed)(void *data);
};

struct exchange_config {
    uv_loop_t *loop;
    int client; // non-blocking, the exchange's from now on
    // What was read from it already, copied: whole heads, parts of them, bodies.
    const void *early;
    size_t early_len;
    const struct exchange_ops *ops;
    void *data;
    int64_t idle_ms; // a client without a request, or one that takes or sends nothing, is closed
};

// Calls back later, never from within. NULL: the socket cannot be watched; it is closed.
struct exchange *exchange_start(const struct exchange_config *config);
// The next four may call back before they return. `head`: what the upstream gets (request line,
// fields, empty line), copied; its framing fields by exchange_framing. `up` NULL: the upstream of
// the request before, which is still open (exchange_upstream_is_open). Another one closes that.
void exchange_forward(struct exchange *x, const struct buf *head, const struct upstream *up);
bool exchange_upstream_is_open(const struct exchange *x);
// Answers by itself. What is left of the request's body is not read: the connection closes after it
// unless the request had none.
void exchange_refuse(struct exchange *x, unsigned status, const char *type, const char *body);
// As above with a whole head and body of the owner's.
void exchange_refuse_raw(struct exchange *x, const struct buf *answer);
// The client's connection closes after the answer to this request. The answer says so when this is
// called before its head was written.
void exchange_close_after(struct exchange *x);
// Instead of an answer: hands over the client's socket, and what was read of it behind the
// request's head (appended to `ret_early`). The exchange is over; `closed` is not called. For
// CONNECT.
int exchange_release(struct exchange *x, struct buf *ret_early);
// Appends Content-Length or Transfer-Encoding as the message goes on to the other side, and
// Connection where it has one; for upgrades Connection and Upgrade. For requests and answers.
void exchange_framing(const struct exchange *x, const struct h1_head *head, struct buf *ret);
// Appends a whole answer to the request at hand: with its length, without a body where it is a
// HEAD.
void exchange_write_answer(const struct exchange *x, struct buf *ret, unsigned status,
                           const char *type, const char *body);
// The same with fields of the owner's own, each a line with its CR LF.
void exchange_write_answer_with(const struct exchange *x, struct buf *ret, unsigned status,
                                const char *type, const char *fields, const char *body);
// Between two requests, or after a 101: nobody waits for an answer.
bool exchange_is_idle(const struct exchange *x);
// Ends it: both sockets are closed at once, `closed` is called before it returns.
void exchange_stop(struct exchange *x);
