// SPDX-License-Identifier: Apache-2.0
// The data directory, and a volume of disks made for a moment to see whether one could be.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/btrfs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "box/data.h"
#include "box/disk.h"
#include "box/root.h"
#include "box/tree.h"
#include "cli/doctor.h"

#ifndef XFS_SUPER_MAGIC
#    define XFS_SUPER_MAGIC 0x58465342
#endif
#define ZFS_SUPER_MAGIC 0x2fc12fc1

// --- places ---

const char *filesystem_name(int fd)
{
    static const struct {
        unsigned magic;
        const char *name;
    } table[] = {
        {EXT4_SUPER_MAGIC,      "ext4"     },
        {XFS_SUPER_MAGIC,       "XFS"      },
        {BTRFS_SUPER_MAGIC,     "Btrfs"    },
        {TMPFS_MAGIC,           "tmpfs"    },
        {OVERLAYFS_SUPER_MAGIC, "overlayfs"},
        {F2FS_SUPER_MAGIC,      "F2FS"     },
        {NFS_SUPER_MAGIC,       "NFS"      },
        {FUSE_SUPER_MAGIC,      "FUSE"     },
        {ZFS_SUPER_MAGIC,       "ZFS"      },
        {SQUASHFS_MAGIC,        "SquashFS" },
    };
    struct statfs fs;
    for (unsigned i = 0; fstatfs(fd, &fs) == 0 && i < sizeof table / sizeof *table; i++) {
        if ((unsigned)fs.f_type == table[i].magic)
            return table[i].name;
    }
    return "this file system";
}

