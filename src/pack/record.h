// SPDX-License-Identifier: Apache-2.0
// Records (wire/pack-msg.h) in and out of a descriptor. What comes in is the daemon's, but with
// names and sizes that were a guest's once.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "wire/pack-msg.h"

struct record_out;

struct record_out *record_out_new(int fd); // NULL: no memory
void record_out_free(struct record_out *out);
// All 0 or -errno.
int record_put(struct record_out *out, const struct pack_record *record, const char *path);
int record_data(struct record_out *out, const void *data, size_t len);
int record_flush(struct record_out *out);

struct record_in;

struct record_in *record_in_new(int fd); // NULL: no memory
void record_in_free(struct record_in *in);
// 1, or -1. What is left of the content of the one before is an error.
int record_next(struct record_in *in, struct pack_record *ret, char path[PACK_PATH_MAX],
                struct err *err);
// Content of the record: bytes, up to `max`; 0 at its end, -1.
ssize_t record_read(struct record_in *in, void *data, size_t max, struct err *err);
