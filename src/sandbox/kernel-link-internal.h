// SPDX-License-Identifier: Apache-2.0
// A kernel's job and pipes (kernel-link.c), and what is said on them (kernel-hear.c).
#pragma once

#include "sandbox/context-internal.h"

enum link_watch { WATCH_OUT, WATCH_ERR, WATCH_CONTROL, WATCH_INPUT, WATCHES };

struct kernel_link {
    struct context *c; // NULL: let go
    struct job *job;
    bool is_ordinary, is_started;
    bool is_ready, is_asked, is_open; // it said `ready`, was told `open`, said `opened`
    bool is_held;
    bool is_drained; // since frames were read last
    bool is_strange; // taken over: what it says first may be of a cell that nobody knows
    uv_poll_t polls[WATCHES];
    bool watched[WATCHES];
    uv_timer_t deadline; // of its beginning, or of the cell that runs
    uv_timer_t watch;
    uv_timer_t side; // a cell has become a long one; or the next may begin
    unsigned handles;
    struct buf outgoing;
    unsigned acks; // put into it since it was empty last
    struct frame_reader reader;
    uint64_t counted; // of the reader's memory, in the sandbox's
};

// --- kernel-hear.c

bool kernel_hear_waits(const struct kernel_link *link); // for `ready`, before it can be opened
// Everything that can be said now goes out in one write, the first cell too.
int kernel_hear_open(struct kernel_link *link, bool with_tool, struct err *err);
void kernel_hear_frames(struct kernel_link *link);                  // all that have been read
void kernel_hear_broke(struct kernel_link *link, const char *what); // it is killed

// --- kernel-link.c

void kernel_link_begin_ordinary(struct kernel_link *link); // another one, in its place
