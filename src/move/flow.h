// SPDX-License-Identifier: Apache-2.0
// One direction of bytes between two ends, a turn at a time, on a mover's thread. The way they go
// is chosen by what the ends are:
//
//   direct  sendfile or splice from one to the other: one of them is a pipe, or a file goes to a
//           socket. The kernel holds what is under way.
//   ducted  splice into a pipe of the thread's and out of it: from a socket.
//   copied  through the thread's buffer: chunked bodies, which must be looked at; sockets that
//           carry little; and whatever the kernel refuses to splice.
//
// Nothing is read from a source before all that was read has been written, so that a flow holds at
// most one buffer or one pipe of bytes that a slow reader does not take.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "move/chunk.h"
#include "move/move.h"

struct job;

enum {
    BUFFER_BYTES = 64 * 1024,
    DUCT_BYTES = 256 * 1024,
    DUCTS_MAX = 32, // of a thread: the kernel counts a user's pipe memory; see pipe(7)
    DUCTS_SPARE = 8,
};

enum end_kind { END_FILE, END_PIPE, END_SOCKET, END_KIND_MAX };

// One of the two descriptors. Readiness is what the last try and the events since (edge-triggered)
// say: set until a call answers EAGAIN, and always set for a file.
struct end {
    struct job *job;
    int fd;
    enum end_kind kind;
    int64_t offset; // of a file
    bool readable, writable;
    bool watched; // in the thread's epoll set
};

struct duct {
    int out, in; // -1: none
};

// What a thread's flows share.
struct works {
    char *buffer;
    struct duct spare[DUCTS_SPARE];
    unsigned n_spare;
    unsigned n_lent;
};

int works_init(struct works *works); // 0 or -ENOMEM
void works_done(struct works *works);

enum flow_way { WAY_DIRECT, WAY_DUCTED, WAY_COPIED, WAY_MAX };

struct flow {
    struct end *from, *to;
    uint64_t left; // to be read yet; MOVE_TO_END: until it ends
    uint64_t room; // a body of unknown length may have; UINT64_MAX: any
    bool chunked;
    bool to_chunked; // what is written is put into chunks
    bool passes_end; // the source's end shuts down the other side's writing half
    struct chunk chunk;
    enum flow_way way;
    unsigned puzzled; // times that both ends seemed ready and nothing moved
    int64_t ahead;    // the file is asked for up to here
    // Read, or given, but not yet written. `uncounted` of the bytes are not the body's.
    char *held;
    size_t held_at, held_len, uncounted;
    struct duct duct;
    size_t ducted;
    bool ended; // the source has
    bool over;
    enum move_why why;
    int sys_errno;
    bool moved; // anything, since it was last reset
    _Atomic uint64_t bytes;
};

// `left`, `room`, `chunked`, `passes_end` are the caller's to set.
void flow_init(struct flow *flow, struct end *from, struct end *to);
void flow_done(struct flow *flow); // frees what is held; closes the duct if there is one
// Bytes that go before all others, copied. Once. 0 or -ENOMEM.
int flow_hold(struct flow *flow, const void *data, size_t len);
// The held bytes are the body's beginning: decodes and counts them. Answers how many belong to it.
size_t flow_hold_body(struct flow *flow);
// Ready to be turned: decides how the bytes go.
void flow_begin(struct flow *flow);

enum flow_step {
    FLOW_WAITS, // for one of its ends
    FLOW_SPENT, // the budget
    FLOW_OVER,
    FLOW_STEP_MAX,
};

// Moves until it waits, is over, or has read `budget` bytes. Gives the duct back unless bytes are
// in it.
enum flow_step flow_turn(struct flow *flow, struct works *works, uint64_t budget);
size_t flow_pending(const struct flow *flow);
// Ends it where it stands, for this reason if it has none of its own, and gives the duct back.
void flow_stop(struct flow *flow, struct works *works, enum move_why why, int sys_errno);
