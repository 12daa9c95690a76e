// SPDX-License-Identifier: Apache-2.0
// HAND_TAR_OUT: a tar archive of what is at a path, into work->out. Names are relative to the path,
// which itself is "./" when it is a directory, so that unpacking below it restores its content; a
// path that is anything else gives one entry with its last component. In order of names, following
// no link (of the path itself only with a request that does not say HAND_NO_FOLLOW).
//
// Sockets and devices are left out; /proc and the like are empty directories. Holes of files are
// left out too (tar-sparse.h; -EFBIG). A file that becomes shorter while it is read is filled up
// with zeros, one that grows is cut: what follows it is where the header says. What goes away
// before its turn is not in the archive.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/hand-internal.h"
#include "hand/tar-format.h"
#include "hand/tar-links.h"
#include "hand/tar-names.h"
#include "hand/tar-sink.h"
#include "hand/tar-sparse.h"

enum {
    DEPTH_MAX = TAR_NAME_MAX / 2 + 1, // of names that long
    NAMES_SIZE = 64 * 1024 * 1024,    // of all the directories on the way; most is never touched
    PIPE_SIZE = 1024 * 1024,
};

struct level { // a directory that is being walked
    size_t path_len;
    struct tar_names names;
    size_t next;
    char after[NAME_MAX + 1];
};

struct pack {
    struct work *work;
    int root;
    int dir; // of the last level, or -1 until it is needed
    char path[TAR_NAME_MAX];
    size_t path_len, depth, names_used;
    struct tar_head head;
    struct tar_sink sink;
    struct tar_links links;
    struct level levels[DEPTH_MAX];
    struct tar_extent extents[TAR_EXTENTS_MAX];
    uint8_t map[TAR_MAP_MAX];
    _Alignas(8) char names[NAMES_SIZE];
};

// --- entries

static void describe(struct pack *p, const struct stat *st, enum tar_kind kind, const char *name)
{
    struct tar_head *h = &p->head;
    h->kind = kind;
    h->sparse = false;
    h->mode = st->st_mode & 07777;
    h->uid = st->st_uid;
    h->gid = st->st_gid;
    h->size = 0;
    h->mtime = st->st_mtim.tv_sec;
    h->link[0] = '\0';
    size_t len = strlen(name); // room for a slash is left in every path
    memcpy(h->name, name, len);
    memcpy(h->name + len, "/", kind == TAR_DIR ? 2 : 0);
    h->name[len + (kind == TAR_DIR)] = '\0';
}

static int put_head(struct pack *p)
{
    uint8_t bytes[TAR_HEAD_MAX];
    p->work->n++;
    return tar_sink_put(&p->sink, bytes, tar_put_head(&p->head, bytes));
}

static int put_pieces(struct pack *p, int fd, int n)
{
    int r = 0;
    for (int i = 0; i < n && r == 0; i++)
        r = tar_sink_file(&p->sink, fd, p->extents[i].at, p->extents[i].len);
    return r < 0 ? r : tar_sink_zeros(&p->sink, tar_padding(p->head.size));
}

static int put_sparse(struct pack *p, int fd, int n)
{
    size_t map_len = tar_put_map(p->extents, (size_t)n, p->map);
    p->head.sparse = true;
    p->head.real_size = p->head.size;
    p->head.size = map_len;
    for (int i = 0; i < n; i++)
        p->head.size += p->extents[i].len;
    int r = put_head(p);
    if (r == 0)
        r = tar_sink_put(&p->sink, p->map, map_len);
    return r < 0 ? r : put_pieces(p, fd, n);
}

