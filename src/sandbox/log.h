// SPDX-License-Identifier: Apache-2.0
// A byte log: one stream of a process, in a file of which a byte's place is its offset in the
// stream. Past its cap the middle is given back to the file system (a hole), so that the head and
// the newest bytes stay and offsets stay true. The file's size is how much ever came, and where the
// hole lies follows from it and the cap: nothing else has to be stored, and nothing can disagree
// with it after a crash.
//
// Bytes that cannot be stored are read from the pipe all the same, so that the program does not
// hang; they get no offsets and are counted as lost (bytelog_lost). That happens where the file
// system makes no holes (the log stops at its cap then), and while it is full or broken.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum log_stream { LOG_STDOUT, LOG_STDERR, LOG_STREAMS };

enum {
    BYTELOG_HEAD = 256 * 1024,   // kept from the beginning, at most a quarter of the cap
    BYTELOG_CAP_MIN = 64 * 1024, // a smaller cap is taken for this one
};

struct bytelog;

// File "<number>.out" or ".err" in the directory; made if it is not there and `make`. On disk it
// takes the cap and an eighth at most. A cap other than last time's is fine.
int bytelog_open(int dirfd, int64_t number, enum log_stream stream, uint64_t cap, bool make,
                 struct bytelog **ret, struct err *err);
void bytelog_free(struct bytelog *log);
void bytelog_remove(int dirfd, int64_t number); // both streams, and the spool of a terminal

// Moves what a pipe has into the log without copying it (splice), at most `max`, often less. Bytes
// that left the pipe, lost ones too; 0 at the end of the stream, -EAGAIN when there is nothing now,
// or -errno when the pipe cannot be read.
ssize_t bytelog_splice(struct bytelog *log, int pipe, size_t max);
// 0, or the -errno for which some of it was lost (not for want of holes).
int bytelog_append(struct bytelog *log, const void *data, size_t len);

uint64_t bytelog_size(const struct bytelog *log); // offset behind the newest byte
uint64_t bytelog_lost(const struct bytelog *log); // bytes since it was opened
// The hole: [from, to) was given back; empty when from == to.
void bytelog_gap(const struct bytelog *log, uint64_t *ret_from, uint64_t *ret_to);
// Reads at most `max` bytes from `offset`, not across the hole: an offset inside it reads from its
// end, and *ret_at says where the bytes begin. Bytes, 0 at the end of what there is, or -errno.
ssize_t bytelog_read(struct bytelog *log, uint64_t offset, void *data, size_t max,
                     uint64_t *ret_at);
