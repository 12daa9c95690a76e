// SPDX-License-Identifier: Apache-2.0
// The mount calls of Linux 5.2 and later.
#pragma once

#include_next <sys/mount.h>

#include <linux/mount.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int fsopen(const char *type, unsigned flags)
{
    return (int)syscall(SYS_fsopen, type, flags);
}

static inline int fsconfig(int fd, unsigned cmd, const char *key, const void *value, int aux)
{
    return (int)syscall(SYS_fsconfig, fd, cmd, key, value, aux);
}

static inline int fsmount(int fd, unsigned flags, unsigned attrs)
{
    return (int)syscall(SYS_fsmount, fd, flags, attrs);
}

static inline int open_tree(int fd, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, fd, path, flags);
}

static inline int move_mount(int from, const char *from_path, int to, const char *to_path,
                             unsigned flags)
{
    return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

static inline int mount_setattr(int fd, const char *path, unsigned flags, struct mount_attr *attr,
                                size_t size)
{
    return (int)syscall(SYS_mount_setattr, fd, path, flags, attr, size);
}
