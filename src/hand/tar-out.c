// SPDX-License-Identifier: Apache-2.0
// HAND_TAR_OUT: a tar archive of what is at a path, into work->out. Names are relative to the path,
// which itself is "./" when it is a directory, so that unpacking below it restores its content; a
// path that is anything else gives one entry with its last component. In order of names, following
// no link (of the path itself only with a request that does not say HAND_NO_FOLLOW).
//
// Sockets and devices are left out; /proc and the like are empty directories. Holes of files are
// left out too (tar-sparse.h; -EFBIG). A file that becomes shorter while it is read is filled up
// with zeros, one that grows is cut: what follows it is where the header says. What goes away
// before its turn is not in the archive. With HAND_PLAIN it is made for readers that know less:
// hard links and holes are written out (-EFBIG where that would be more than a gigabyte of zeros,
// and most of the file), FIFOs are left out too.
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
#include "hand/tar-sink.h"
#include "hand/tar-sparse.h"
#include "hand/walk.h"

enum { PIPE_SIZE = 1024 * 1024 };
#define ZEROS_MAX ((uint64_t)1 << 30)

struct pack {
    struct work *work;
    bool plain;
    const char *excludes; // as of hand_globs_split
    struct tar_head head;
    struct tar_sink sink;
    struct tar_links links;
    struct tar_extent extents[TAR_EXTENTS_MAX];
    uint8_t map[TAR_MAP_MAX];
    char texts[HAND_DATA_MAX + 2]; // the excludes
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
    bool linked = st->st_nlink > 1 && !p->plain;
    const char *first = linked ? tar_links_find(&p->links, st->st_dev, st->st_ino) : NULL;
    if (first != NULL) {
        p->head.kind = TAR_HARDLINK;
        (void)snprintf(p->head.link, sizeof p->head.link, "%s", first);
        return put_head(p);
    }
    int n = 1;
    p->head.size = (uint64_t)st->st_size;
    p->extents[0] = (struct tar_extent){0, p->head.size};
    uint64_t stored = (uint64_t)st->st_blocks * 512;
    uint64_t holes = stored < p->head.size ? p->head.size - stored : 0;
    if (p->plain)
        n = holes > ZEROS_MAX && holes > stored ? -EFBIG : 1;
    else if (holes > 0)
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
    if (r == 0 && linked)
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
        if (p->plain)
            return 0;
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

static int put_entry(struct pack *p, const struct walk_entry *e)
{
    if (!S_ISDIR(e->st.st_mode))
        return put_other(p, e->dir, e->name, &e->st, e->path);
    if (e->path_len + 2 > TAR_NAME_MAX) // with a slash
        return -ENAMETOOLONG;
    describe(p, &e->st, TAR_DIR, e->path);
    return put_head(p);
}

static int put_tree(struct pack *p, int take_fd)
{
    struct walk_entry e;
    int r = walk_begin(take_fd, &(struct walk_how){.recursive = true, .hidden = true, .after = ""});
    while (r == 0 && (r = walk_next(&e)) == 1) {
        r = 0;
        if (hand_globs_have(p->excludes, e.path)) {
            walk_pass();
            continue;
        }
        r = put_entry(p, &e);
        if (has_gone(r))
            r = 0;
        if (r < 0)
            return work_failed(p->work, e.path, -r);
    }
    const char *missed;
    int missed_errno = walk_missed(&missed);
    return r == 0 && missed_errno != 0 ? work_failed(p->work, missed, missed_errno) : r;
}

// --- the path

static int pack_dir(struct pack *p, int take_fd)
{
    auto_fd fd = take_fd;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    describe(p, &st, TAR_DIR, ".");
    int r = put_head(p);
    return r < 0 || hand_is_made_up(fd) ? r : put_tree(p, TAKE_FD(fd));
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
    if (r >= 0)
        r = pack_dir(p, TAKE_FD(fd));
    else if (r == -ENOTDIR || r == -ELOOP)
        r = pack_other(p, path, flags);
    if (r < 0)
        return p->work->path[0] != '\0' ? r : work_failed(p->work, path, -r);
    r = tar_sink_zeros(&p->sink, 2 * TAR_BLOCK);
    return r < 0 ? r : tar_sink_flush(&p->sink);
}

static const char *take_excludes(const struct hand_texts *t, char *to)
{
    struct hand_tar head;
    if (t->data_len < sizeof head + 1 || t->data_len > HAND_DATA_MAX)
        return NULL;
    return hand_globs_split(t->data + sizeof head, t->data_len - sizeof head - 1, to);
}

int work_tar_out(struct work *work)
{
    struct pack *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return -errno;
    p->work = work;
    p->plain = work->req->flags & HAND_PLAIN;
    p->excludes = take_excludes(&work->texts, p->texts);
    p->sink.fd = work->out;
    (void)fcntl(work->out, F_SETPIPE_SZ, PIPE_SIZE); // fewer turns; it works with any size
    int r = pack(p, work->texts.path);
    (void)munmap(p, sizeof *p);
    return r;
}