// An open regular file.
static int put_file(struct pack *p, int fd, const struct stat *st, const char *name)
{
    describe(p, st, TAR_FILE, name);
    const char *first = st->st_nlink > 1 ? tar_links_find(&p->links, st->st_dev, st->st_ino) : NULL;
    if (first != NULL) {
        p->head.kind = TAR_HARDLINK;
        (void)snprintf(p->head.link, sizeof p->head.link, "%s", first);
        return put_head(p);
    }
    int n = 1;
    p->head.size = (uint64_t)st->st_size;
    p->extents[0] = (struct tar_extent){0, p->head.size};
    if ((uint64_t)st->st_blocks * 512 < p->head.size)
        n = tar_sparse_find(fd, p->head.size, p->extents);
    if (n < 0)
        return n;
    p->work->bytes += p->head.size;
    int r;
    if (n == 1 && p->extents[0].at == 0 && p->extents[0].len == p->head.size) {
        r = put_head(p);
        r = r < 0 ? r : put_pieces(p, fd, n);
    } else {
        r = put_sparse(p, fd, n);
    }
    if (r == 0 && st->st_nlink > 1)
        tar_links_add(&p->links, st->st_dev, st->st_ino, name);
    return r;
}

static int put_symlink(struct pack *p, int dir, const char *at, const struct stat *st,
                       const char *name)
{
    describe(p, st, TAR_SYMLINK, name);
    ssize_t n = readlinkat(dir, at, p->head.link, sizeof p->head.link);
    if (n < 0)
        return errno == EINVAL ? -ENOENT : -errno; // it is no link any more
    if ((size_t)n >= sizeof p->head.link)
        return -ENAMETOOLONG;
    p->head.link[n] = '\0';
    return put_head(p);
}

