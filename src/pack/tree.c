// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "pack/pack-internal.h"

enum { DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

#define NEW_NAME ".cay-unpacking"
#define DISK_DIR "up"
#define WORK_DIR "work"

const char *shown(const char *path, char ret[100])
{
    enum { KEPT = 96 };
    size_t len = strlen(path), from = len > KEPT ? len - KEPT : 0;
    char *to = ret;
    for (int i = 0; from > 0 && i < 3; i++)
        *to++ = '.';
    for (const char *p = path + from; *p != '\0'; p++)
        *to++ = (unsigned char)*p < ' ' || (unsigned char)*p > '~' ? '?' : *p;
    *to = '\0';
    return ret;
}

// As a box would get there: links lead to places in the tree.
static int open_inside(int top, const char *path)
{
    struct open_how how = {.flags = DIR_FLAGS, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, top, path, &how, sizeof how);
    return fd < 0 ? -errno : fd;
}

static int open_failed(int sys_errno, const char *path, struct err *err)
{
    char text[100];
    if (sys_errno == ELOOP || sys_errno == ENOTDIR)
        return err_set(err, ERR_INVALID, "'%s' is no directory", shown(path, text));
    if (sys_errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "there is no directory '%s'", shown(path, text));
    return err_sys(err, sys_errno, "open '%s'", shown(path, text));
}

int tree_open(const struct job *job, struct err *err)
{
    const char *path = job->is_disk ? DISK_DIR : job->dir;
    int fd = open_inside(job->top, path);
    return fd < 0 ? open_failed(-fd, path, err) : fd;
}

// --- a new one in the place of the old ---

// The directory at `path`, made with those above it where they are missing.
static int make_path(int top, const char *path, struct err *err)
{
    int fd = open_inside(top, path);
    if (fd != -ENOENT)
        return fd < 0 ? open_failed(-fd, path, err) : fd;
    char above[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash[1] == '\0')
        return open_failed(ENOENT, path, err);
    (void)snprintf(above, sizeof above, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    auto_fd parent = make_path(top, above, err);
    if (parent < 0)
        return -1;
    if (mkdirat(parent, slash + 1, 0755) < 0)
        return err_sys(err, errno, "make a directory");
    fd = openat(parent, slash + 1, DIR_FLAGS);
    return fd < 0 ? open_failed(errno, path, err) : fd;
}

static int split(const struct job *job, char above[PATH_MAX], struct tree_new *new, struct err *err)
{
    const char *slash = strrchr(job->dir, '/');
    if (slash == NULL || slash[1] == '\0' || strlen(job->dir) >= PATH_MAX ||
        strlen(slash + 1) >= sizeof new->name)
        return err_set(err, ERR_INVALID, "this directory cannot be replaced");
    (void)snprintf(above, PATH_MAX, "%.*s", slash > job->dir ? (int)(slash - job->dir) : 1,
                   job->dir);
    (void)snprintf(new->name, sizeof new->name, "%s", slash + 1);
    return 0;
}

// What may lie in the way is from an attempt that was killed, or a guest's.
static int remove_name(int parent, const char *name, struct err *err)
{
    char text[100];
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return err_sys(err, errno, "remove '%s'", shown(name, text));
    auto_fd dir = openat(parent, name, DIR_FLAGS);
    if (dir < 0)
        return err_sys(err, errno, "remove '%s'", shown(name, text));
    if (tree_empty(dir, err) < 0)
        return -1;
    return unlinkat(parent, name, AT_REMOVEDIR) < 0
               ? err_sys(err, errno, "remove '%s'", shown(name, text))
               : 0;
}

// The old must be a directory, or nothing.
static int check_old(const struct tree_new *new, struct err *err)
{
    struct stat st;
    if (fstatat(new->parent, new->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "look at the directory");
    return S_ISDIR(st.st_mode) ? 0 : open_failed(ENOTDIR, new->name, err);
}

int tree_begin(const struct job *job, struct tree_new *ret, struct err *err)
{
    struct tree_new new = {.parent = -1, .fd = -1, .name = DISK_DIR};
    char above[PATH_MAX] = ".";
    if (!job->is_disk && split(job, above, &new, err) < 0)
        return -1;
    new.parent = job->is_disk ? openat(job->top, ".", DIR_FLAGS) : make_path(job->top, above, err);
    if (new.parent < 0)
        return job->is_disk ? err_sys(err, errno, "open the disk") : -1;
    if (check_old(&new, err) < 0 || remove_name(new.parent, NEW_NAME, err) < 0) {
        tree_abort(&new);
        return -1;
    }
    if (mkdirat(new.parent, NEW_NAME, 0755) < 0 ||
        (new.fd = openat(new.parent, NEW_NAME, DIR_FLAGS)) < 0) {
        (void)err_sys(err, errno, "make a directory to unpack in");
        tree_abort(&new);
        return -1;
    }
    *ret = new;
    return 0;
}

int tree_commit(const struct job *job, struct tree_new *new, struct err *err)
{
    if (remove_name(new->parent, new->name, err) < 0)
        return -1;
    if (job->is_disk &&
        (remove_name(new->parent, WORK_DIR, err) < 0 || mkdirat(new->parent, WORK_DIR, 0755) < 0))
        return err->code != ERR_NONE ? -1 : err_sys(err, errno, "make a directory");
    if (renameat(new->parent, NEW_NAME, new->parent, new->name) < 0)
        return err_sys(err, errno, "give what was unpacked its name");
    tree_abort(new);
    return 0;
}

void tree_abort(struct tree_new *new)
{
    fd_close(TAKE_FD(new->fd));
    fd_close(TAKE_FD(new->parent));
}
