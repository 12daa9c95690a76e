// SPDX-License-Identifier: Apache-2.0
// Whoever unpacks a disk waits in the end until all of it is on the machine's disk (the keeper sees
// to that). That wait is short when writing has begun long before.
#include <fcntl.h>

#include "pack/pack-internal.h"

enum {
    STRIDE = 8 * 1024 * 1024, // of a large file
    REST_MIN = 128 * 1024,    // of a small one it is not worth a call
};

uint64_t write_early(int fd, uint64_t from, uint64_t to, bool is_whole)
{
    uint64_t len = to - from;
    if (len < (is_whole ? REST_MIN : STRIDE))
        return from;
    // That it is not needed any more makes the kernel begin, without waiting. sync_file_range would
    // be the call for it, but does nothing on an overlay, as it does not get to the file below.
    (void)posix_fadvise(fd, (off_t)from, (off_t)len, POSIX_FADV_DONTNEED);
    return to;
}
