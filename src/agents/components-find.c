// SPDX-License-Identifier: Apache-2.0
// The server's own folder of components. Names come from strangers: each of their parts is opened
// by itself, below the last one, and no link is followed.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agents/components-internal.h"
#include "base/fd.h"

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool component_name_ok(const char *name, size_t len)
{
    if (len == 0 || len > COMPONENT_NAME_MAX || !is_letter(name[0]))
        return false;
    for (size_t i = 1; i < len; i++) {
        if (!is_letter(name[i]) && name[i] != '.' && name[i] != '_' && name[i] != '-')
            return false;
    }
    return true;
}

static int open_part(int dir_fd, const char *name, size_t len, const char *ending, int flags)
{
    char part[COMPONENT_NAME_MAX + 16];
    if (!component_name_ok(name, len) || len + strlen(ending) >= sizeof part)
        return -EINVAL;
    memcpy(part, name, len);
    memcpy(part + len, ending, strlen(ending) + 1);
    int fd = openat(dir_fd, part, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags);
    return fd < 0 ? -errno : fd;
}

// The descriptor, or -errno.
static int open_below(int dir_fd, const char *folder, const char *name, const char *ending)
{
    auto_fd at = open_part(dir_fd, folder, strlen(folder), "", O_DIRECTORY);
    const char *slash;
    while (at >= 0 && (slash = strchr(name, '/')) != NULL) {
        int next = open_part(at, name, (size_t)(slash - name), "", O_DIRECTORY);
        fd_close(at);
        at = next;
        name = slash + 1;
    }
    return at < 0 ? TAKE_FD(at) : open_part(at, name, strlen(name), ending, 0);
}

static int read_text(int fd, struct buf *ret)
{
    struct stat st;
    char *at;
    size_t room;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    if (st.st_size < 0 || (size_t)st.st_size > ret->max)
        return -EFBIG;
    // One byte more than it says: it may have grown.
    int r = buf_reserve(ret, (size_t)st.st_size + 1, &at, &room);
    ssize_t n = r < 0 ? r : fd_read_all(fd, at, room);
    if (n > st.st_size)
        return -EFBIG;
    if (n > 0)
        buf_commit(ret, (size_t)n);
    return n < 0 ? (int)n : 0;
}

int component_find(int dir_fd, const char *folder, const char *name, const char *ending,
                   struct buf *ret, struct err *err)
{
    auto_fd fd = dir_fd < 0 ? -ENOENT : open_below(dir_fd, folder, name, ending);
    if (fd == -ENOENT || fd == -ENOTDIR)
        return 0;
    int r = fd < 0 ? fd : read_text(fd, ret);
    if (r == -EFBIG)
        return err_set(err, ERR_INVALID, "%s/%s%s is larger than a component may be", folder, name,
                       ending);
    if (r == -ELOOP || r == -EINVAL)
        return err_set(err, ERR_INVALID, "%s/%s%s is a link, or no file", folder, name, ending);
    if (r < 0)
        return err_sys(err, -r, "%s/%s%s cannot be read", folder, name, ending);
    return 1;
}
