// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
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
#include "box/tool.h"
#include "box/volume-internal.h"

enum { HOST_SPARE_BYTES = 256 * 1024 * 1024 }; // the host's own file system keeps at least this

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

// Small tree blocks: a snapshot copies the top block of a disk's tree and counts one more reference
// to everything that this names. Where the whole tree is one block of 16 KiB, as of a disk with a
// few large files, these are all its extents; with 4 KiB they are blocks below, and few. A commit
// writes a quarter, too.
static int run_mkfs(const char *path, struct err *err)
{
    static const char *const envp[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    const char *const argv[] = {"mkfs.btrfs", "-q", "-f", "-K", "-n", "4096", path, NULL};
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

// --- the volume as a whole ---

// Those that are for many at once have shards.
static int open_places(struct volume *v, struct err *err)
{
    const struct {
        const char *name;
        int *fd;
        int sharded;
    } places[] = {
        {"blank",  &v->blank,  0},
        {"kept",   &v->kept,   0},
        {"snaps",  &v->snaps,  1},
        {"making", &v->making, 1},
        {"forge",  &v->forge,  1},
    };
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        *places[i].fd = volume_open_dir(v->root, places[i].name, err);
        if (*places[i].fd < 0 || (places[i].sharded && volume_make_shards(*places[i].fd, err) < 0))
            return -1;
    }
    return 0;
}

static int open_inside(struct volume *v, struct err *err)
{
    struct btrfs_ioctl_fs_info_args info = {0};
    v->root = openat(v->mnt, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (v->root < 0)
        return err_sys(err, errno, "open the volume");
    if (volume_enable_quota(v, err) < 0)
        return -1;
    if (volume_ioctl(v->root, BTRFS_IOC_FS_INFO, &info) < 0)
        return err_sys(err, errno, "look at the volume");
    memcpy(v->fsid, info.fsid, sizeof v->fsid);
    return open_places(v, err) < 0 ? -1 : volume_gather(v, err);
}

static struct volume *new_volume(struct err *err)
{
    struct volume *v = malloc(sizeof *v);
    if (v == NULL)
        (void)err_sys(err, ENOMEM, "volume");
    else
        *v = (struct volume){
            .file = -1,
            .mnt = -1,
            .root = -1,
            .blank = -1,
            .kept = -1,
            .snaps = -1,
            .making = -1,
            .forge = -1,
        };
    return v;
}

int volume_open(int data_fd, uint64_t bytes, struct volume **ret, struct err *err)
{
    struct volume *v = new_volume(err);
    if (v == NULL)
        return -1;
    v->file = open_file(data_fd, bytes, err);
    v->mnt = v->file < 0 ? -1 : mount_volume(v->file, err);
    if (v->mnt < 0 || open_inside(v, err) < 0 || volume_sweep_blank(v, err) < 0 ||
        volume_sweep(v, err) < 0) {
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

int volume_write_down(struct volume *v, struct err *err)
{
    return syncfs(v->root) < 0 ? err_sys(err, errno, "write the volume down") : 0;
}

void volume_free(struct volume *v)
{
    if (v == NULL)
        return;
    fd_close(v->blank);
    fd_close(v->kept);
    fd_close(v->snaps);
    fd_close(v->making);
    fd_close(v->forge);
    fd_close(v->root);
    fd_close(v->mnt);
    fd_close(v->file);
    free(v);
}
