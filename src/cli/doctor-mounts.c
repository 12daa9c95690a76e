// SPDX-License-Identifier: Apache-2.0
// Mounts as boxes have them: made without a place in any tree, stacked by overlayfs, their owners
// shifted to the ids of a box. All of them go with the descriptors of the check's process.
#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/disk.h"
#include "box/root.h"
#include "box/slots.h"
#include "cli/doctor.h"

enum { DISK_BYTES = 4 << 20 };

// --- detached mounts ---

int own_mounts(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -errno;
    root_init();
    return 0;
}

// 0 or -errno, and which call it was.
static int try_detached(const char **ret_step)
{
    struct mount_attr ro = {.attr_set = MOUNT_ATTR_RDONLY};
    *ret_step = "a mount namespace";
    int r = own_mounts();
    if (r < 0)
        return r;
    *ret_step = "fsopen";
    auto_fd fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    *ret_step = "fsmount";
    auto_fd mnt = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (mnt < 0 || mkdirat(mnt, "inside", 0755) < 0)
        return -errno;
    *ret_step = "open_tree";
    auto_fd copy = open_tree(mnt, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (copy < 0)
        return -errno;
    *ret_step = "mount_setattr";
    if (mount_setattr(copy, "", AT_EMPTY_PATH, &ro, sizeof ro) < 0)
        return -errno;
    *ret_step = "move_mount";
    if (move_mount(copy, "", AT_FDCWD, "/dev", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return access("/dev/inside", F_OK) < 0 ? -errno : 0;
}

void check_detached(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    const char *step;
    int r = try_detached(&step);
    if (r == 0) {
        found(ret, DOCTOR_OK, "made, copied, made read-only and moved into place");
        return;
    }
    found(ret, DOCTOR_MISSING, "%s: %s", step, errno_text(-r));
    advise(ret, r == -ENOSYS ? "boot Linux 6.15 or later"
                             : "in a container, allow mounts (--privileged)");
}

// --- overlayfs ---

// Two detached directories, one on the other. Before Linux 6.15 overlayfs takes only those that
// have a place in the mounter's tree.
static int try_detached_layers(void)
{
    struct err err = {0};
    auto_fd fs = fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -errno;
    auto_fd upper = tmpfs_make(DISK_BYTES, 0, &err);
    auto_fd lower = tmpfs_make(DISK_BYTES, 0, &err);
    if (upper < 0 || lower < 0)
        return -err.sys_errno;
    if (fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, upper) < 0 ||
        fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, lower) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    return 0;
}

int doctor_root(int lower, const struct root_disk *disk, struct err *err)
{
    auto_fd userns = doctor_userns(err);
    if (userns < 0)
        return -1;
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
        return err_sys(err, errno, "set securebits");
    struct image image = {.root_fd = lower, .lock_fd = -1};
    struct root root;
    if (root_make(&image, disk, userns, SLOT_ID_BASE, &root, err) < 0)
        return -1;
    // As root of the box: ours is not known there.
    (void)setfsuid(SLOT_ID_BASE);
    (void)setfsgid(SLOT_ID_BASE);
    int r = mkdirat(root.overlay, "written", 0755);
    if (r < 0)
        (void)err_sys(err, errno, "write to an overlay");
    (void)setfsuid(0);
    (void)setfsgid(0);
    root_done(&root);
    return r;
}

// A root as `cay run` makes it, with the place of the data directory for an image. 0 or -1.
static int try_root(const struct doctor *doctor, int durable, struct err *err)
{
    bool exists;
    int r = own_mounts();
    if (r < 0)
        return err_sys(err, -r, "make a mount namespace");
    auto_fd place = data_place(doctor, &exists);
    if (place < 0) // told by its own check
        place = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_fd disk_fd = tmpfs_make(DISK_BYTES, SLOT_ID_BASE, err);
    if (disk_fd < 0)
        return -1;
    struct root_disk disk = {.fd = disk_fd, .durable = durable};
    return doctor_root(place, &disk, err);
}

void check_overlay(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    struct err err = {0};
    int detached = try_detached_layers();
    if (try_root(doctor, 0, &err) < 0 && try_root(doctor, 1, &err) < 0) {
        found(ret, DOCTOR_MISSING, "%s", err.msg);
        if (detached == -ENODEV)
            advise(ret, "modprobe overlay, or use a kernel with CONFIG_OVERLAY_FS");
        else if (detached == -EPERM)
            advise(ret, "in a container, allow mounts (--privileged)");
        else if (detached < 0 && !kernel_at_least(6, 15))
            advise(ret, "boot Linux 6.15 or later, where layers need no place in a tree");
        else
            advise(ret, "look at the last lines of dmesg, where overlayfs says more");
    } else if (detached < 0) {
        found(ret, DOCTOR_NOTE,
              "works, but not on detached layers, which Linux 6.15 brought: they are "
              "attached for a moment instead, and a box takes longer to make");
        advise(ret, "boot Linux 6.15 or later");
    } else {
        found(ret, DOCTOR_OK, "mounted and written to, on detached layers");
    }
}

void check_volatile(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    struct err err = {0};
    if (try_root(doctor, 0, &err) == 0) {
        found(ret, DOCTOR_OK,
              "taken: fsync in a box costs nothing, the end of one waits for no disk");
        return;
    }
    struct err plainly = {0};
    bool other = try_root(doctor, 1, &plainly) == 0;
    found(ret, DOCTOR_MISSING, "%s", other ? "overlayfs works, but refuses it" : err.msg);
    advise(ret, other ? "boot Linux 6.15 or later" : "see the line 'overlayfs'");
}

// --- idmapped mounts ---

static int open_target(const struct check *check, const struct doctor *doctor, struct err *err)
{
    bool exists;
    if (strcmp(check->arg, "tmpfs") == 0)
        return tmpfs_make(DISK_BYTES, 0, err);
    int fd = strcmp(check->arg, "data") == 0 ? data_place(doctor, &exists)
                                             : open(check->arg, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int e = fd < -1 ? -fd : errno;
    return fd < 0 ? err_sys(err, e, "open '%s'", check->arg) : fd;
}

// With all that is mounted below, as the binds of the image `host` are.
static int try_idmap(int fd, int userns)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns};
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE;
    auto_fd tree = open_tree(fd, "", flags);
    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) < 0)
        return -errno;
    struct stat st;
    if (fstat(tree, &st) < 0)
        return -errno;
    return st.st_uid < SLOT_ID_BASE ? -EINVAL : 0; // owners must have moved
}

void check_idmap(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    struct err err = {0};
    auto_fd fd = open_target(check, doctor, &err);
    auto_fd userns = fd < 0 ? -1 : doctor_userns(&err);
    if (fd < 0 || userns < 0) {
        found(ret, DOCTOR_MISSING, "%s", err.msg);
        return;
    }
    int r = try_idmap(fd, userns);
    if (r == 0) {
        found(ret, DOCTOR_OK, "%s shifts owners", filesystem_name(fd));
        return;
    }
    found(ret, DOCTOR_NOTE, "%s does not shift owners (%s)", filesystem_name(fd), errno_text(-r));
    if (strcmp(check->arg, "tmpfs") == 0) {
        found(ret, DOCTOR_NOTE, "disks in memory get theirs when they are made, so little is lost");
    } else {
        found(ret, DOCTOR_NOTE,
              "a plain read-only bind serves: in a box these files belong to nobody");
        if (r != -EPERM)
            advise(ret, "keep it on ext4, XFS or Btrfs instead");
    }
}
