// SPDX-License-Identifier: Apache-2.0
// A file's bytes for a call whose answer is a stream, at its reader's pace: a thread of the mover
// reads the file into a pipe, the loop takes them from there. However large the file is, a slice
// and a pipe of it are all that waits. On the loop's thread.
#pragma once

#include <uv.h>

#include "api/files.h"

// A multiple of 3: base64 of slices is base64 of the whole.
enum { FEED_SLICE = 65535 };

struct feed_ops {
    // One slice: FEED_SLICE bytes, but for the last. May begin the stream, and end the call.
    void (*slice)(struct call *call, const char *data, size_t len);
    // Once, unless the client went before. Not `whole`: the file became shorter meanwhile, or the
    // box is gone.
    void (*over)(struct call *call, bool whole);
};

struct feed { // in the call's state; zeros
    const struct feed_ops *ops;
    uv_poll_t poll;
    int file, from, to; // the pipe's two ends
    bool is_polled, is_over;
    uint64_t left; // bytes that have not come yet
    char *slice;
    size_t len;
};

struct feed_call { // call->state begins with this
    struct file_call file;
    struct feed feed;
};

// Takes the file, `length` bytes of it. 0, or -1 and err; then nothing is told.
int feed_start(struct call *call, int take_file, uint64_t length, const struct feed_ops *ops,
               struct err *err);
void feed_drained(void *call);     // for http_on_drain: the reader has taken all
void feed_stop(struct call *call); // nobody is told any more. Takes one that was not started
