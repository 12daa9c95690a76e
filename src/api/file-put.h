// SPDX-License-Identifier: Apache-2.0
// Gives a file of a call's sandbox new content: all of it, or nothing is changed. On the loop's
// thread.
#pragma once

#include "api/files.h"

struct file_terms { // on which it is replaced
    uint32_t flags; // of enum hand_flag: PARENTS, EXCLUSIVE, EXISTING, MODE, ETAG_GIVEN
    uint32_t mode;
    char etag[HAND_ETAG];
};

struct file_put {
    const char *path;
    struct file_terms terms;
    // The content, which lives as long as the call. NULL: with `has_file` it is `len` bytes of
    // `file`, which stays the caller's; else the body that was left in the connection, which is
    // taken.
    const void *data;
    size_t len;
    bool has_file;
    int file;
};

// fn has the answer of HAND_WRITE or HAND_COMMIT. Where the client went, or was answered that its
// connection cannot be taken, an answer to it goes nowhere.
void file_put(struct call *call, const struct file_put *put, files_fn fn);
