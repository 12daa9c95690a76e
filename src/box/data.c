// SPDX-License-Identifier: Apache-2.0
#include "box/data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

const char *data_path(const char *path)
{
    if (path != NULL)
        return path;
    path = getenv("CAY_DATA");
    return path != NULL && path[0] != '\0' ? path : DATA_DEFAULT;
}

static int open_failed(const char *path, int why, struct err *err)
{
    switch (why) {
    case ENOENT:
        return err_set(err, ERR_NOT_FOUND,
                       "the data directory '%s' cannot be made: the directory above it is missing",
                       path);
    case ENOTDIR:
    case EEXIST:
        return err_set(err, ERR_INVALID, "the data directory '%s' is a file, not a directory",
                       path);
    case EROFS:
        return err_set(
            err, ERR_DENIED,
            "the data directory '%s' cannot be made: its disk is read-only (choose another with --data)",
            path);
    case ENOSPC:
    case EDQUOT:
        return err_set(err, ERR_EXHAUSTED,
                       "the data directory '%s' cannot be made: its disk is full", path);
    case EACCES:
    case EPERM:
        return err_set(err, ERR_DENIED,
                       "the data directory '%s' is not ours to use: run cay as root", path);
    default:
        return err_sys(err, why, "the data directory '%s'", path);
    }
}

static int check_owner(const char *path, const struct stat *st, struct err *err)
{
    if (st->st_uid != geteuid())
        return err_set(
            err, ERR_DENIED,
            "the data directory '%s' belongs to uid %u, not to %u who runs this: refused", path,
            st->st_uid, geteuid());
    if ((st->st_mode & 0022) != 0)
        return err_set(err, ERR_DENIED,
                       "others may write to the data directory '%s' (mode %04o): chmod it to 0711",
                       path, st->st_mode & 07777);
    return 0;
}

int data_open(const char *path, struct err *err)
{
    enum { FLAGS = O_RDONLY | O_DIRECTORY | O_CLOEXEC };
    path = data_path(path);
    auto_fd fd = open(path, FLAGS);
    if (fd < 0 && errno == ENOENT) {
        if (mkdir(path, 0711) < 0)
            return open_failed(path, errno, err);
        fd = open(path, FLAGS);
        if (fd >= 0 && fchmod(fd, 0711) < 0) // whatever the umask took away
            return open_failed(path, errno, err);
    }
    if (fd < 0)
        return open_failed(path, errno, err);
    struct stat st;
    if (fstat(fd, &st) < 0)
        return open_failed(path, errno, err);
    if (check_owner(path, &st, err) < 0)
        return -1;
    return TAKE_FD(fd);
}
