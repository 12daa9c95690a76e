// SPDX-License-Identifier: Apache-2.0
// A byte log: one stream of a process, in a file of which a byte's place is its offset in the
// stream. Past its cap the middle is given back to the file system (a hole), so that the head and
// the newest bytes stay and offsets stay true; where holes cannot be made the log stops growing at
// its cap. The file's size is how much ever came: nothing else has to be stored, and nothing can
// disagree with it after a crash.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum log_stream { LOG_STDOUT, LOG_STDERR, LOG_STREAMS };

enum { BYTELOG_HEAD = 256 * 1024 }; // kept from the beginning, at most a quarter of the cap

struct bytelog;

// File "<number>.out" or ".err" in the directory; made if it is not there and `make`.
int bytelog_open(int dirfd, int64_t number, enum log_stream stream, uint64_t cap, bool make,
                 struct bytelog **ret, struct err *err);
void bytelog_free(struct bytelog *log);
void bytelog_remove(int dirfd, int64_t number); // both streams

// Moves what a pipe has into the log without copying it (splice), at most `max`. Bytes, 0 at the
// end of the stream, -EAGAIN when there is nothing now, or -errno. What does not fit is counted and
// dropped.
ssize_t bytelog_splice(struct bytelog *log, int pipe, size_t max);
int bytelog_append(struct bytelog *log, const void *data, size_t len); // 0 or -errno

uint64_t bytelog_size(const struct bytelog *log); // offset behind the newest byte
// The hole: [from, to) was given back or dropped; empty when from == to.
void bytelog_gap(const struct bytelog *log, uint64_t *ret_from, uint64_t *ret_to);
// Reads at most `max` bytes from `offset`, not across the hole: an offset inside it reads from its
// end, and *ret_at says where the bytes begin. Bytes, 0 at the end of what there is, or -errno.
ssize_t bytelog_read(struct bytelog *log, uint64_t offset, void *data, size_t max,
                     uint64_t *ret_at);
