// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/weaken.h"
#include "box/disk.h"

int tmpfs_make(uint64_t bytes, uint32_t host_uid, struct err *err)
{
    // Every inode costs about a kilobyte of kernel memory; a disk full of empty files must end too.
    uint64_t inodes = bytes / 1024 < 1024 ? 1024 : bytes / 1024;
    char size[32], uid[16], count[32];
    (void)snprintf(size, sizeof size, "%" PRIu64, bytes);
    (void)snprintf(uid, sizeof uid, "%" PRIu32, host_uid);
    (void)snprintf(count, sizeof count, "%" PRIu64, inodes);
    auto_fd fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    int limited = weaken(WEAKEN_DISK) ? 0 : 1;
    if (fs < 0 || (limited && fsconfig(fs, FSCONFIG_SET_STRING, "size", size, 0) < 0) ||
        (limited && fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", count, 0) < 0) ||
        fsconfig(fs, FSCONFIG_SET_STRING, "uid", uid, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "gid", uid, 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return err_sys(err, errno, "make a tmpfs disk");
    int fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    return fd < 0 ? err_sys(err, errno, "mount a tmpfs disk") : fd;
}
