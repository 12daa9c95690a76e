// SPDX-License-Identifier: Apache-2.0
#include "box/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"

static const char *const dirs[] = {
    "new",
    "p",
    "d",
    "s",
    "old",
    "proc",
    "empty",
    "empty/dir",
    "dev",
    "dev/pts",
    "dev/shm",
    "sys",
    "sys/devices",
    "sys/devices/system",
    "sys/devices/system/cpu",
    "sys/fs",
    "sys/fs/cgroup",
    "sys/class",
    "sys/kernel",
    "sys/kernel/mm",
    "sys/kernel/mm/transparent_hugepage",
};

static const struct {
    const char *name;
    unsigned major, minor;
} nodes[] = {
    {"dev/null",    1, 3},
    {"dev/zero",    1, 5},
    {"dev/full",    1, 7},
    {"dev/random",  1, 8},
    {"dev/urandom", 1, 9},
    {"dev/tty",     5, 0},
};

static const struct {
    const char *name, *target;
} links[] = {
    {"dev/ptmx",   "pts/ptmx"       },
    {"dev/fd",     "/proc/self/fd"  },
    {"dev/stdin",  "/proc/self/fd/0"},
    {"dev/stdout", "/proc/self/fd/1"},
    {"dev/stderr", "/proc/self/fd/2"},
};

static int make_file(int root, const char *name, const char *text)
{
    auto_fd fd = openat(root, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    return fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
}

// Programs size their thread pools and choose their allocator's mode by these.
static int make_sys(int root)
{
    static const char *const cpu_files[] = {"online", "possible", "present"};
    char path[64], cpus[32];
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    if (n > 1)
        (void)snprintf(cpus, sizeof cpus, "0-%ld\n", n - 1);
    else
        (void)snprintf(cpus, sizeof cpus, "0\n");
    int r = 0;
    for (unsigned i = 0; r == 0 && i < 3; i++) {
        (void)snprintf(path, sizeof path, "sys/devices/system/cpu/%s", cpu_files[i]);
        r = make_file(root, path, cpus);
    }
    if (r == 0)
        r = make_file(root, "sys/kernel/mm/transparent_hugepage/enabled",
                      "always [madvise] never\n");
    return r;
}

static int fill(int root)
{
    for (unsigned i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        if (mkdirat(root, dirs[i], 0755) < 0)
            return -errno;
    }
    for (unsigned i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        if (mknodat(root, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) <
            0)
            return -errno;
    }
    for (unsigned i = 0; i < sizeof links / sizeof *links; i++) {
        if (symlinkat(links[i].target, root, links[i].name) < 0)
            return -errno;
    }
    int r = make_file(root, "empty/file", "");
    return r < 0 ? r : make_sys(root);
}

int stage_make(struct err *err)
{
    auto_fd fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "source", "cay", 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return err_sys(err, errno, "make a tmpfs for the stage");
    auto_fd root = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    if (root < 0)
        return err_sys(err, errno, "mount the stage");
    mode_t mask = umask(0);
    int r = fill(root);
    (void)umask(mask);
    if (r < 0)
        return err_sys(err, -r, "fill the stage");
    struct mount_attr ro = {.attr_set = MOUNT_ATTR_RDONLY};
    if (mount_setattr(root, "", AT_EMPTY_PATH, &ro, sizeof ro) < 0)
        return err_sys(err, errno, "make the stage read-only");
    return TAKE_FD(root);
}
