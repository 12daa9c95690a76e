// SPDX-License-Identifier: Apache-2.0
#include "box/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

enum {
    PATH_SIZE = 512,
    REMOVE_DEPTH_MAX = 64, // one descriptor each
};

static int open_below(int dirfd, const char *path, uint64_t flags)
{
    struct open_how how = {
        .flags = flags | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
    };
    int fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof how);
    return fd < 0 ? -errno : fd;
}

int tree_open_dir(int dirfd, const char *path)
{
    return open_below(dirfd, path[0] == '\0' ? "." : path, O_RDONLY | O_DIRECTORY);
}

int tree_open_file(int dirfd, const char *path)
{
    auto_fd fd = open_below(dirfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return fd;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    return TAKE_FD(fd);
}

// Opens the directory above the last component, and points at that component.
static int open_parent(int dirfd, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        *ret_name = path;
        return tree_open_dir(dirfd, ".");
    }
    char parent[PATH_SIZE];
    size_t len = (size_t)(slash - path);
    if (len >= sizeof parent)
        return -ENAMETOOLONG;
    memcpy(parent, path, len);
    parent[len] = '\0';
    *ret_name = slash + 1;
    return tree_open_dir(dirfd, parent);
}

int tree_mkdir(int dirfd, const char *path, mode_t mode, uid_t uid)
{
    auto_fd fd = -1;
    if (path[0] == '\0') {
        fd = tree_open_dir(dirfd, ".");
    } else {
        const char *name;
        auto_fd parent = open_parent(dirfd, path, &name);
        if (parent < 0)
            return parent;
        if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
            return -errno;
        fd = tree_open_dir(parent, name);
    }
    if (fd < 0)
        return fd == -ELOOP ? -ENOTDIR : fd;
    if (fchown(fd, uid, uid) < 0 || fchmod(fd, mode) < 0)
        return -errno;
    return 0;
}

int tree_mkparents(int dirfd, const char *path)
{
    char part[PATH_SIZE];
    for (const char *p = strchr(path, '/'); p != NULL; p = strchr(p + 1, '/')) {
        size_t len = (size_t)(p - path);
        if (len >= sizeof part)
            return -ENAMETOOLONG;
        memcpy(part, path, len);
        part[len] = '\0';
        auto_fd there = tree_open_dir(dirfd, part);
        int r = there == -ENOENT ? tree_mkdir(dirfd, part, 0755, 0) : there;
        if (r < 0)
            return r;
    }
    return 0;
}

int tree_write(int dirfd, const char *path, const char *text, size_t len, mode_t mode)
{
    const char *name;
    auto_fd parent = open_parent(dirfd, path, &name);
    if (parent < 0)
        return parent;
    if (unlinkat(parent, name, 0) < 0 && errno != ENOENT)
        return -errno;
    auto_fd fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = fd_write_all(fd, text, len);
    if (r < 0)
        return r;
    return fchmod(fd, mode) < 0 ? -errno : 0;
}

int tree_symlink(int dirfd, const char *path, const char *target)
{
    const char *name;
    auto_fd parent = open_parent(dirfd, path, &name);
    if (parent < 0)
        return parent;
    if (unlinkat(parent, name, 0) < 0 && errno != ENOENT)
        return -errno;
    return symlinkat(target, parent, name) < 0 ? -errno : 0;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void close_dir(DIR **dir)
{
    if (*dir != NULL)
        (void)closedir(*dir);
}

#define auto_dir __attribute__((cleanup(close_dir))) DIR

// Takes the descriptor in both cases.
static DIR *dir_consume(int fd)
{
    DIR *dir = fdopendir(fd);
    if (dir == NULL)
        fd_close(fd);
    return dir;
}

// -- removing

struct removal {
    int top_fd;     // what is too deep is moved here
    unsigned moved; // how many were, for their new names
};

static int move_up(struct removal *removal, int dirfd, const char *name)
{
    for (;;) {
        char to[32];
        (void)snprintf(to, sizeof to, ".deep-%u", removal->moved++);
        if (renameat2(dirfd, name, removal->top_fd, to, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            return -errno;
    }
}

static int remove_children(struct removal *removal, int fd, unsigned depth);

static int remove_entry(struct removal *removal, int dirfd, const char *name, unsigned depth)
{
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM) // POSIX names the second for a directory
        return -errno;
    int refused = errno;
    if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno == ENOTDIR)
        return -refused;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    if (depth >= REMOVE_DEPTH_MAX)
        return move_up(removal, dirfd, name);
    int fd = tree_open_dir(dirfd, name);
    if (fd < 0)
        return fd == -EXDEV ? -EBUSY : fd;
    int r = remove_children(removal, fd, depth + 1);
    if (r < 0)
        return r;
    return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

// Takes fd. A directory may gain entries while it is read (move_up), so the top one is read again
// until it is found empty.
static int remove_children(struct removal *removal, int fd, unsigned depth)
{
    auto_dir *dir = dir_consume(fd);
    if (dir == NULL)
        return -errno;
    bool found;
    do {
        found = false;
        rewinddir(dir);
        const struct dirent *entry;
        while ((errno = 0, entry = readdir(dir)) != NULL) {
            if (is_dots(entry->d_name))
                continue;
            found = true;
            int r = remove_entry(removal, dirfd(dir), entry->d_name, depth);
            if (r < 0)
                return r;
        }
        if (errno != 0)
            return -errno;
    } while (found && depth == 0);
    return 0;
}

int tree_remove(int dirfd, const char *name)
{
    if (unlinkat(dirfd, name, 0) == 0)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    auto_fd top = tree_open_dir(dirfd, name);
    if (top < 0)
        return top == -EXDEV ? -EBUSY : top;
    struct removal removal = {.top_fd = top};
    int fd = tree_open_dir(top, ".");
    if (fd < 0)
        return fd;
    int r = remove_children(&removal, fd, 0);
    if (r < 0)
        return r;
    return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

// -- surveying

static int survey_children(struct tree_survey *survey, int fd, unsigned depth);

static int survey_entry(struct tree_survey *survey, int dirfd, const char *name, unsigned depth)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) {
        survey->devices++;
        return unlinkat(dirfd, name, 0) < 0 ? -errno : 0;
    }
    survey->entries++;
    survey->high_ids += st.st_uid > UINT16_MAX || st.st_gid > UINT16_MAX;
    if (!S_ISDIR(st.st_mode)) {
        survey->bytes += (uint64_t)st.st_blocks * 512 / (st.st_nlink > 0 ? st.st_nlink : 1);
        return 0;
    }
    survey->bytes += (uint64_t)st.st_blocks * 512;
    if (depth >= TREE_DEPTH_MAX)
        return -ELOOP;
    int fd = tree_open_dir(dirfd, name);
    return fd < 0 ? fd : survey_children(survey, fd, depth + 1);
}

// Takes fd.
static int survey_children(struct tree_survey *survey, int fd, unsigned depth)
{
    auto_dir *dir = dir_consume(fd);
    if (dir == NULL)
        return -errno;
    const struct dirent *entry;
    while ((errno = 0, entry = readdir(dir)) != NULL) {
        if (is_dots(entry->d_name))
            continue;
        int r = survey_entry(survey, dirfd(dir), entry->d_name, depth);
        if (r < 0)
            return r;
    }
    return -errno;
}

int tree_survey(int dirfd, struct tree_survey *ret)
{
    int fd = tree_open_dir(dirfd, ".");
    if (fd < 0)
        return fd;
    struct tree_survey survey = {0};
    int r = survey_children(&survey, fd, 0);
    if (r < 0)
        return r;
    *ret = survey;
    return 0;
}
