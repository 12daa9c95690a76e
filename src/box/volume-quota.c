// SPDX-License-Identifier: Apache-2.0
// How much each disk may hold, and all of them together. With simple quotas (Linux 6.7) an extent
// counts for the disk that wrote it first, as long as anybody has it. Every disk is made in the
// group 1/1, and a limit on that keeps boxes from filling the volume, or the host's file system
// below it: they get EDQUOT before the file system itself runs out of room, which would make it
// read-only for all. Older kernels have limits for single disks alone.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/btrfs_tree.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/weaken.h"
#include "box/volume-internal.h"

#ifndef BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA
#    define BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA 4 // Linux 6.7
#endif

#define ALL_DISKS    (UINT64_C(1) << 48 | 1)
#define ALL_GATHERED (UINT64_C(1) << 48 | 2)
#define TOP_SUBVOL   UINT64_C(5)
#define MIB          (UINT64_C(1) << 20)
#define BALLAST      (64 * MIB)
#define METADATA_MAX (2048 * MIB) // of the volume that is kept from disks, at most

int volume_enable_quota(struct volume *v, struct err *err)
{
    struct btrfs_ioctl_quota_ctl_args args = {.cmd = BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA};
    if (volume_ioctl(v->root, BTRFS_IOC_QUOTA_CTL, &args) == 0 || errno == EEXIST)
        return 0;
    args.cmd = BTRFS_QUOTA_CTL_ENABLE; // before Linux 6.7
    if (volume_ioctl(v->root, BTRFS_IOC_QUOTA_CTL, &args) == 0 || errno == EEXIST)
        return 0;
    return err_sys(err, errno, "enable quotas on the volume");
}

// --- what the kernel shows ---

// The kernel's directory about the volume's quotas.
static int open_qgroups(const struct volume *v)
{
    char path[128], *p = path, *end = path + sizeof path;
    p += snprintf(p, (size_t)(end - p), "/sys/fs/btrfs/");
    for (int i = 0; i < BTRFS_FSID_SIZE; i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        p += snprintf(p, (size_t)(end - p), "%s%02x", dash, v->fsid[i]);
    }
    (void)snprintf(p, (size_t)(end - p), "/qgroups");
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int disk_id(int disk_fd, uint64_t *ret)
{
    struct btrfs_ioctl_ino_lookup_args lookup = {.objectid = BTRFS_FIRST_FREE_OBJECTID};
    if (volume_ioctl(disk_fd, BTRFS_IOC_INO_LOOKUP, &lookup) < 0)
        return -errno;
    *ret = lookup.treeid;
    return 0;
}

static int open_qgroup(const struct volume *v, int disk_fd)
{
    uint64_t id;
    char name[32];
    auto_fd all = disk_id(disk_fd, &id) < 0 ? -1 : open_qgroups(v);
    if (all < 0)
        return -1;
    (void)snprintf(name, sizeof name, "0_%" PRIu64, id);
    return openat(all, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int volume_gauges(struct volume *v, int disk_fd, int ret_fds[2])
{
    auto_fd dir = open_qgroup(v, disk_fd);
    if (dir < 0)
        return -1;
    auto_fd used = openat(dir, "referenced", O_RDONLY | O_CLOEXEC);
    auto_fd max = openat(dir, "max_referenced", O_RDONLY | O_CLOEXEC);
    if (used < 0 || max < 0)
        return -1;
    ret_fds[0] = TAKE_FD(used);
    ret_fds[1] = TAKE_FD(max);
    return 0;
}

static uint64_t read_number(int dir, const char *file)
{
    char text[32];
    return fd_read_file(dir, file, text, sizeof text) > 0 ? strtoull(text, NULL, 10) : 0;
}

// What was written, and what is about to be: the first alone lags behind by up to half a minute.
uint64_t volume_disk_bytes(struct volume *v, int disk_fd)
{
    auto_fd dir = open_qgroup(v, disk_fd);
    return dir < 0 ? 0 : read_number(dir, "referenced") + read_number(dir, "rsv_data");
}

// --- limits ---

static int set_limit(struct volume *v, uint64_t group, uint64_t bytes)
{
    struct btrfs_ioctl_qgroup_limit_args args = {
        .qgroupid = group,
        .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes},
    };
    return volume_ioctl(v->root, BTRFS_IOC_QGROUP_LIMIT, &args) < 0 ? -errno : 0;
}

// Setting a limit joins a transaction, and waits for a commit that is under way: not where a disk
// has it already, as with every wake.
static int is_limited(const struct volume *v, int disk_fd, uint64_t bytes)
{
    auto_fd dir = open_qgroup(v, disk_fd);
    return dir >= 0 && bytes > 0 && read_number(dir, "max_referenced") == bytes;
}

// Asked of the volume's top: on the disk itself the kernel has no room for it when that is full.
int volume_limit(struct volume *v, int disk_fd, uint64_t bytes, struct err *err)
{
    uint64_t id;
    if (is_limited(v, disk_fd, bytes))
        return 0;
    int r = disk_id(disk_fd, &id);
    if (r < 0)
        return err_sys(err, -r, "look up a disk");
    r = weaken(WEAKEN_DISK) ? 0 : set_limit(v, id, bytes);
    return r < 0 ? err_sys(err, -r, "limit a disk to %" PRIu64 " bytes", bytes) : 0;
}

// --- all together ---

static int join(struct volume *v, uint64_t group)
{
    struct btrfs_ioctl_qgroup_assign_args args = {.assign = 1, .src = group, .dst = ALL_DISKS};
    return volume_ioctl(v->root, BTRFS_IOC_QGROUP_ASSIGN, &args) < 0 ? -errno : 0;
}

// The next group of single disks in the kernel's directory; 0 at its end.
static uint64_t next_disk_group(DIR *dir)
{
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (strncmp(e->d_name, "0_", 2) == 0)
            return strtoull(e->d_name + 2, NULL, 10);
    }
    return 0;
}

static DIR *read_qgroups(const struct volume *v)
{
    int fd = open_qgroups(v);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL)
        fd_close(fd);
    return dir;
}

