// SPDX-License-Identifier: Apache-2.0
#include "hand/tar-sink.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

enum {
    SMALL_MAX = 64 * 1024, // files up to this are gathered
    SPLICE_MAX = 1 << 30,
};

int tar_sink_flush(struct tar_sink *sink)
{
    size_t len = sink->len;
    sink->len = 0;
    return fd_write_all(sink->fd, sink->bytes, len);
}

// How much can be added: at least a byte.
static size_t room(struct tar_sink *sink, uint64_t want, int *ret_r)
{
    *ret_r = sink->len == sizeof sink->bytes ? tar_sink_flush(sink) : 0;
    size_t left = sizeof sink->bytes - sink->len;
    return want < left ? (size_t)want : left;
}

int tar_sink_put(struct tar_sink *sink, const void *data, size_t len)
{
    const char *from = data;
    while (len > 0) {
        int r;
        size_t n = room(sink, len, &r);
        if (r < 0)
            return r;
        memcpy(sink->bytes + sink->len, from, n);
        sink->len += n;
        from += n;
        len -= n;
    }
    return 0;
}

int tar_sink_zeros(struct tar_sink *sink, uint64_t len)
{
    while (len > 0) {
        int r;
        size_t n = room(sink, len, &r);
        if (r < 0)
            return r;
        memset(sink->bytes + sink->len, 0, n);
        sink->len += n;
        len -= n;
    }
    return 0;
}

// How much was copied: less than `len` only where the file ended.
static int64_t copy(struct tar_sink *sink, int fd, uint64_t at, uint64_t len)
{
    uint64_t done = 0;
    while (done < len) {
        int r;
        size_t want = room(sink, len - done, &r);
        if (r < 0)
            return r;
        ssize_t n = pread(fd, sink->bytes + sink->len, want, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : (int64_t)done;
        sink->len += (size_t)n;
        done += (uint64_t)n;
    }
    return (int64_t)done;
}

// As above. -EINVAL when nothing was moved and this file cannot do it.
static int64_t move(struct tar_sink *sink, int fd, uint64_t at, uint64_t len)
{
    uint64_t done = 0;
    int r = tar_sink_flush(sink);
    if (r < 0)
        return r;
    while (done < len) {
        loff_t from = (loff_t)(at + done);
        uint64_t left = len - done;
        ssize_t n = splice(fd, &from, sink->fd, NULL, left < SPLICE_MAX ? (size_t)left : SPLICE_MAX,
                           SPLICE_F_MOVE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return done > 0 && errno == EINVAL ? (int64_t)done : -errno;
        if (n == 0)
            break;
        done += (uint64_t)n;
    }
    return (int64_t)done;
}

int tar_sink_file(struct tar_sink *sink, int fd, uint64_t at, uint64_t len)
{
    int64_t n = len > SMALL_MAX ? move(sink, fd, at, len) : -EINVAL;
    if (n == -EINVAL)
        n = copy(sink, fd, at, len);
    if (n < 0)
        return (int)n;
    return tar_sink_zeros(sink, len - (uint64_t)n);
}
