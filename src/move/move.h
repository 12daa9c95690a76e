// SPDX-License-Identifier: Apache-2.0
// Moves bytes between descriptors on threads of its own, so that a cold file or a full disk stops
// nobody on the loop. A mover has a few threads; each waits for the sockets and pipes of its
// transfers with epoll and blocks only where the kernel offers nothing else: in reading and writing
// files. Bytes go by sendfile and splice where they need not be looked at.
//
// Everything is started, cancelled and told on the loop's thread. Descriptors are the caller's: it
// must not touch them between the start and `done`, and closes them afterwards. Sockets and pipes
// must be non-blocking. `done` is called exactly once, on the loop, never from within the call that
// started it; not after a cancel. A descriptor is in one move or relay at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/err.h"

struct mover;
struct move;  // one direction
struct relay; // two sockets, both directions

int mover_open(uv_loop_t *loop, unsigned n_threads, struct mover **ret, struct err *err);
// Cancels what runs, without a word to those who did not cancel it themselves: when this returns,
// no thread touches their descriptors. Memory goes when the loop has run once more.
void mover_close(struct mover *mover);
unsigned mover_running(const struct mover *mover);

enum move_why {
    MOVE_COMPLETE,    // `length` bytes, or all until the source's end when no length was given
    MOVE_ENDED_EARLY, // the source ended before
    MOVE_FROM_FAILED, // reading: sys_errno
    MOVE_TO_FAILED,   // writing: sys_errno (EPIPE, ECONNRESET: the other side is gone; EDQUOT,
                      // ENOSPC)
    MOVE_BAD_CHUNKS,  // the body is not chunked as it says
    MOVE_STALLED,     // nothing moved for `stall_ms`
    MOVE_CAPPED,      // relays: `max_bytes` were moved
    MOVE_WHY_MAX,
};

struct move_result {
    enum move_why why;
    int sys_errno;
    uint64_t bytes; // that reached `to`, decoded; without a `first` that is no body
    // Of a `first` that is body: how many bytes belonged to it. The rest is behind the body's end,
    // and was not written.
    size_t first_used;
};

enum { MOVE_NO_OFFSET = -1 };
#define MOVE_TO_END UINT64_MAX

struct move_config {
    int from, to;
    int64_t from_offset; // of a regular file; MOVE_NO_OFFSET: a socket or a pipe
    int64_t to_offset;
    uint64_t length; // MOVE_TO_END: until the source ends. Of no account when `chunked`
    // Bytes that go to `to` before all others, copied: an answer's head, or the beginning of a body
    // that was read already (`first_is_body`: part of `length`, and of what is decoded when
    // `chunked`). With a head, a file's beginning goes in the same packet.
    const void *first;
    size_t first_len;
    bool first_is_body;
    bool chunked; // `from` (and a `first` that is body) is an HTTP/1.1 chunked body: decode it.
                  // Nothing behind its end is read. No trailer, no extension
    // `to` gets the body (not `first`) in chunks of HTTP/1.1, without the last one: whoever knows
    // that the source has not failed writes "0\r\n\r\n". Not with `chunked`. A result's `bytes` are
    // then with the chunks' sizes.
    bool to_chunked;
    uint64_t max_bytes; // 0: any. More of a body whose length is not known (MOVE_TO_END, chunked)
                        // is MOVE_FROM_FAILED with EFBIG
    uint64_t rate;      // bytes a second; 0: any
    int64_t stall_ms;   // 0: for ever
    void (*done)(void *data, const struct move_result *result);
    void *data;
};
// NULL and err when it cannot be started: a blocking socket or pipe, a descriptor of another kind.
struct move *move_start(struct mover *mover, const struct move_config *config, struct err *err);
uint64_t move_bytes(const struct move *move); // so far; any time before `done`
// `done` is not called, but `stopped` (may be NULL), later and on the loop, when no thread touches
// the descriptors any more.
void move_cancel(struct move *move, void (*stopped)(void *data), void *data);

struct relay_result {
    enum move_why why; // MOVE_COMPLETE: both sides have ended. A side that takes no more
                       // (MOVE_TO_FAILED) is read to its end first
    int sys_errno;
    uint64_t a_to_b, b_to_a;
};

// What several relays share: a sandbox's whole traffic. The owner sets it up (zeros: no limit) and
// may change the limits at any time; relays of all threads look at each turn.
struct relay_share {
    _Atomic uint64_t counted;   // bytes of both directions, as they move; only grows
    _Atomic uint64_t max_bytes; // when `counted` gets there every relay ends: MOVE_CAPPED. 0: any
    _Atomic uint64_t rate;      // bytes a second of all together; 0: any
    // The moment (clock_ns) up to which the rate is used up. Whoever has moved n bytes adds n/rate
    // to it (or to now, if that is later), and moves nothing while it lies ahead of now.
    _Atomic int64_t paid_until_ns;
};

struct relay_config {
    int a, b; // connected sockets
    // What was read from either side already, copied: written to the other side first.
    const void *from_a, *from_b;
    size_t from_a_len, from_b_len;
    uint64_t max_bytes; // of both directions together; 0: any
    uint64_t rate;      // bytes a second, of both directions together; 0: any
    int64_t stall_ms;   // nothing in either direction; 0: for ever
    // Where set, this relay counts into it and keeps to its limits as well. Must live until `done`
    // (or `stopped`).
    struct relay_share *share;
    void (*done)(void *data, const struct relay_result *result);
    void *data;
};
// Half-closed sides are passed on (shutdown of the other one's writing half).
struct relay *relay_start(struct mover *mover, const struct relay_config *config, struct err *err);
uint64_t relay_bytes(const struct relay *relay);
void relay_cancel(struct relay *relay, void (*stopped)(void *data), void *data);
