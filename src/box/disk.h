// SPDX-License-Identifier: Apache-2.0
// What a box writes to. The volume is one Btrfs file system in the data directory (a sparse file on
// a loop device), mounted detached: nobody but this process and what it hands out can reach it, and
// it is gone with the process. A disk is a subvolume of it with a quota. Where there is no volume a
// tmpfs of limited size serves boxes that may lose their files.
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "wire/keeper-msg.h"

struct volume;

// Opens the volume of a data directory, making it (sparse, `bytes` large) if there is none. Disks
// that were to go with their box, and whose box a crash has ended, are removed.
int volume_open(int data_fd, uint64_t bytes, struct volume **ret, struct err *err);
void volume_free(struct volume *volume);
// Room on the host for what the file system itself has to write, as far as `spare` bytes stay free
// there: without it, it would turn read-only when the host is full.
void volume_ground(struct volume *volume, uint64_t spare);
int volume_write_down(struct volume *volume, struct err *err); // all of it; may take long

// A volume outlives the program that opened it: the next gets these two descriptors, which stay the
// volume's, and goes on with all disks as they are. On failure volume_adopt leaves them alone.
void volume_descriptors(const struct volume *volume, int ret_fds[2]);
int volume_adopt(const int fds[2], struct volume **ret, struct err *err);

// A disk's number and place make its name; blank ones have numbers of their own. The descriptor is
// the caller's.
int volume_make_blank(struct volume *volume, uint64_t number, uint64_t bytes, struct err *err);
int volume_open_kept(struct volume *volume, uint64_t number, uint64_t bytes, struct err *err);
int volume_open_blank(struct volume *volume, uint64_t number, struct err *err);
int volume_open_disk(struct volume *volume, struct disk_ref disk, struct err *err);
int volume_has(const struct volume *volume, struct disk_ref disk); // whether it is there
int volume_limit(struct volume *volume, int disk_fd, uint64_t bytes, struct err *err);
// A blank disk, in use or not, becomes the kept one of that number. ERR_CONFLICT if there is one.
int volume_keep_blank(struct volume *volume, uint64_t number, uint64_t kept, struct err *err);
int volume_drop_blank(struct volume *volume, uint64_t number, struct err *err);
int volume_drop(struct volume *volume, struct disk_ref disk, struct err *err);

// These wait for the disk; one that is killed meanwhile has done it, or leaves at most what
// volume_sweep removes.
struct volume_copy {
    struct disk_ref from, to;
    uint64_t bytes;          // that may be written to the copy, unless it is a snapshot
    unsigned shard;          // those with different ones do not wait for each other
    int alone;               // no other is under way: it need not be out of anybody's way
    void (*made)(void *arg); // the instant is over, all that follows is about the copy; or NULL
    void *arg;
};
// ERR_NOT_FOUND without `from`, but of PLACE_KEPT: then the copy is empty. ERR_CONFLICT with `to`.
struct volume_copied {
    uint64_t bytes; // those that count for `from`, at the instant of the copy
    struct disk_version version;
};
int volume_copy(struct volume *volume, const struct volume_copy *how, struct volume_copied *ret,
                struct err *err);
// `from` is `to` afterwards, and what was there is gone. After a power cut it is one or the other,
// with all that was written before: what others than boxes write to one in PLACE_MAKING, after they
// have said so.
int volume_will_write(int disk_fd, struct err *err);
int volume_move(struct volume *volume, struct disk_ref from, struct disk_ref to, struct err *err);
// Removes all that is in PLACE_MAKING, or was on its way.
int volume_sweep(struct volume *volume, struct err *err);

// The lowest numbers in that place above that one, in order, at most `max`. How many, or -1.
int volume_list(struct volume *volume, struct disk_ref above, uint64_t *ret, unsigned max,
                struct err *err);

struct volume_space { // bytes
    uint64_t size, used;
    uint64_t host_free;
    uint64_t writable; // by all disks together
    uint64_t idle;     // what the host still holds for the volume, which has no use for it
};
// `spare` is what the host's file system keeps.
int volume_space(struct volume *volume, uint64_t spare, struct volume_space *ret, struct err *err);
// Holds all disks together to that, where the kernel can.
int volume_confine(struct volume *volume, const struct volume_space *space, struct err *err);
// Gives the host back what the volume has no use for: the kernel does so by itself, but takes
// minutes.
int volume_trim(struct volume *volume, struct err *err);
// Has the kernel free what dropped disks held, without waiting for it. Not once, but a few times.
void volume_hurry(struct volume *volume);
// Lets the kernel forget what it counted for disks that are gone. How many.
unsigned volume_forget_groups(struct volume *volume);

// Bytes that a disk holds, whoever wrote them; what is only on its way there is not seen. It takes
// time, by the number of files.
int volume_count(struct volume *volume, struct disk_ref disk, uint64_t *ret_bytes, struct err *err);

// Bytes that count for a disk, 0 where the kernel does not tell.
uint64_t volume_disk_bytes(struct volume *volume, int disk_fd);

// The kernel's files that tell how full a disk is: bytes used, bytes allowed. 0, or -1 where the
// kernel does not show them.
int volume_gauges(struct volume *volume, int disk_fd, int ret_fds[2]);

// A tmpfs of that size, its files owned by `host_uid`. The descriptor is its mount.
int tmpfs_make(uint64_t bytes, uint32_t host_uid, struct err *err);
