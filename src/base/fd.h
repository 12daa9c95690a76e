// SPDX-License-Identifier: Apache-2.0
// File descriptors: owned by a variable (`auto_fd`), handed over with TAKE_FD, read and written
// whole.
#pragma once

#include <stddef.h>
#include <sys/types.h>

void fd_close(int fd);       // ignores negative descriptors, keeps errno
void fd_close_auto(int *fd); // for auto_fd

#define auto_fd __attribute__((cleanup(fd_close_auto))) int

// Hands the descriptor to somebody else: the variable no longer owns it.
#define TAKE_FD(fd)                                                                                \
    ({                                                                                             \
        int *_p = &(fd);                                                                           \
        int _v = *_p;                                                                              \
        *_p = -1;                                                                                  \
        _v;                                                                                        \
    })

// Whether its number is among the last that there may be. Descriptors are numbered from below, so
// then there is hardly room for others: what strangers open must not take the place of what comes
// from boxes, whose messages would lose their descriptors.
int fd_is_scarce(int fd);
int fd_set_nonblock(int fd, int on);                    // 0 or -errno
int fd_write_all(int fd, const void *data, size_t len); // 0 or -errno
ssize_t fd_read_all(int fd, void *data, size_t max);    // bytes until end of file or max, or -errno
// Writes `text` to dirfd/path (which must exist) in one write(2), as cgroup and proc files want it.
int fd_write_file(int dirfd, const char *path, const char *text); // 0 or -errno
// Reads a small file whole and ends it with a NUL. Length, or -errno (-EFBIG when it does not fit).
ssize_t fd_read_file(int dirfd, const char *path, char *data, size_t size);
