// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/weaken.h"
#include "box/disk.h"
#include "box/tool.h"

#ifndef BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA
#    define BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA 4 // Linux 6.7
#endif

enum { HOST_SPARE_BYTES = 256 * 1024 * 1024 }; // the host's own file system keeps at least this

struct volume {
    int file; // locked: one keeper per data directory
    int mnt;  // detached: a place, and what keeps it mounted
    int root; // its top directory, opened for ioctls
    int blank, kept;
    uint8_t fsid[BTRFS_FSID_SIZE];
};

// --- making and mounting ---

static int check_host_space(int data_fd, struct err *err)
{
    struct statvfs st;
    if (fstatvfs(data_fd, &st) < 0)
        return err_sys(err, errno, "look at the data directory's file system");
    if (st.f_flag & ST_RDONLY)
        return err_set(err, ERR_DENIED, "the data directory is on a read-only file system");
    if ((uint64_t)st.f_bavail * st.f_frsize < HOST_SPARE_BYTES)
        return err_set(err, ERR_EXHAUSTED,
                       "the data directory's file system has less than 256 MiB free");
    return 0;
}

static int run_mkfs(const char *path, struct err *err)
{
    static const char *const envp[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    const char *const argv[] = {"mkfs.btrfs", "-q", "-f", "-K", path, NULL};
    struct tool tool = {
        .argv = argv, .envp = envp, .fds = {-1, -1, -1}
    };
    int pidfd = tool_start(&tool, err);
    if (pidfd < 0)
        return -1;
    int code = tool_wait(pidfd);
    if (code == TOOL_BROKEN)
        return err_set(err, ERR_UNSUPPORTED, "mkfs.btrfs is missing: install btrfs-progs");
    return code == 0 ? 0 : err_set(err, ERR_INTERNAL, "mkfs.btrfs failed with code %d", code);
}

// Made under another name first, so that a crash never leaves half a volume.
static int make_file(int data_fd, uint64_t bytes, struct err *err)
{
    auto_fd fd =
        openat(data_fd, "volume.new", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(err, errno, "make the volume in the data directory");
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), fd);
    if (ftruncate(fd, (off_t)bytes) < 0)
        (void)err_sys(err, errno, "make the volume in the data directory");
    else if (run_mkfs(path, err) == 0 && fsync(fd) == 0 &&
             renameat(data_fd, "volume.new", data_fd, "volume.btrfs") == 0)
        return 0;
    else if (err->code == ERR_NONE)
        (void)err_sys(err, errno, "make the volume in the data directory");
    (void)unlinkat(data_fd, "volume.new", 0);
    return -1;
}

// The loop device of a keeper that has just ended holds the file, and so the lock, until the last
// mount of its boxes is gone.
static int lock_file(int fd)
{
    enum { TRIES = 300, TRY_MS = 10 };
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (i == TRIES)
            return -1;
        (void)nanosleep(&(struct timespec){.tv_nsec = TRY_MS * 1000000}, NULL);
    }
    return 0;
}

