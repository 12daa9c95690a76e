// SPDX-License-Identifier: Apache-2.0
// Opening what a path leads to. The hand's root is the box's, so the kernel may resolve; what must
// not happen is that a link of /proc leads to the hand's own descriptors, that a FIFO or a device
// is opened, and that work on a tree leaves it through a link that was not there a moment ago.
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/hand-internal.h"

static int open_how(int dirfd, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC), .resolve = resolve};
    long fd;
    int tries = 64; // EAGAIN: something was renamed meanwhile, and beneath is not certain
    do
        fd = syscall(SYS_openat2, dirfd, path, &how, sizeof how);
    while (fd < 0 && (errno == EINTR || (errno == EAGAIN && --tries > 0)));
    return fd < 0 ? -errno : (int)fd;
}

int hand_open(int dirfd, const char *path, int flags)
{
    return open_how(dirfd, path, flags, RESOLVE_NO_MAGICLINKS);
}

int hand_open_beneath(int dirfd, const char *path, int flags)
{
    return open_how(dirfd, path, flags | O_NOFOLLOW, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

int hand_open_inside(int dirfd, const char *name)
{
    int fd = open_how(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
    return fd == -EXDEV ? -EBUSY : fd;
}

bool hand_is_made_up(int fd)
{
    static const uint32_t made_up[] = {
        PROC_SUPER_MAGIC,    SYSFS_MAGIC,    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
        DEVPTS_SUPER_MAGIC,  DEBUGFS_MAGIC,  TRACEFS_MAGIC,      SECURITYFS_MAGIC,
        BINFMTFS_MAGIC,      BPF_FS_MAGIC,   NSFS_MAGIC,         PIPEFS_MAGIC,
        SOCKFS_MAGIC,        EFIVARFS_MAGIC, PSTOREFS_MAGIC,     SELINUX_MAGIC,
        ANON_INODE_FS_MAGIC,
    };
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return true;
    for (size_t i = 0; i < sizeof made_up / sizeof *made_up; i++)
        if ((uint32_t)fs.f_type == made_up[i])
            return true;
    return false;
}

int hand_open_file(int dirfd, const char *path, int flags, struct stat *ret_st)
{
    char self[32];
    auto_fd at = hand_open(dirfd, path, O_PATH | flags);
    if (at < 0)
        return at;
    if (fstat(at, ret_st) < 0)
        return -errno;
    if (S_ISDIR(ret_st->st_mode))
        return -EISDIR;
    if (S_ISLNK(ret_st->st_mode))
        return -ELOOP;
    if (!S_ISREG(ret_st->st_mode) || hand_is_made_up(at))
        return -EINVAL;
    // Without O_NONBLOCK, whoever has a lease on the file could make us wait.
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", at);
    int fd = open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

// --- the directory above

// One component of a path that may have to be made.
static int enter(int dir, const char *name)
{
    for (int tries = 0; tries < 8; tries++) { // somebody may remove what we make; a link dangles
        int fd = hand_open(dir, name, O_PATH | O_DIRECTORY);
        if (fd != -ENOENT)
            return fd;
        if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
            return -errno;
    }
    return -ENOENT;
}

static int make_dirs(const char *path)
{
    char name[NAME_MAX + 1];
    auto_fd dir = hand_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY);
    while (dir >= 0 && *path != '\0') {
        size_t len = strcspn(++path, "/");
        if (len > NAME_MAX)
            return -ENAMETOOLONG;
        memcpy(name, path, len);
        name[len] = '\0';
        int next = enter(dir, name);
        fd_close(dir);
        dir = next;
        path += len;
    }
    return TAKE_FD(dir);
}

int hand_open_parent(const char *path, bool make, const char **ret_name)
{
    char above[HAND_PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t len = (size_t)(slash - path);
    if (slash[1] == '\0')
        return -EBUSY;
    memcpy(above, path, len);
    above[len] = '\0';
    int dir = hand_open(AT_FDCWD, len > 0 ? above : "/", O_PATH | O_DIRECTORY);
    if (dir == -ENOENT && make)
        dir = make_dirs(above);
    if (dir >= 0)
        *ret_name = slash + 1;
    return dir;
}

// --- what is told of a file

static uint64_t mix(uint64_t hash, uint64_t value)
{
    for (int i = 0; i < 8; i++) { // FNV-1a
        hash ^= value >> (8 * i) & 0xff;
        hash *= 0x100000001b3u;
    }
    return hash;
}

// Some file systems take any number of seconds.
static int64_t in_ns(struct timespec at)
{
    int64_t ns;
    if (__builtin_mul_overflow((int64_t)at.tv_sec, 1000 * 1000 * 1000, &ns) ||
        __builtin_add_overflow(ns, (int64_t)at.tv_nsec, &ns))
        return at.tv_sec < 0 ? INT64_MIN : INT64_MAX;
    return ns;
}

void hand_fill_stat(struct hand_stat *ret, const struct stat *st)
{
    mode_t type = st->st_mode & S_IFMT;
    *ret = (struct hand_stat){
        .size = (uint64_t)st->st_size,
        .mtime_ns = in_ns(st->st_mtim),
        .ino = st->st_ino,
        .kind = type == S_IFREG   ? HAND_FILE
                : type == S_IFDIR ? HAND_DIR
                : type == S_IFLNK ? HAND_SYMLINK
                                  : HAND_OTHER,
        .mode = st->st_mode & 07777,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .nlink = (uint32_t)st->st_nlink,
        .dev = (uint32_t)st->st_dev,
    };
    // Not st_dev: that is another one each time the disk is mounted.
    uint64_t hash = mix(0xcbf29ce484222325u, st->st_ino);
    hash = mix(hash, ret->size);
    hash = mix(hash, (uint64_t)ret->mtime_ns);
    hash = mix(hash, (uint64_t)in_ns(st->st_ctim));
    (void)snprintf(ret->etag, sizeof ret->etag, "%016llx", (unsigned long long)hash);
}
