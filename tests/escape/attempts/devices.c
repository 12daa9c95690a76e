// SPDX-License-Identifier: Apache-2.0
// 18 devices. They are opened for reading and closed; nothing is read, and of those that act on
// being opened (a watchdog) none is touched.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

struct device {
    const char *path; // NULL: made by number only
    mode_t type;
    unsigned major, minor; // 0: not known ahead
};

static enum outcome open_device(const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    enum outcome outcome = judge_call(path, fd, REFUSALS_AND(ENOENT));
    if (fd >= 0)
        close(fd);
    return outcome;
}

static enum outcome device_open(const struct attempt *self)
{
    const struct device *device = self->arg;
    enum outcome outcome = HELD;
    unsigned major = device->major, minor = device->minor;
    if (device->type == S_IFBLK && world.disk_major != 0) {
        major = world.disk_major;
        minor = world.disk_minor;
    }
    if (device->path != NULL)
        outcome = open_device(device->path);
    if (outcome != HELD || major == 0)
        return outcome;
    const char *made = scratch_path("device");
    if (mknod(made, device->type | 0600, makedev(major, minor)) < 0)
        return held("mknod: %s", strerrorname_np(errno));
    return open_device(made);
}

static bool expected(const char *name)
{
    static const char *const names[] = {"null",   "zero", "full", "random", "urandom", "tty",
                                        "ptmx",   "pts",  "shm",  "fd",     "stdin",   "stdout",
                                        "stderr", ".",    "..",   "mqueue", "console"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], name) == 0)
            return true;
    }
    return false;
}

static enum outcome device_walk(const struct attempt *self)
{
    (void)self;
    DIR *dir = opendir("/dev");
    const struct dirent *entry;
    enum outcome outcome = held("nothing in /dev but the usual");
    if (dir == NULL)
        return cannot("/dev: %s", strerrorname_np(errno));
    while ((entry = readdir(dir)) != NULL) {
        struct stat st;
        struct statvfs fs;
        char path[300];
        snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
        if (expected(entry->d_name) || lstat(path, &st) < 0 || statvfs(path, &fs) < 0)
            continue;
        if ((S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) && !(fs.f_flag & ST_NODEV) &&
            faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0) {
            outcome = escaped("%.150s is there, and may be opened", path);
            break;
        }
    }
    closedir(dir);
    return outcome;
}

static const struct device disk = {NULL, S_IFBLK, 8, 0}, mem = {"/dev/mem", S_IFCHR, 1, 1},
                           kmsg = {NULL, S_IFCHR, 1, 11}, kvm = {"/dev/kvm", S_IFCHR, 10, 232},
                           loop = {"/dev/loop-control", S_IFCHR, 10, 237},
                           tun = {"/dev/net/tun", S_IFCHR, 10, 200},
                           fuse = {"/dev/fuse", S_IFCHR, 10, 229},
                           vsock = {"/dev/vsock", S_IFCHR, 0, 0};

#define DEVICE_HELD                                                                                \
    "filter and no CAP_MKNOD on the host; mounts that ignore device nodes; a /dev of our own"

#define DEVICE(called, what, device, machine)                                                      \
    {                                                                                              \
        .number = 18, .name = called, .tries = what, .held_by = DEVICE_HELD,                       \
        .canary = "dev," ROOT_POWER, .needs = machine, .run = device_open, .arg = &device          \
    }

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    DEVICE("device_disk", "makes a node for the host's disk and opens it", disk, NULL),
    DEVICE("device_mem", "makes a node for the machine's memory and opens it", mem, NULL),
    DEVICE("device_kmsg", "makes a node for the kernel's log and opens it", kmsg, NULL),
    DEVICE("device_kvm", "opens kvm", kvm, "file:/dev/kvm"),
    DEVICE("device_loop", "opens the control of loop devices", loop, "file:/dev/loop-control"),
    DEVICE("device_tun", "opens tun", tun, "file:/dev/net/tun"),
    DEVICE("device_fuse", "opens fuse", fuse, "file:/dev/fuse"),
    DEVICE("device_vsock", "opens vsock", vsock, "file:/dev/vsock"),
    {.number = 18,
     .name = "device_walk",
     .tries = "looks in /dev for anything it should not have",
     .held_by = "a /dev of our own",
     .canary = "dev,caps,userns",
     .run = device_walk},
};
// clang-format on

const struct attempt_list device_attempts = ATTEMPTS(attempts);
