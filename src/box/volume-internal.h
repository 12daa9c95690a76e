// SPDX-License-Identifier: Apache-2.0
// The volume's inside, shared by volume.c (making, mounting), volume-disks.c (disks by place and
// number) and volume-quota.c (how much each may hold, and all together).
#pragma once

#include <linux/btrfs.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "box/disk.h"

// Where subvolumes are:
//   blank/NUMBER             of boxes that do not keep their files
//   kept/NUMBER              PLACE_KEPT
//   snaps/SHARD/NUMBER       PLACE_SNAPSHOT
//   making/SHARD/NUMBER      PLACE_MAKING
//   forge/SHARD/NUMBER       a copy that is to become a kept one
// Making a snapshot holds its directory for a whole commit of the file system, and commits are
// shared by those that wait for one: hence shards, and the forge for the one directory that others
// must not wait for.
enum { VOLUME_SHARDS = 16 };

struct volume {
    int file; // locked: one keeper per data directory
    int mnt;  // detached: a place, and what keeps it mounted
    int root; // its top directory, opened for ioctls
    int blank, kept, snaps, making, forge;
    int squota; // quotas are simple ones
    struct {
        struct btrfs_qgroup_inherit head;
        uint64_t group;
    } inherit;
    int has_ballast;
    uint64_t limit; // of all disks together, as it was set last
    uint8_t fsid[BTRFS_FSID_SIZE];
};

struct volume_name {
    char text[40];
};

// volume-disks.c
int volume_sweep_blank(struct volume *volume, struct err *err);
int volume_open_dir(int dir, const char *name, struct err *err); // makes it if need be
int volume_make_shards(int dir, struct err *err);

// volume-quota.c
int volume_enable_quota(struct volume *volume, struct err *err);
// All disks together are one group, whose limit is the room that there really is. Who makes one
// says so to the kernel: the arguments of BTRFS_IOC_SUBVOL_CREATE_V2 or BTRFS_IOC_SNAP_CREATE_V2.
int volume_gather(struct volume *volume, struct err *err);
void volume_name_group(struct volume *volume, struct btrfs_ioctl_vol_args_v2 *args);

// musl takes an int where the kernel takes 32 bits.
static inline int volume_ioctl(int fd, unsigned long what, void *arg)
{
    return ioctl(fd, (int)what, arg);
}
