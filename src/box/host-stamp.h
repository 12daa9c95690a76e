// SPDX-License-Identifier: Apache-2.0
// The stamp of the image `host`: a text that says by which recipe it was made, in which boot, and
// what its inputs looked like. One line per input: path, inode, size, time of change. Directories
// stand for their lists of names: an edit in place, further down than the table of rows names, is
// not noticed.
#pragma once

#include <stdbool.h>

#include "base/buf.h"

enum {
    HOST_STAMP_MAX = 16 * 1024,
};

// The boot is in it because a power cut may leave a tree that has its names and not its bytes:
// making it anew after each boot costs less than a sync.
void host_stamp_begin(struct buf *stamp);
// Notes how source_fd/path is now, also that it is missing. Once per path.
void host_stamp_add(struct buf *stamp, int source_fd, const char *path);
// Whether everything still is as it was noted. A few tens of microseconds.
bool host_stamp_fresh(const char *stamp, int source_fd);
