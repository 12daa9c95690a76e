// SPDX-License-Identifier: Apache-2.0
// The frames between the daemon and a kernel (kernels/PROTOCOL.md): read as they come in pieces,
// strictly, and written. No descriptors here.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    FRAME_TYPE_MAX = 15,
    FRAME_HEADER_MAX = 64,
    FRAME_FROM_MAX = 32 * 1024 * 1024, // payload from a kernel
    FRAME_TO_MAX = 4 * 1024 * 1024,    // and to one, but for `boot` and `tool`
    FRAME_NUMBER_MAX = 0x7fffffff,
};

struct frame {
    char type[FRAME_TYPE_MAX + 1];
    uint32_t cell;
    char *bytes; // lent until the reader is given more, or asked again; may be changed there
    size_t len;
};

struct frame_reader {
    struct buf in;
    size_t at; // where the next frame begins
    bool lost; // it does not know where it is: looks for the beginning of a frame
};

void frame_reader_init(struct frame_reader *reader);
void frame_reader_done(struct frame_reader *reader);
// Where to put what comes next, as buf_reserve does it, and how much came.
int frame_reader_reserve(struct frame_reader *reader, char **ret_at, size_t *ret_room);
void frame_reader_commit(struct frame_reader *reader, size_t len);
// 1 and a frame, 0 when there is none yet, -1 when what came is none: then nothing more is read.
int frame_reader_next(struct frame_reader *reader, struct frame *ret);
// Whoever read before may have taken a part of a frame: what is left of it is skipped.
void frame_reader_resume(struct frame_reader *reader);
// How much memory it holds.
size_t frame_reader_size(const struct frame_reader *reader);

// As buf_append.
int frame_put(struct buf *out, const char *type, uint32_t cell, const void *bytes, size_t len);
