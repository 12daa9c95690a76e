// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void fd_close(int fd)
{
    if (fd < 0)
        return;
    int saved = errno;
    (void)close(fd);
    errno = saved;
}

void fd_close_auto(int *fd)
{
    fd_close(*fd);
}

int fd_is_scarce(int fd)
{
    struct rlimit limit;
    if (fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return 0;
    return (rlim_t)fd + limit.rlim_cur / 8 >= limit.rlim_cur;
}

int fd_set_nonblock(int fd, int on)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return -errno;
    flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

int fd_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (n == 0)
            return -EIO; // nothing taken and no error: no file does this, and trying again may
                         // never end
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

ssize_t fd_read_all(int fd, void *data, size_t max)
{
    char *p = data;
    size_t got = 0;
    while (got < max) {
        ssize_t n = read(fd, p + got, max - got);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

int fd_write_file(int dirfd, const char *path, const char *text)
{
    auto_fd fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t len = strlen(text);
    ssize_t n;
    do {
        n = write(fd, text,
                  len); // lowering a memory limit may wait for reclaim, and be interrupted
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EIO;
}

ssize_t fd_read_file(int dirfd, const char *path, char *data, size_t size)
{
    auto_fd fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = fd_read_all(fd, data, size);
    if (n < 0)
        return n;
    if ((size_t)n == size)
        return -EFBIG;
    data[n] = '\0';
    return n;
}
