// SPDX-License-Identifier: Apache-2.0
// The events of one cell, in order: each is a record (type, length, bytes), the first ones in
// memory, the rest in a file without a name. The last one, while it is output that nobody has
// looked at, may still grow. Every INDEX_STEP-th record's place is known, from where the others are
// walked to, so that a million of tiny ones costs no more than their bytes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "sandbox/context.h"

enum {
    CELL_LOG_MEMORY = 256 * 1024,
    CELL_LOG_PIECE = 64 * 1024, // of output, at most one event
    CELL_LOG_RECORD = 5,        // bytes before each event's own
};

struct cell_log {
    int dirfd;         // where its file is made
    struct buf memory; // records
    int fd;            // of the file; -1: none yet
    uint64_t filed;    // bytes in it
    uint64_t n;        // events, the open one too
    uint64_t *index;   // place of every INDEX_STEP-th
    size_t index_cap;
    enum cell_event_type type; // of the open one
    struct buf open;
    bool is_open, is_seen;      // somebody has read the open one: it does not grow any more
    uint64_t cursor, cursor_at; // the record walked to last, and its place
};

void cell_log_init(struct cell_log *log, int dirfd);
void cell_log_done(struct cell_log *log);
uint64_t cell_log_size(const struct cell_log *log); // bytes, wherever they are
size_t cell_log_memory(const struct cell_log *log); // those in memory
uint64_t cell_log_count(const struct cell_log *log);

// `filed`: what cannot grow any more goes into the file although there is room in memory. Output is
// added to the open event where it can be; others are whole. 0, or -errno: it is not logged, or
// only its beginning.
int cell_log_grow(struct cell_log *log, enum cell_event_type type, bool filed, const char *bytes,
                  size_t len);
int cell_log_add(struct cell_log *log, enum cell_event_type type, bool filed, const void *bytes,
                 size_t len);
int cell_log_close(struct cell_log *log, bool filed); // no more will come

// 1, 0 when there is none at that place, -errno. Lent until the next call for any log.
int cell_log_get(struct cell_log *log, uint64_t n, struct cell_event *ret);
// Of its bytes those from `at` on, and at most `max` of them.
int cell_log_part(struct cell_log *log, uint64_t n, size_t at, size_t max, struct cell_event *ret);
