// SPDX-License-Identifier: Apache-2.0
// 14 mounts. Nothing is mounted but on the attempt's own directory, and what got mounted is taken
// off.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

struct file_system {
    const char *type;
    const char *options;
};

// An unknown type, a missing option or a missing disk is found out after the permission was
// checked.
static enum outcome mount_new(const struct attempt *self)
{
    const struct file_system *fs = self->arg;
    const char *target = scratch_path("mount");
    mkdir(target, 0755);
    int r = mount("none", target, fs->type, 0, fs->options);
    enum outcome outcome = judge_call("mount", r, REFUSALS);
    if (r == 0)
        umount2(target, MNT_DETACH);
    return outcome;
}

static enum outcome mount_fsopen(const struct attempt *self)
{
    (void)self;
    return judge_call("fsopen", syscall(SYS_fsopen, "tmpfs", 0), REFUSALS);
}

static enum outcome mount_open_tree(const struct attempt *self)
{
    (void)self;
    return judge_call("open_tree",
                      syscall(SYS_open_tree, AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC),
                      REFUSALS);
}

static enum outcome mount_move_new(const struct attempt *self)
{
    (void)self;
    return judge_call("move_mount",
                      syscall(SYS_move_mount, AT_FDCWD, "/nowhere", AT_FDCWD, "/nowhere", 0),
                      REFUSALS);
}

static enum outcome mount_setattr_call(const struct attempt *self)
{
    struct mount_attr nothing = {0};
    (void)self;
    return judge_call("mount_setattr",
                      syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &nothing, sizeof(nothing)),
                      REFUSALS);
}

// Every mount in turn that is read-only; one that becomes writable is set back at once.
static enum outcome mount_remount(const struct attempt *self)
{
    static char mounts[262144];
    int tried = 0, error = 0;
    (void)self;
    if (slurp("/proc/self/mountinfo", mounts, sizeof(mounts)) <= 0)
        return cannot("no mountinfo");
    char *rest = mounts;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0';) {
        char where[1024];
        struct statvfs fs;
        if (sscanf(line, "%*s %*s %*s %*s %1023s", where) != 1 || statvfs(where, &fs) < 0 ||
            !(fs.f_flag & ST_RDONLY))
            continue;
        tried++;
        if (mount(NULL, where, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV, NULL) < 0) {
            error = errno;
            continue;
        }
        mount(NULL, where, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_RDONLY, NULL);
        return escaped("%.100s became writable", where);
    }
    if (tried == 0)
        return cannot("no mount of the box is read-only");
    return held("remounting %d read-only mounts: %s", tried, strerrorname_np(error));
}

static enum outcome mount_bind_etc(const struct attempt *self)
{
    (void)self;
    int r = mount(scratch(), "/etc", NULL, MS_BIND, NULL);
    enum outcome outcome = judge_call("bind over /etc", r, REFUSALS);
    if (r == 0)
        umount2("/etc", MNT_DETACH);
    return outcome;
}

static enum outcome mount_move(const struct attempt *self)
{
    (void)self;
    return judge_call("move", mount("/nowhere", scratch(), NULL, MS_MOVE, NULL), REFUSALS);
}

static enum outcome mount_share(const struct attempt *self)
{
    (void)self;
    int r = mount(NULL, "/", NULL, MS_SHARED, NULL);
    enum outcome outcome = judge_call("make / shared", r, REFUSALS);
    if (r == 0)
        mount(NULL, "/", NULL, MS_PRIVATE, NULL);
    return outcome;
}

// A directory that is no mount is noticed after the permission was checked.
static enum outcome mount_unmount(const struct attempt *self)
{
    (void)self;
    return judge_call("umount", umount2(scratch(), MNT_DETACH), REFUSALS);
}

static enum outcome mount_peers(const struct attempt *self)
{
    static char mounts[262144];
    int n = 0;
    (void)self;
    if (slurp("/proc/self/mountinfo", mounts, sizeof(mounts)) <= 0)
        return cannot("no mountinfo");
    char *rest = mounts;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0';) {
        char where[1024] = "";
        n++;
        sscanf(line, "%*s %*s %*s %*s %1023s", where);
        if (strstr(line, " shared:") != NULL || strstr(line, " master:") != NULL)
            return escaped("%.100s exchanges mounts with another namespace", where);
    }
    return held("none of %d mounts has a peer", n);
}

static const struct file_system fs_proc = {"proc", NULL}, fs_sysfs = {"sysfs", NULL},
                                fs_cgroup = {"cgroup", "memory"}, fs_cgroup2 = {"cgroup2", NULL},
                                fs_overlay = {"overlay", "lowerdir=/usr:/etc"},
                                fs_debugfs = {"debugfs", NULL}, fs_tracefs = {"tracefs", NULL},
                                fs_securityfs = {"securityfs", NULL}, fs_tmpfs = {"tmpfs", NULL},
                                fs_devtmpfs = {"devtmpfs", NULL}, fs_devpts = {"devpts", NULL},
                                fs_bpf = {"bpf", NULL}, fs_mqueue = {"mqueue", NULL},
                                fs_fuse = {"fuse", "fd=0,rootmode=40000,user_id=0,group_id=0"};

#define MOUNT_HELD "filter; no CAP_SYS_ADMIN; the mount namespace belongs to a user namespace above"

#define MOUNT_TYPE(fs)                                                                             \
    {                                                                                              \
        .number = 14, .name = "mount_" #fs, .tries = "mounts a " #fs, .held_by = MOUNT_HELD,       \
        .canary = ROOT_POWER, .run = mount_new, .arg = &fs_##fs                                    \
    }

#define MOUNT_CALL(called, what, function)                                                         \
    {                                                                                              \
        .number = 14, .name = called, .tries = what, .held_by = MOUNT_HELD, .canary = ROOT_POWER,  \
        .run = function                                                                            \
    }

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    MOUNT_TYPE(proc),
    MOUNT_TYPE(sysfs),
    MOUNT_TYPE(cgroup),
    MOUNT_TYPE(cgroup2),
    MOUNT_TYPE(overlay),
    MOUNT_TYPE(debugfs),
    MOUNT_TYPE(tracefs),
    MOUNT_TYPE(securityfs),
    MOUNT_TYPE(tmpfs),
    MOUNT_TYPE(devtmpfs),
    MOUNT_TYPE(devpts),
    MOUNT_TYPE(bpf),
    MOUNT_TYPE(mqueue),
    MOUNT_TYPE(fuse),
    MOUNT_CALL("mount_fsopen", "makes a file system context (the way of CVE-2022-0185)",
               mount_fsopen),
    MOUNT_CALL("mount_open_tree", "clones a mount", mount_open_tree),
    MOUNT_CALL("mount_move_new", "moves a mount by move_mount", mount_move_new),
    MOUNT_CALL("mount_setattr", "changes a mount's attributes", mount_setattr_call),
    MOUNT_CALL("mount_remount", "makes a read-only mount writable", mount_remount),
    MOUNT_CALL("mount_bind_etc", "binds a directory over /etc", mount_bind_etc),
    MOUNT_CALL("mount_move", "moves a mount", mount_move),
    MOUNT_CALL("mount_share", "makes / shared", mount_share),
    MOUNT_CALL("mount_unmount", "unmounts", mount_unmount),
    {.number = 14,
     .name = "mount_peers",
     .tries = "looks for mounts that propagate to or from the host",
     .held_by = "every mount of a box is private",
     .no_canary = "the kernel's own doing between user namespaces; there is nothing to take away",
     .run = mount_peers},
};
// clang-format on

const struct attempt_list mount_attempts = ATTEMPTS(attempts);