static int join_all(struct volume *v)
{
    DIR *dir = read_qgroups(v);
    if (dir == NULL)
        return -errno;
    int r = 0;
    for (uint64_t group; r == 0 && (group = next_disk_group(dir)) != 0;) {
        r = group == TOP_SUBVOL ? 0 : join(v, group);
        r = r == -EEXIST ? 0 : r;
    }
    (void)closedir(dir);
    return r;
}

static int is_simple(const struct volume *v)
{
    char mode[16];
    auto_fd dir = open_qgroups(v);
    return dir >= 0 && fd_read_file(dir, "mode", mode, sizeof mode) > 0 &&
           strncmp(mode, "squota", 6) == 0;
}

static int make_group(struct volume *v, uint64_t group)
{
    struct btrfs_ioctl_qgroup_create_args args = {.create = 1, .qgroupid = group};
    int r = volume_ioctl(v->root, BTRFS_IOC_QGROUP_CREATE, &args) < 0 ? -errno : 0;
    return r == -EEXIST ? 0 : r;
}

// An empty group says that all disks of a volume from before are in.
static int is_gathered(const struct volume *v)
{
    auto_fd dir = open_qgroups(v);
    return dir >= 0 && faccessat(dir, "1_2", F_OK, 0) == 0;
}

// But the top: what we do there ourselves, dropping a disk for instance, must be possible when all
// is full.
int volume_gather(struct volume *v, struct err *err)
{
    v->squota = is_simple(v);
    if (!v->squota)
        return 0;
    v->inherit.head = (struct btrfs_qgroup_inherit){.num_qgroups = 1};
    v->inherit.group = ALL_DISKS;
    if (is_gathered(v))
        return 0;
    int r = make_group(v, ALL_DISKS);
    if (r == 0)
        r = join_all(v);
    if (r == 0)
        r = make_group(v, ALL_GATHERED);
    return r < 0 ? err_sys(err, -r, "make the quota of the volume") : 0;
}

void volume_name_group(struct volume *v, struct btrfs_ioctl_vol_args_v2 *args)
{
    if (!v->squota)
        return;
    args->flags |= BTRFS_SUBVOL_QGROUP_INHERIT;
    args->size = sizeof v->inherit;
    args->qgroup_inherit = &v->inherit.head;
}

// --- room ---

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t free_bytes(const struct statvfs *st)
{
    return (uint64_t)st->f_bavail * st->f_frsize;
}

// A volume that cannot write its own records turns read-only, so there is something to throw
// overboard when somebody else has filled the host: blocks past the end of the volume's file.
static void balance(struct volume *v, const struct stat *file, uint64_t free_there)
{
    if (v->has_ballast && free_there < BALLAST / 2) {
        v->has_ballast = 0;
        (void)ftruncate(v->file, file->st_size); // as large as it was, but for these
    } else if (!v->has_ballast && free_there > 3 * BALLAST) {
        v->has_ballast = fallocate(v->file, FALLOC_FL_KEEP_SIZE, file->st_size, BALLAST) == 0;
    }
}