static int open_file(int data_fd, uint64_t bytes, struct err *err)
{
    int fd = openat(data_fd, "volume.btrfs", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT) {
        if (check_host_space(data_fd, err) < 0 || make_file(data_fd, bytes, err) < 0)
            return -1;
        fd = openat(data_fd, "volume.btrfs", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    }
    if (fd < 0)
        return err_sys(err, errno, "open the volume of the data directory");
    if (lock_file(fd) < 0) {
        fd_close(fd);
        return err_set(err, ERR_CONFLICT, "another cay is using this data directory");
    }
    return fd;
}

// A loop device that detaches itself when its last user goes. Returns its descriptor and name.
static int attach_loop(int file, char *ret_name, size_t size, struct err *err)
{
    auto_fd control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0)
        return err_sys(err, errno, "open /dev/loop-control");
    for (int tries = 0; tries < 64; tries++) { // others take free devices between the two calls
        int n = ioctl(control, LOOP_CTL_GET_FREE);
        if (n < 0)
            return err_sys(err, errno, "find a free loop device");
        (void)snprintf(ret_name, size, "/dev/loop%d", n);
        auto_fd loop = open(ret_name, O_RDWR | O_CLOEXEC);
        struct loop_config config = {
            .fd = (uint32_t)file,
            .info = {.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO},
        };
        if (loop >= 0 && ioctl(loop, LOOP_CONFIGURE, &config) == 0)
            return TAKE_FD(loop);
        config.info.lo_flags = LO_FLAGS_AUTOCLEAR; // the host's file system may not do direct I/O
        if (loop >= 0 && errno != EBUSY && ioctl(loop, LOOP_CONFIGURE, &config) == 0)
            return TAKE_FD(loop);
        if (errno != EBUSY)
            return err_sys(err, errno, "attach the volume to %s", ret_name);
    }
    return err_set(err, ERR_EXHAUSTED, "no free loop device");
}

static int mount_volume(int file, struct err *err)
{
    char name[32];
    auto_fd loop = attach_loop(file, name, sizeof name, err);
    if (loop < 0)
        return -1;
    auto_fd fs = fsopen("btrfs", FSOPEN_CLOEXEC);
    if (fs < 0)
        return err_sys(err, errno, "this kernel has no Btrfs");
    if (fsconfig(fs, FSCONFIG_SET_STRING, "source", name, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return err_sys(err, errno, "mount the volume");
    int fd =
        fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME);
    return fd < 0 ? err_sys(err, errno, "mount the volume") : fd;
}

static int enable_quota(int root, struct err *err)
{
    struct btrfs_ioctl_quota_ctl_args args = {.cmd = BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA};
    if (ioctl(root, BTRFS_IOC_QUOTA_CTL, &args) == 0 || errno == EEXIST)
        return 0;
    args.cmd = BTRFS_QUOTA_CTL_ENABLE; // before Linux 6.7
    if (ioctl(root, BTRFS_IOC_QUOTA_CTL, &args) == 0 || errno == EEXIST)
        return 0;
    return err_sys(err, errno, "enable quotas on the volume");
}

static int open_dir(int root, const char *name, struct err *err)
{
    if (mkdirat(root, name, 0700) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make '%s' on the volume", name);
    int fd = openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_sys(err, errno, "open '%s' on the volume", name) : fd;
}

// --- disks ---

// Makes or removes the subvolume `name` of a directory.
static int name_ioctl(int dir, unsigned long what, const char *name)
{
    struct btrfs_ioctl_vol_args args = {0};
    (void)snprintf(args.name, sizeof args.name, "%s", name);
    return ioctl(dir, (int)what, &args); // musl takes an int, and the kernel 32 bits
}

static int drop(int dir, uint64_t number, struct err *err)
{
    char name[24];
    (void)snprintf(name, sizeof name, "%" PRIu64, number);
    if (name_ioctl(dir, BTRFS_IOC_SNAP_DESTROY, name) < 0 && errno != ENOENT)
        return err_sys(err, errno, "remove disk %s", name);
    return 0;
}

static int sweep_blank(int blank, struct err *err)
{
    DIR *dir = fdopendir(fcntl(blank, F_DUPFD_CLOEXEC, 3));
    if (dir == NULL)
        return err_sys(err, errno, "list disks");
    int r = 0;
    for (struct dirent *e; r == 0 && (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] != '.')
            r = drop(blank, strtoull(e->d_name, NULL, 10), err);
    }
    (void)closedir(dir);
    return r;
}

// Asked of the volume's top: on the disk itself the kernel has no room for it when that is full.
int volume_limit(struct volume *v, int disk_fd, uint64_t bytes, struct err *err)
{
    struct btrfs_ioctl_ino_lookup_args lookup = {.objectid = BTRFS_FIRST_FREE_OBJECTID};
    if (ioctl(disk_fd, BTRFS_IOC_INO_LOOKUP, &lookup) < 0)
        return err_sys(err, errno, "look up a disk");
    struct btrfs_ioctl_qgroup_limit_args args = {
        .qgroupid = lookup.treeid,
        .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes},
    };
    if (!weaken(WEAKEN_DISK) && ioctl(v->root, BTRFS_IOC_QGROUP_LIMIT, &args) < 0)
        return err_sys(err, errno, "limit a disk to %" PRIu64 " bytes", bytes);
    return 0;
}