static int open_and_put_file(struct pack *p, int dir, const char *at, const char *name)
{
    struct stat st;
    auto_fd fd = hand_open_beneath(dir, at, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? put_file(p, fd, &st, name) : -ENOENT;
}

// Anything but a directory.
static int put_other(struct pack *p, int dir, const char *at, const struct stat *st,
                     const char *name)
{
    switch (st->st_mode & S_IFMT) {
    case S_IFREG:
        return open_and_put_file(p, dir, at, name);
    case S_IFLNK:
        return put_symlink(p, dir, at, st, name);
    case S_IFIFO:
        describe(p, st, TAR_FIFO, name);
        return put_head(p);
    default:
        return 0;
    }
}

// --- the tree

// It is not there any more, or not what it was: nothing to archive.
static bool has_gone(int r)
{
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP;
}

static int read_names(struct pack *p, struct level *l)
{
    size_t left = sizeof p->names - p->names_used;
    // Half of what there is, so that those below have some too.
    int r = tar_names_read(p->dir, l->after, p->names + p->names_used, left / 2, &l->names);
    l->next = 0;
    if (r < 0)
        return r;
    p->names_used += l->names.used;
    if (l->names.n > 0) // where to go on: children may use the memory by then
        (void)snprintf(l->after, sizeof l->after, "%s", l->names.name[l->names.n - 1]);
    return 0;
}

// The directory at p->path.
static int open_dir(struct pack *p)
{
    fd_close(TAKE_FD(p->dir));
    int fd = hand_open_beneath(p->root, p->path_len == 0 ? "." : p->path, O_RDONLY | O_DIRECTORY);
    if (fd >= 0)
        p->dir = fd;
    return fd < 0 ? fd : 0;
}

static int descend(struct pack *p)
{
    int r = open_dir(p);
    if (r < 0)
        return r;
    if (hand_is_made_up(p->dir)) {
        fd_close(TAKE_FD(p->dir));
        return -ENOENT;
    }
    struct level *l = &p->levels[p->depth];
    l->path_len = p->path_len;
    l->after[0] = '\0';
    r = read_names(p, l);
    if (r == 0)
        p->depth++;
    else
        fd_close(TAKE_FD(p->dir));
    return r;
}

static int visit(struct pack *p, const char *at)
{
    struct stat st;
    if (fstatat(p->dir, at, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return put_other(p, p->dir, at, &st, p->path);
    describe(p, &st, TAR_DIR, p->path);
    int r = put_head(p);
    return r < 0 ? r : descend(p);
}

// The next name of a directory: its path is made, and cut again afterwards unless it is entered.
static int step(struct pack *p, struct level *l)
{
    const char *name = l->names.name[l->next++];
    size_t depth = p->depth;
    int n = snprintf(p->path + l->path_len, sizeof p->path - l->path_len, "%s%s",
                     l->path_len > 0 ? "/" : "", name);
    size_t len = l->path_len + (size_t)n;
    if (len + 2 > sizeof p->path) // a slash may follow
        return work_failed(p->work, p->path, ENAMETOOLONG);
    p->path_len = len;
    int r = p->dir >= 0 ? 0 : -ENOENT;
    if (r == 0)
        r = visit(p, name);
    if (r < 0 && !has_gone(r) && r != -EPIPE)
        return work_failed(p->work, p->path, -r);
    if (p->depth == depth) {
        p->path_len = l->path_len;
        p->path[p->path_len] = '\0';
    }
    return has_gone(r) ? 0 : r;
}

static void ascend(struct pack *p)
{
    p->depth--;
    fd_close(TAKE_FD(p->dir));
}

static int pack_tree(struct pack *p)
{
    int r = descend(p);
    while (r == 0 && p->depth > 0) {
        struct level *l = &p->levels[p->depth - 1];
        p->path_len = l->path_len;
        p->path[p->path_len] = '\0';
        if (p->dir < 0 && (l->next < l->names.n || l->names.more)) {
            r = open_dir(p);
            if (has_gone(r)) {
                l->next = l->names.n;
                l->names.more = false;
                r = 0;
            }
        } else if (l->next < l->names.n) {
            r = step(p, l);
        } else {
            p->names_used -= l->names.used;
            if (l->names.more)
                r = read_names(p, l);
            else
                ascend(p);
        }
    }
    return r;
}

// --- the path

static int pack_dir(struct pack *p, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    p->root = fd;
    describe(p, &st, TAR_DIR, ".");
    int r = put_head(p);
    r = r < 0 ? r : pack_tree(p);
    fd_close(TAKE_FD(p->dir));
    return has_gone(r) ? 0 : r; // what it was, when it was opened
}

static int pack_other(struct pack *p, const char *path, int flags)
{
    struct stat st;
    const char *slash = strrchr(path, '/'), *name = slash[1] == '\0' ? "." : slash + 1;
    auto_fd at = hand_open(AT_FDCWD, path, O_PATH | flags);
    if (at < 0)
        return at;
    if (fstat(at, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return S_ISLNK(st.st_mode) || S_ISFIFO(st.st_mode) ? put_other(p, at, "", &st, name)
                                                           : -EINVAL;
    auto_fd fd = hand_open_file(AT_FDCWD, path, flags, &st);
    return fd < 0 ? fd : put_file(p, fd, &st, name);
}

static int pack(struct pack *p, const char *path)
{
    int flags = p->work->req->flags & HAND_NO_FOLLOW ? O_NOFOLLOW : 0;
    auto_fd fd = hand_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | flags);
    int r = fd;
    if (fd >= 0)
        r = pack_dir(p, fd);
    else if (fd == -ENOTDIR || fd == -ELOOP)
        r = pack_other(p, path, flags);
    if (r < 0)
        return p->work->path[0] != '\0' ? r : work_failed(p->work, path, -r);
    r = tar_sink_zeros(&p->sink, 2 * TAR_BLOCK);
    return r < 0 ? r : tar_sink_flush(&p->sink);
}

int work_tar_out(struct work *work)
{
    struct pack *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return -errno;
    p->work = work;
    p->dir = -1;
    p->sink.fd = work->out;
    (void)fcntl(work->out, F_SETPIPE_SZ, PIPE_SIZE); // fewer turns; it works with any size
    int r = pack(p, work->texts.path);
    (void)munmap(p, sizeof *p);
    return r;
}
