// SPDX-License-Identifier: Apache-2.0
// What a box writes to. The volume is one Btrfs file system in the data directory (a sparse file on
// a loop device), mounted detached: nobody but this process and what it hands out can reach it, and
// it is gone with the process. A disk is a subvolume of it with a quota. Where there is no volume a
// tmpfs of limited size serves boxes that may lose their files.
#pragma once

#include <stdint.h>

#include "base/err.h"

struct volume;

// Opens the volume of a data directory, making it (sparse, `bytes` large) if there is none. Disks
// that were to go with their box, and whose box a crash has ended, are removed.
int volume_open(int data_fd, uint64_t bytes, struct volume **ret, struct err *err);
void volume_free(struct volume *volume);

// A volume outlives the program that opened it: the next gets these two descriptors, which stay the
// volume's, and goes on with all disks as they are. On failure volume_adopt leaves them alone.
void volume_descriptors(const struct volume *volume, int ret_fds[2]);
int volume_adopt(const int fds[2], struct volume **ret, struct err *err);

// A disk's number and kind make its name. The descriptor is the caller's.
int volume_make_blank(struct volume *volume, uint64_t number, uint64_t bytes, struct err *err);
int volume_open_kept(struct volume *volume, uint64_t number, uint64_t bytes, struct err *err);
int volume_open_disk(struct volume *volume, int kept, uint64_t number, struct err *err);
int volume_limit(struct volume *volume, int disk_fd, uint64_t bytes, struct err *err);
// A blank disk, in use or not, becomes the kept one of that number. ERR_CONFLICT if there is one.
int volume_keep_blank(struct volume *volume, uint64_t number, uint64_t kept, struct err *err);
int volume_drop_blank(struct volume *volume, uint64_t number, struct err *err);
int volume_drop_kept(struct volume *volume, uint64_t number, struct err *err);

// The lowest numbers of kept disks above that one, in order, at most `max`. How many, or -1.
int volume_list_kept(struct volume *volume, uint64_t above, uint64_t *ret, unsigned max,
                     struct err *err);
// Bytes on a disk, 0 where the kernel does not tell.
uint64_t volume_used(struct volume *volume, int kept, uint64_t number);

// The kernel's files that tell how full a disk is: bytes used, bytes allowed. 0, or -1 where the
// kernel does not show them.
int volume_gauges(struct volume *volume, int disk_fd, int ret_fds[2]);

// A tmpfs of that size, its files owned by `host_uid`. The descriptor is its mount.
int tmpfs_make(uint64_t bytes, uint32_t host_uid, struct err *err);