static int open_limited(struct volume *v, int dir, const char *name, uint64_t bytes,
                        struct err *err)
{
    auto_fd fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_sys(err, errno, "open disk %s", name);
    return volume_limit(v, fd, bytes, err) < 0 ? -1 : TAKE_FD(fd);
}

int volume_make_blank(struct volume *v, uint64_t number, uint64_t bytes, struct err *err)
{
    char name[24];
    (void)snprintf(name, sizeof name, "%" PRIu64, number);
    if (name_ioctl(v->blank, BTRFS_IOC_SUBVOL_CREATE, name) < 0)
        return err_sys(err, errno, "make disk %s", name);
    return open_limited(v, v->blank, name, bytes, err);
}

int volume_open_kept(struct volume *v, uint64_t number, uint64_t bytes, struct err *err)
{
    char name[24];
    (void)snprintf(name, sizeof name, "%" PRIu64, number);
    if (faccessat(v->kept, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
        name_ioctl(v->kept, BTRFS_IOC_SUBVOL_CREATE, name) < 0)
        return err_sys(err, errno, "make disk %s", name);
    return open_limited(v, v->kept, name, bytes, err);
}

int volume_open_disk(struct volume *v, int kept, uint64_t number, struct err *err)
{
    char name[24];
    (void)snprintf(name, sizeof name, "%" PRIu64, number);
    int fd =
        openat(kept ? v->kept : v->blank, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_sys(err, errno, "open disk %s", name) : fd;
}

int volume_keep_blank(struct volume *v, uint64_t number, uint64_t kept, struct err *err)
{
    char from[24], to[24];
    (void)snprintf(from, sizeof from, "%" PRIu64, number);
    (void)snprintf(to, sizeof to, "%" PRIu64, kept);
    if (renameat2(v->blank, from, v->kept, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno == EEXIST)
        return err_set(err, ERR_CONFLICT, "disk %s exists", to);
    return err_sys(err, errno, "keep disk %s", to);
}

int volume_drop_blank(struct volume *v, uint64_t number, struct err *err)
{
    return drop(v->blank, number, err);
}

int volume_drop_kept(struct volume *v, uint64_t number, struct err *err)
{
    return drop(v->kept, number, err);
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

// All numbers above one, sorted. The caller frees them.
static int read_numbers(DIR *dir, uint64_t above, uint64_t **ret)
{
    size_t n = 0, room = 0;
    uint64_t *numbers = NULL;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char *end;
        uint64_t number = strtoull(e->d_name, &end, 10);
        if (e->d_name[0] == '.' || *end != '\0' || number <= above)
            continue;
        if (n == room) {
            room = room > 0 ? room * 2 : 256;
            uint64_t *more = reallocarray(numbers, room, sizeof *numbers);
            if (more == NULL) {
                free(numbers);
                return -ENOMEM;
            }
            numbers = more;
        }
        numbers[n++] = number;
    }
    if (n > 0)
        qsort(numbers, n, sizeof *numbers, compare_numbers);
    *ret = numbers;
    return n < INT32_MAX ? (int)n : INT32_MAX;
}

int volume_list_kept(struct volume *v, uint64_t above, uint64_t *ret, unsigned max, struct err *err)
{
    int fd = openat(v->kept, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        fd_close(fd);
        return err_sys(err, errno, "list disks");
    }
    uint64_t *numbers = NULL;
    int n = read_numbers(dir, above, &numbers);
    (void)closedir(dir);
    if (n < 0)
        return err_sys(err, -n, "list disks");
    n = (unsigned)n < max ? n : (int)max;
    if (n > 0)
        memcpy(ret, numbers, (size_t)n * sizeof *ret);
    free(numbers);
    return n;
}

// The kernel's directory about a disk's quota.
static int open_qgroup(struct volume *v, int disk_fd)
{
    struct btrfs_ioctl_ino_lookup_args lookup = {.objectid = BTRFS_FIRST_FREE_OBJECTID};
    if (ioctl(disk_fd, BTRFS_IOC_INO_LOOKUP, &lookup) < 0)
        return -1;
    char path[128], *p = path, *end = path + sizeof path;
    p += snprintf(p, (size_t)(end - p), "/sys/fs/btrfs/");
    for (int i = 0; i < BTRFS_FSID_SIZE; i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        p += snprintf(p, (size_t)(end - p), "%s%02x", dash, v->fsid[i]);
    }
    (void)snprintf(p, (size_t)(end - p), "/qgroups/0_%llu", (unsigned long long)lookup.treeid);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
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
uint64_t volume_used(struct volume *v, int kept, uint64_t number)
{
    struct err ignored;
    auto_fd fd = volume_open_disk(v, kept, number, &ignored);
    auto_fd dir = fd < 0 ? -1 : open_qgroup(v, fd);
    return dir < 0 ? 0 : read_number(dir, "referenced") + read_number(dir, "rsv_data");
}

// --- the volume as a whole ---

static int open_inside(struct volume *v, struct err *err)
{
    struct btrfs_ioctl_fs_info_args info = {0};
    v->root = openat(v->mnt, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (v->root < 0)
        return err_sys(err, errno, "open the volume");
    if (enable_quota(v->root, err) < 0)
        return -1;
    if (ioctl(v->root, BTRFS_IOC_FS_INFO, &info) < 0)
        return err_sys(err, errno, "look at the volume");
    memcpy(v->fsid, info.fsid, sizeof v->fsid);
    v->blank = open_dir(v->root, "blank", err);
    v->kept = v->blank < 0 ? -1 : open_dir(v->root, "kept", err);
    return v->kept < 0 ? -1 : 0;
}

static struct volume *new_volume(struct err *err)
{
    struct volume *v = malloc(sizeof *v);
    if (v == NULL)
        (void)err_sys(err, ENOMEM, "volume");
    else
        *v = (struct volume){.file = -1, .mnt = -1, .root = -1, .blank = -1, .kept = -1};
    return v;
}

int volume_open(int data_fd, uint64_t bytes, struct volume **ret, struct err *err)
{
    struct volume *v = new_volume(err);
    if (v == NULL)
        return -1;
    v->file = open_file(data_fd, bytes, err);
    v->mnt = v->file < 0 ? -1 : mount_volume(v->file, err);
    if (v->mnt < 0 || open_inside(v, err) < 0 || sweep_blank(v->blank, err) < 0) {
        volume_free(v);
        return -1;
    }
    *ret = v;
    return 0;
}

void volume_descriptors(const struct volume *v, int ret_fds[2])
{
    ret_fds[0] = v->file;
    ret_fds[1] = v->mnt;
}

int volume_adopt(const int fds[2], struct volume **ret, struct err *err)
{
    struct volume *v = new_volume(err);
    if (v == NULL)
        return -1;
    v->file = fds[0];
    v->mnt = fds[1];
    if (open_inside(v, err) < 0) {
        v->file = v->mnt = -1;
        volume_free(v);
        return -1;
    }
    *ret = v;
    return 0;
}

void volume_free(struct volume *v)
{
    if (v == NULL)
        return;
    fd_close(v->blank);
    fd_close(v->kept);
    fd_close(v->root);
    fd_close(v->mnt);
    fd_close(v->file);
    free(v);
}
