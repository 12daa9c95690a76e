// SPDX-License-Identifier: Apache-2.0
// An exchange from the inside: two sides (sockets), two lanes (bytes on their way from one to the
// other), and what is going on.
//
// Nothing is read before it can be kept, and a lane keeps at most LANE_SIZE: so whoever does not
// take stops whoever sends. Sockets are tried before they are waited for, and what a poll watches
// is changed only when it must be: a request costs read, write, read, write.
#pragma once

#include "h1/exchange.h"

enum {
    LANE_SIZE = 64 * 1024,
    CHUNK_END = 2,          // there is always room behind that for the end of a chunk
    LEAD_MAX = 64 * 1024,   // a head, or an answer of the owner's
    INTERIM_MAX = 32,       // 1xx answers to one request
    ROUNDS_MAX = 32,        // of reading and writing for one exchange before others have their turn
    LINGER_MS = 2000,       // a client that was refused in the middle of a body hears why
    LINGER_BYTES = 1 << 24, // and may send so much meanwhile
};

// --- a socket

struct side {
    uv_poll_t poll;
    struct exchange *x; // NULL: closed
    int fd;
    const struct stream_ops *ops;
    void *stream;
    int armed;                // what the poll watches
    bool can_read, can_write; // as far as is known
    bool eof;                 // it says nothing more
    bool shut;                // and we have told it that nothing more comes
};

struct side *side_open(struct exchange *x, int fd, const struct stream_ops *ops, void *stream);
void side_close(struct side *side);  // takes NULL
int side_release(struct side *side); // as above, but the descriptor stays open and is handed out
// Bytes, 0 at the end, or -errno. -EAGAIN: can_read, can_write tell so.
ssize_t side_read(struct side *side, void *data, size_t len);
ssize_t side_write(struct side *side, const struct iovec *parts, int n);
void side_arm(struct side *side, bool wants_read, bool wants_write);
bool side_is_stale(struct side *side); // has ended, or says something unasked

// --- bytes on their way

struct lane {
    char *data; // NULL until the first byte
    size_t cap, start, end;
    size_t held;     // at the start: the head of a request that may have to be read again
    size_t ready;    // behind that: may be written
    struct buf lead; // written before those
    size_t lead_at;
};

void lane_init(struct lane *lane);
void lane_done(struct lane *lane);
void lane_clear(struct lane *lane);  // nothing in it, memory kept
void lane_shrink(struct lane *lane); // gives memory back where it is empty
// Where to read to. 0: full.
size_t lane_room(struct lane *lane, char **ret_at);
void lane_skip(struct lane *lane, size_t n); // drops the first bytes, none of which is ready
static inline size_t lane_len(const struct lane *lane)
{
    return lane->end - lane->start;
}
static inline const char *lane_fresh(const struct lane *lane) // not looked at yet
{
    return lane->data + lane->start + lane->held + lane->ready;
}
static inline size_t lane_fresh_len(const struct lane *lane)
{
    return lane_len(lane) - lane->held - lane->ready;
}
static inline bool lane_has_output(const struct lane *lane)
{
    return lane->ready > 0 || lane->lead_at < lane->lead.len;
}
// Writes what is ready; bytes, 0 when nothing could be, or -errno.
ssize_t lane_write(struct lane *lane, struct side *to);

// --- all of it

enum exchange_state {
    X_HEAD,   // waits for a request's head
    X_ASKED,  // the owner decides
    X_ANSWER, // the request is on its way; waits for an answer's head
    X_BODY,   // the answer's body passes through
    X_FLUSH,  // an answer of our own is being written
    X_TUNNEL, // after a 101: bytes
    X_LINGER, // all is said; what the client still sends is for nobody
    X_DEAD,
};

// How an answer's body becomes the client's.
enum exchange_convert {
    AS_IT_IS,
    INTO_CHUNKS,   // it ends with its connection, and the client's shall stay
    OUT_OF_CHUNKS, // for HTTP/1.0
};

struct exchange {
    uv_timer_t tick;
    uv_loop_t *loop;
    const struct exchange_ops *ops;
    void *data;
    int64_t idle_ms;
    enum exchange_state state;
    struct side *client, *up;     // up: NULL when there is none
    struct lane to_up, to_client; // the first is what was read from the client
    struct h1_head request, answer;
    struct h1_framing request_body, answer_body;
    size_t looked;                   // bytes of an incomplete head that were parsed in vain
    uint64_t last, head_since;       // uv_now: something moved; a request's first byte
    uint64_t moved_up, moved_client; // not yet told
    uint64_t lingered;
    unsigned n_interim;
    int up_errno; // the first that went wrong with it
    enum exchange_convert convert;
    bool is_head, is_safe, has_body; // of the request; is_safe: asking twice is no harm
    bool client_old;                 // HTTP/1.0
    bool close_client;               // after this answer
    bool begun;                      // some of the final answer is with the client
    bool reused, retried, ask_again;
    bool pumping, kicked;
    bool payload_ended; // the owner was told that the answer is whole
};

void exchange_pump(struct exchange *x);
// Both sockets are closed, and the client sees that the answer is not whole.
void exchange_cut(struct exchange *x);
// As h1_framing_feed, and shows the owner what is the body's own. False: the exchange is over.
bool exchange_feed_body(struct exchange *x, enum exchange_way way, struct h1_framing *body,
                        const char *data, size_t len, size_t *ret);
void exchange_kick(struct exchange *x); // pumps soon, from the loop
// The upstream is of no use any more.
void exchange_drop_up(struct exchange *x);
// The answer cannot be had. `why` NULL: x->up_errno tells.
void exchange_fail(struct exchange *x, int sys_errno, const char *why);
// Writes what is in to_client's lead, and is then done with the request.
void exchange_flush(struct exchange *x);
// Steps of a state; true: something has happened.
bool exchange_take_request(struct exchange *x);
bool exchange_feed_request(struct exchange *x);
bool exchange_take_answer(struct exchange *x);
bool exchange_feed_answer(struct exchange *x);
bool exchange_end_answer(struct exchange *x);
void exchange_ask(struct exchange *x);
bool exchange_tunnel(struct exchange *x);
