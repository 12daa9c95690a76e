// SPDX-License-Identifier: Apache-2.0
// Reads the records that cay-pack writes (wire/pack-msg.h) from a pipe, and writes those that it
// reads. Whoever wrote them has read files of guests, and is not believed: a record that is not
// exactly as it should be ends the reading. For threads: it waits, but looks now and then whether
// it is to stop.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "wire/pack-msg.h"

// Bytes of an index that are taken: some hundred thousand files.
#define SYNC_INDEX_MAX (UINT64_C(128) * 1024 * 1024)

struct records {
    int fd;
    const atomic_bool *stop; // may be NULL
    uint64_t left;           // bytes of content of the last record that were not read yet
    bool is_over;            // PACK_INDEX was there: nothing may follow
};

struct record {
    struct pack_record head;
    char path[PACK_PATH_MAX]; // "": none
};

void records_init(struct records *records, int fd, const atomic_bool *stop);
// 1; 0 at the end, which is behind PACK_INDEX only; or -1. What was not read of the content of the
// one before is skipped.
int records_next(struct records *records, struct record *ret, struct err *err);
// Of the content: a store_read_fn, whose data is the records.
ssize_t records_read(void *records, void *buf, size_t size, struct err *err);
// All of it, for as much as it is: the caller frees it. A NUL follows.
int records_read_all(struct records *records, char **ret, size_t *ret_len, struct err *err);

// Whether it may be the path of a record.
bool record_path_valid(const char *path, size_t len);

// As read(2), but waits, also where the pipe does not.
ssize_t records_read_some(int fd, const atomic_bool *stop, void *buf, size_t size, struct err *err);
// Writes to a pipe, waiting for room.
int records_write(int fd, const atomic_bool *stop, const void *data, size_t len, struct err *err);
int records_write_head(int fd, const atomic_bool *stop, const struct pack_record *head,
                       const char *path, struct err *err);

// All that comes until the other end is closed, but no more than fits: cay-pack's verdict. Its
// length, or -1.
ssize_t records_read_text(int fd, const atomic_bool *stop, char *ret, size_t size, struct err *err);
