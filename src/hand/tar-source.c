// SPDX-License-Identifier: Apache-2.0
#include "hand/tar-source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/tar-format.h"

enum { SPLICE_MAX = 1 << 30 };

// At least `want` bytes in the buffer, or what is left of the input.
static int fill(struct tar_source *src, size_t want)
{
    if (src->len < want && src->at + want > sizeof src->bytes) {
        memmove(src->bytes, src->bytes + src->at, src->len);
        src->at = 0;
    }
    while (src->len < want) {
        size_t end = src->at + src->len;
        ssize_t n = read(src->fd, src->bytes + end, sizeof src->bytes - end);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        src->len += (size_t)n;
    }
    return 0;
}

static const uint8_t *take(struct tar_source *src, size_t len)
{
    const uint8_t *at = src->bytes + src->at;
    src->at += len;
    src->len -= len;
    if (src->len == 0)
        src->at = 0;
    return at;
}

int tar_source_block(struct tar_source *src, const uint8_t **ret, size_t *ret_len)
{
    int r = fill(src, TAR_BLOCK);
    if (r < 0)
        return r;
    *ret_len = src->len < TAR_BLOCK ? src->len : TAR_BLOCK;
    *ret = take(src, *ret_len);
    if (*ret_len == TAR_BLOCK)
        return 1;
    return *ret_len == 0 ? 0 : -EBADMSG;
}

// What there is in the buffer, of which `max` are wanted: at least a byte.
static int some(struct tar_source *src, uint64_t max, const uint8_t **ret, size_t *ret_len)
{
    int r = fill(src, 1);
    if (r < 0)
        return r;
    if (src->len == 0)
        return -EBADMSG;
    *ret_len = src->len < max ? src->len : (size_t)max;
    *ret = take(src, *ret_len);
    return 0;
}

int tar_source_read(struct tar_source *src, char *to, size_t len)
{
    while (len > 0) {
        const uint8_t *at;
        size_t n;
        int r = some(src, len, &at, &n);
        if (r < 0)
            return r;
        memcpy(to, at, n);
        to += n;
        len -= n;
    }
    return 0;
}

int tar_source_skip(struct tar_source *src, uint64_t len)
{
    while (len > 0) {
        const uint8_t *at;
        size_t n;
        int r = some(src, len, &at, &n);
        if (r < 0)
            return r;
        len -= n;
    }
    return 0;
}

// How much went. -EINVAL when this file or this input cannot do it.
static ssize_t splice_some(struct tar_source *src, int fd, uint64_t len)
{
    ssize_t n;
    do {
        n = splice(src->fd, NULL, fd, NULL, len < SPLICE_MAX ? (size_t)len : SPLICE_MAX,
                   SPLICE_F_MOVE);
    } while (n < 0 && errno == EINTR);
    if (n == 0)
        return -EBADMSG;
    return n < 0 ? -errno : n;
}

int tar_source_file(struct tar_source *src, int fd, uint64_t len)
{
    int whole = 1; // until a splice is refused
    while (len > 0) {
        if (whole && src->len == 0 && len >= TAR_SOURCE_SIZE / 4) {
            ssize_t n = splice_some(src, fd, len);
            if (n < 0 && n != -EINVAL)
                return (int)n;
            whole = n > 0;
            len -= n > 0 ? (uint64_t)n : 0;
            continue;
        }
        const uint8_t *at;
        size_t n;
        int r = some(src, len, &at, &n);
        if (r == 0)
            r = fd_write_all(fd, at, n);
        if (r < 0)
            return r;
        len -= n;
    }
    return 0;
}

int tar_source_drain(struct tar_source *src)
{
    ssize_t n;
    src->at = src->len = 0;
    do {
        n = read(src->fd, src->bytes, sizeof src->bytes);
    } while (n > 0 || (n < 0 && errno == EINTR));
    return n < 0 ? -errno : 0;
}