static uint64_t held_by_host(const struct volume *v, const struct stat *file)
{
    return less((uint64_t)file->st_blocks * 512, v->has_ballast ? BALLAST : 0);
}

// What the host has for the volume to grow into; one whose blocks are all there does not grow.
static uint64_t host_room(const struct volume *v, const struct stat *file, uint64_t free_there,
                          uint64_t spare)
{
    if (held_by_host(v, file) >= (uint64_t)file->st_size)
        return UINT64_MAX;
    return less(free_there, spare);
}

int volume_space(struct volume *v, uint64_t spare, struct volume_space *ret, struct err *err)
{
    struct statvfs inside, host;
    struct stat file;
    if (fstatvfs(v->root, &inside) < 0 || fstatvfs(v->file, &host) < 0 || fstat(v->file, &file) < 0)
        return err_sys(err, errno, "look how full the volume is");
    balance(v, &file, free_bytes(&host));
    uint64_t size = (uint64_t)inside.f_blocks * inside.f_frsize;
    uint64_t metadata = size / 10 < METADATA_MAX ? size / 10 : METADATA_MAX;
    uint64_t room = less(free_bytes(&inside), metadata);
    uint64_t below = host_room(v, &file, free_bytes(&host), spare);
    uint64_t taken = less(size, (uint64_t)inside.f_bfree * inside.f_frsize);
    auto_fd all = v->squota ? open_qgroups(v) : -1;
    *ret = (struct volume_space){
        .size = size,
        .used = all >= 0 ? read_number(all, "1_1/referenced") : taken,
        .host_free = free_bytes(&host),
        .writable = room < below ? room : below,
        .idle = less(held_by_host(v, &file), taken),
    };
    return 0;
}

// Not for every byte: a limit that changes is written to the volume.
static int is_worth_it(const struct volume *v, uint64_t limit, uint64_t writable)
{
    uint64_t step = writable < 256 * MIB ? MIB / 4 : 16 * MIB;
    return limit + step <= v->limit || limit >= v->limit + step;
}

int volume_confine(struct volume *v, const struct volume_space *space, struct err *err)
{
    uint64_t limit = space->used + space->writable;
    if (!v->squota || weaken(WEAKEN_DISK) || !is_worth_it(v, limit, space->writable))
        return 0;
    int r = set_limit(v, ALL_DISKS, limit);
    if (r < 0)
        return err_sys(err, -r, "limit the volume to %" PRIu64 " bytes", limit);
    v->limit = limit;
    return 0;
}

int volume_trim(struct volume *v, struct err *err)
{
    struct fstrim_range all = {.len = UINT64_MAX};
    if (volume_ioctl(v->root, FITRIM, &all) < 0 && errno != EOPNOTSUPP)
        return err_sys(err, errno, "trim the volume");
    return 0;
}

// --- what dropped disks have left ---

// Behind a commit the kernel's own thread wakes the one that removes subvolumes, and what that has
// removed is free with the next commit.
void volume_hurry(struct volume *v)
{
    uint64_t commit;
    (void)volume_ioctl(v->root, BTRFS_IOC_START_SYNC, &commit);
}

static int is_gone(const struct volume *v, uint64_t group)
{
    struct btrfs_ioctl_ino_lookup_args lookup = {
        .treeid = group,
        .objectid = BTRFS_FIRST_FREE_OBJECTID,
    };
    return volume_ioctl(v->root, BTRFS_IOC_INO_LOOKUP, &lookup) < 0 && errno == ENOENT;
}

// A group outlives its disk when others have copies of what that wrote. A disk that is there may
// show as empty, too, as long as it is new.
unsigned volume_forget_groups(struct volume *v)
{
    DIR *dir = v->squota ? read_qgroups(v) : NULL;
    unsigned n = 0;
    if (dir == NULL)
        return 0;
    for (uint64_t group; (group = next_disk_group(dir)) != 0;) {
        char file[48];
        (void)snprintf(file, sizeof file, "0_%" PRIu64 "/referenced", group);
        struct btrfs_ioctl_qgroup_create_args args = {.create = 0, .qgroupid = group};
        if (group != TOP_SUBVOL && read_number(dirfd(dir), file) == 0 && is_gone(v, group) &&
            volume_ioctl(v->root, BTRFS_IOC_QGROUP_CREATE, &args) == 0)
            n++;
    }
    (void)closedir(dir);
    return n;
}
