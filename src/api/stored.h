// SPDX-License-Identifier: Apache-2.0
// Stored files one by one, past any sandbox: nothing is woken, and there need not be one. Threads
// read from the store and write to it; large bodies go through a pipe between such a thread and the
// mover, which has the connection. On the loop's thread, but for what says otherwise.
#pragma once

#include "api/call.h"
#include "api/conditional.h"
#include "api/transfer.h"
#include "saved/sync.h"

enum { STORED_SHA256_HEX = 65, STORED_SMALL = 256 * 1024 };

struct stored_call {
    struct call *call; // counted
    struct store *store;
    const atomic_bool *ending;
    char key[STORE_KEY_MAX + 1]; // of the file; of a list, what all of it begins with
    size_t prefix_len;           // of its sandbox's keys
    // A thread's own, while it runs.
    int found; // 1, 0, -1 and err
    struct store_info info;
    struct err err;
    int pipe;         // its end
    struct buf bytes; // a small file or body; the entries of a list
    struct range range;
    unsigned max;                  // of a list
    char after[STORE_KEY_MAX + 1]; // "": from the first
    char last[STORE_KEY_MAX + 1];
    unsigned n;
    // How a body came to its end: a thread that finds the end of the pipe looks here.
    atomic_bool is_whole;
    // On the loop.
    struct touch *touch;    // of one that is written or deleted
    int other;              // the mover's end
    bool is_stream;         // of those that are counted
    bool is_moved, is_over; // the parts of a stream
    struct move_result moved;
    char etag[STORED_SHA256_HEX];
};

// NULL: it was refused. `path` NULL: of all of them.
struct stored_call *stored_new(struct call *call, const char *path);
void stored_over(struct stored_call *s); // frees it
// The index forgets it: `fn` comes when it may be written, unless it was refused.
void stored_touch(struct stored_call *s, disk_fn fn);
void stored_fail(struct call *call, const struct err *err);
// A pipe: `out`, what the thread writes the mover sends. Only so many at once.
int stored_open_pipe(struct stored_call *s, bool out, struct err *err);
