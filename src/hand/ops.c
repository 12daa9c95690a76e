// SPDX-License-Identifier: Apache-2.0
// What is done at once: reading, looking, and changing one name or one inode.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/hand-internal.h"

static char content[HAND_INLINE]; // of a file, or of a link

static int follow_flag(const struct hand_request *req)
{
    return req->flags & HAND_NO_FOLLOW ? O_NOFOLLOW : 0;
}

// What the descriptor is of, as it is now.
static int tell(int fd, struct hand_reply *ret)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    hand_fill_stat(&ret->done.st, &st);
    return 0;
}

// What is under a name that was just made. Somebody may have taken it away again: not our failure.
static void tell_at(int dir, const char *name, struct hand_reply *ret)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        hand_fill_stat(&ret->done.st, &st);
}

int hand_read(const struct hand_request *req, const struct hand_texts *texts,
              struct hand_reply *ret)
{
    struct stat st;
    auto_fd fd = hand_open_file(AT_FDCWD, texts->path, follow_flag(req), &st);
    if (fd < 0)
        return fd;
    int r = tell(fd, ret); // before the content: if it changes meanwhile, the etag is an old one
    if (r < 0)
        return r;
    if ((req->flags & HAND_NO_INLINE) || ret->done.st.size > HAND_INLINE) {
        ret->fd = TAKE_FD(fd);
        return 0;
    }
    ssize_t n = fd_read_all(fd, content, (size_t)ret->done.st.size);
    if (n < 0)
        return (int)n;
    ret->data = content;
    ret->done.data_len = (uint32_t)n;
    ret->done.st.size = (uint64_t)n;
    return 0;
}

int hand_stat(const struct hand_request *req, const struct hand_texts *texts,
              struct hand_reply *ret)
{
    auto_fd fd = hand_open(AT_FDCWD, texts->path, O_PATH | follow_flag(req));
    if (fd < 0)
        return fd;
    int r = tell(fd, ret);
    if (r < 0 || ret->done.st.kind != HAND_SYMLINK)
        return r;
    ssize_t n = readlinkat(fd, "", content, HAND_PATH_MAX);
    if (n < 0)
        return -errno;
    ret->data = content;
    ret->done.data_len = (uint32_t)n;
    return 0;
}

// A link at the end of the path, wherever it leads, is something that exists.
static int existing_dir(int dir, const char *name, struct hand_reply *ret)
{
    auto_fd fd = hand_open(dir, name, O_PATH | O_DIRECTORY);
    if (fd < 0)
        return -EEXIST;
    ret->done.existed = 1;
    return tell(fd, ret);
}

int hand_mkdir(const struct hand_request *req, const struct hand_texts *texts,
               struct hand_reply *ret)
{
    const char *name;
    bool parents = req->flags & HAND_PARENTS;
    auto_fd dir = hand_open_parent(texts->path, parents, &name);
    if (dir == -EBUSY && parents)
        return existing_dir(AT_FDCWD, "/", ret);
    if (dir < 0)
        return dir == -EBUSY ? -EEXIST : dir;
    if (mkdirat(dir, name, req->flags & HAND_MODE ? req->mode : 0755) < 0)
        return errno == EEXIST && parents ? existing_dir(dir, name, ret) : -errno;
    if ((req->flags & HAND_OWNER) &&
        fchownat(dir, name, req->uid, req->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    tell_at(dir, name, ret);
    return 0;
}

int hand_move(const struct hand_request *req, const struct hand_texts *texts,
              struct hand_reply *ret)
{
    const char *from, *to;
    auto_fd from_dir = hand_open_parent(texts->path, /*make=*/false, &from);
    if (from_dir < 0)
        return from_dir;
    struct stat st;
    if (fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW) < 0) // before directories are made for it
        return -errno;
    auto_fd to_dir = hand_open_parent(texts->path2, req->flags & HAND_PARENTS, &to);
    if (to_dir < 0)
        return to_dir;
    ret->done.existed = faccessat(to_dir, to, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    unsigned flags = req->flags & HAND_NO_REPLACE ? RENAME_NOREPLACE : 0;
    if (renameat2(from_dir, from, to_dir, to, flags) < 0)
        return -errno;
    tell_at(to_dir, to, ret);
    return 0;
}

int hand_chmod(const struct hand_request *req, const struct hand_texts *texts,
               struct hand_reply *ret)
{
    char self[32];
    auto_fd fd = hand_open(AT_FDCWD, texts->path, O_PATH | follow_flag(req));
    if (fd < 0)
        return fd;
    // fchmod does not take such descriptors.
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if (chmod(self, req->mode) < 0)
        return -errno;
    return tell(fd, ret);
}

int hand_chown(const struct hand_request *req, const struct hand_texts *texts,
               struct hand_reply *ret)
{
    auto_fd fd = hand_open(AT_FDCWD, texts->path, O_PATH | follow_flag(req));
    if (fd < 0)
        return fd;
    if (fchownat(fd, "", req->uid, req->gid, AT_EMPTY_PATH) < 0)
        return -errno;
    return tell(fd, ret);
}

int hand_delete(const struct hand_request *req, const struct hand_texts *texts,
                struct hand_reply *ret)
{
    (void)req;
    (void)ret;
    const char *name;
    auto_fd dir = hand_open_parent(texts->path, /*make=*/false, &name);
    if (dir < 0)
        return dir;
    if (unlinkat(dir, name, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return -errno;
    return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int hand_link(const struct hand_request *req, const struct hand_texts *texts,
              struct hand_reply *ret)
{
    const char *name;
    auto_fd dir = hand_open_parent(texts->path2, req->flags & HAND_PARENTS, &name);
    if (dir < 0)
        return dir;
    if (symlinkat(texts->path, dir, name) < 0)
        return -errno;
    tell_at(dir, name, ret);
    return 0;
}
