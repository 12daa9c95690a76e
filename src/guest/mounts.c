// SPDX-License-Identifier: Apache-2.0
#include "guest/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

static int open_mount_point(int root, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(SYS_openat2, root, path, &how, sizeof how);
}

int mounts_attach(int root, int from, const char *from_path, const char *target)
{
    auto_fd at = open_mount_point(root, target);
    if (at < 0)
        return -errno;
    unsigned flags = MOVE_MOUNT_T_EMPTY_PATH | (*from_path == '\0' ? MOVE_MOUNT_F_EMPTY_PATH : 0);
    return move_mount(from, from_path, at, "", flags) < 0 ? -errno : 0;
}

int mounts_enter(int root)
{
    if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
        chdir("/") < 0)
        return -errno;
    return 0;
}