static int open_parent(const char *path)
{
    char above[4096];
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    while (len > 0 && path[len - 1] != '/')
        len--;
    if (len >= sizeof above)
        return -ENAMETOOLONG;
    (void)snprintf(above, sizeof above, "%.*s", (int)len, path);
    int fd = open(len > 0 ? above : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int data_place(const struct doctor *doctor, bool *ret_exists)
{
    int fd = open(doctor->data, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return -errno;
    *ret_exists = fd >= 0;
    return fd >= 0 ? fd : open_parent(doctor->data);
}

static void random_name(char *ret, size_t size)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number = (uint64_t)clock_ns();
    (void)snprintf(ret, size, ".doctor-%016" PRIx64, number);
}

// A file without a name, where the file system has such, or one whose name is gone at once.
static int open_nameless(int place)
{
    char name[32];
    int fd = openat(place, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return fd < 0 ? -errno : fd;
    random_name(name, sizeof name);
    fd = openat(place, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    (void)unlinkat(place, name, 0);
    return fd;
}

int data_writable(int place)
{
    static const char block[64 * 1024];
    auto_fd fd = open_nameless(place);
    int r = fd < 0 ? fd : 0;
    for (int i = 0; r == 0 && i < 16; i++)
        r = fd_write_all(fd, block, sizeof block);
    return r;
}

int scratch_make(int base, struct scratch *ret, struct err *err)
{
    struct scratch s = {.base = base, .fd = -1};
    random_name(s.name, sizeof s.name);
    if (mkdirat(base, s.name, 0700) < 0)
        return err_sys(err, errno, "make a directory");
    s.fd = openat(base, s.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (s.fd < 0) {
        (void)err_sys(err, errno, "open a directory");
        (void)unlinkat(base, s.name, AT_REMOVEDIR);
        return -1;
    }
    *ret = s;
    return 0;
}

void scratch_done(struct scratch *scratch)
{
    fd_close(scratch->fd);
    (void)tree_remove(scratch->base, scratch->name);
}

// --- the data directory ---

static void cannot_open(const struct doctor *doctor, int why, struct finding *ret)
{
    if (why == ENOENT)
        found(ret, DOCTOR_MISSING, "neither '%s' nor the directory above it exists", doctor->data);
    else if (why == ENOTDIR)
        found(ret, DOCTOR_MISSING, "'%s' is not a directory", doctor->data);
    else
        found(ret, DOCTOR_MISSING, "'%s': %s", doctor->data, errno_text(why));
    advise(ret, "make it, or choose another with --data or CAY_DATA");
}

static void check_writing(int place, struct finding *ret)
{
    int r = data_writable(place);
    if (r == -ENOSPC || r == -EDQUOT) {
        found(ret, DOCTOR_MISSING, "its file system is full");
        advise(ret, "free some space, or choose another place with --data or CAY_DATA");
    } else if (r < 0) {
        found(ret, DOCTOR_MISSING, "nothing can be written to it: %s", errno_text(-r));
        advise(ret, "choose another place with --data or CAY_DATA");
    }
}

static void check_space(int place, struct finding *ret)
{
    struct statvfs st;
    if (fstatvfs(place, &st) < 0) {
        found(ret, DOCTOR_MISSING, "its file system cannot be looked at: %s", errno_text(errno));
        return;
    }
    if (st.f_flag & ST_RDONLY) {
        found(ret, DOCTOR_MISSING, "on a read-only file system");
        advise(ret, "mount it for writing, or choose another place with --data or CAY_DATA");
        return;
    }
    uint64_t bytes = (uint64_t)st.f_bavail * st.f_frsize;
    found(ret, DOCTOR_OK, "%s free on %s", size_text(bytes).text, filesystem_name(place));
    if (geteuid() == 0)
        check_writing(place, ret);
    if (bytes < DATA_SPARE && ret->state == DOCTOR_OK) {
        found(ret, DOCTOR_NOTE, "too little for a volume of disks, which wants %s",
              size_text(DATA_SPARE).text);
        advise(ret, "free some space, or choose another place with --data or CAY_DATA");
    }
}

void check_data(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    bool exists;
    auto_fd place = data_place(doctor, &exists);
    if (place < 0) {
        cannot_open(doctor, -place, ret);
        return;
    }
    found(ret, DOCTOR_OK, "'%s'%s", doctor->data,
          exists ? "" : ", not there yet, is made at first use");
    if (exists && doctor->root) { // who owns it, who may write to it
        struct err err = {0};
        auto_fd fd = data_open(doctor->data, &err);
        if (fd < 0) {
            found(ret, DOCTOR_MISSING, "%s", err.msg);
            advise(ret, "give it to root alone (chown root, chmod 0711)");
        }
    }
    check_space(place, ret);
}

// --- a volume ---

enum {
    VOLUME_BYTES = 256 << 20,
    QUOTA_BYTES = 8 << 20,
};

// Writes until it is refused. How much was taken, or -errno when something else stopped it.
static int64_t fill(int disk)
{
    static const char block[128 * 1024];
    auto_fd fd = openat(disk, "full", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    for (int64_t done = 0; done < 3 * QUOTA_BYTES;) {
        int r = fd_write_all(fd, block, sizeof block);
        if (r == -EDQUOT)
            return done;
        if (r < 0)
            return r;
        done += (int64_t)sizeof block;
    }
    return INT64_MAX;
}

static void check_quota(int disk, struct finding *ret)
{
    int64_t taken = fill(disk);
    if (taken == INT64_MAX) {
        found(ret, DOCTOR_MISSING, "a quota of %s is not enforced", size_text(QUOTA_BYTES).text);
    } else if (taken < 0) {
        found(ret, DOCTOR_MISSING, "writing to a disk: %s", errno_text((int)-taken));
    } else {
        found(ret, DOCTOR_OK,
              "made and mounted on a loop device; a quota of %s stopped writing at %s",
              size_text(QUOTA_BYTES).text, size_text((uint64_t)taken).text);
    }
}

static void check_quota_kind(int disk, struct finding *ret)
{
    struct btrfs_ioctl_fs_info_args info = {0};
    char path[128], mode[32] = "", *p = path, *end = path + sizeof path;
    if (ioctl(disk, BTRFS_IOC_FS_INFO, &info) < 0)
        return;
    p += snprintf(p, (size_t)(end - p), "/sys/fs/btrfs/");
    for (int i = 0; i < BTRFS_FSID_SIZE; i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        p += snprintf(p, (size_t)(end - p), "%s%02x", dash, info.fsid[i]);
    }
    (void)snprintf(p, (size_t)(end - p), "/qgroups/mode");
    (void)fd_read_file(AT_FDCWD, path, mode, sizeof mode);
    if (strncmp(mode, "squota", 6) == 0 || strncmp(mode, "simple", 6) == 0) {
        found(ret, DOCTOR_OK, "simple quotas");
    } else {
        found(ret, DOCTOR_NOTE,
              "full quotas, which slow down as snapshots gather (Linux 6.7 has simple "
              "ones)");
        advise(ret, "boot Linux 6.7 or later before the volume is first made");
    }
}

static void check_disk(int lower, struct volume *volume, struct finding *ret)
{
    struct err err = {0};
    auto_fd disk = volume_make_blank(volume, 1, QUOTA_BYTES, &err);
    // Owners shifted, as boxes have it that keep their files.
    struct root_disk options = {.fd = disk, .idmap = 1};
    if (disk < 0 || doctor_root(lower, &options, &err) < 0) {
        found(ret, DOCTOR_MISSING, "%s", err.msg);
        return;
    }
    check_quota(disk, ret);
    check_quota_kind(disk, ret);
    fd_close(TAKE_FD(disk));
    if (volume_drop_blank(volume, 1, &err) < 0)
        found(ret, DOCTOR_MISSING, "%s", err.msg);
}

static void check_volume(int base, struct finding *ret)
{
    struct scratch scratch;
    struct volume *volume = NULL;
    struct err err = {0};
    if (scratch_make(base, &scratch, &err) < 0) {
        found(ret, DOCTOR_MISSING, "%s", err.msg);
        return;
    }
    auto_fd lower = fcntl(scratch.fd, F_DUPFD_CLOEXEC, 3);
    int r = volume_open(scratch.fd, VOLUME_BYTES, &volume, &err);
    if (r < 0) {
        found(ret, DOCTOR_MISSING, "%s", err.msg);
    } else {
        (void)unlinkat(scratch.fd, "volume.btrfs", 0); // gone, whatever happens to us now
        check_disk(lower, volume, ret);
    }
    volume_free(volume);
    fd_close(TAKE_FD(lower));
    scratch_done(&scratch);
}

static bool is_roomy(int place)
{
    struct statvfs st;
    return place >= 0 && fstatvfs(place, &st) == 0 &&
           (uint64_t)st.f_bavail * st.f_frsize >= DATA_SPARE && data_writable(place) == 0;
}

// What would fail in the middle with a poorer message.
static bool has_parts(struct finding *ret)
{
    auto_fd control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0) {
        found(ret, DOCTOR_MISSING, "no loop devices (/dev/loop-control: %s)", errno_text(errno));
        advise(ret, "modprobe loop; in a container, pass the devices in");
    }
    auto_fd fs = fsopen("btrfs", FSOPEN_CLOEXEC);
    if (fs < 0) {
        int e = errno;
        found(ret, DOCTOR_MISSING, "%s: %s", e == ENODEV ? "no Btrfs in this kernel" : "fsopen",
              errno_text(e));
        advise(ret, e == ENODEV ? "modprobe btrfs, or use a kernel with CONFIG_BTRFS_FS"
                                : "in a container, allow mounts (--privileged)");
    }
    return control >= 0 && fs >= 0;
}

static void check_volume_somewhere(const struct doctor *doctor, struct finding *ret)
{
    bool exists;
    auto_fd place = data_place(doctor, &exists);
    if (is_roomy(place)) {
        check_volume(place, ret);
        return;
    }
    auto_fd other = open("/var/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    check_volume(other, ret);
    found(ret, DOCTOR_OK, "tried in /var/tmp, since the data directory would not do");
}

void check_btrfs(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    int r = own_mounts();
    if (r < 0)
        found(ret, DOCTOR_MISSING, "make a mount namespace: %s", errno_text(-r));
    else if (has_parts(ret))
        check_volume_somewhere(doctor, ret);
    if (ret->state == DOCTOR_MISSING)
        found(ret, DOCTOR_MISSING, "boxes get disks in memory, which end with them");
}
