// SPDX-License-Identifier: Apache-2.0
// HAND_DELETE_TREE. User code may rename, swap and add while it goes on: no link is followed, no
// mount is entered, and a directory is left upwards only to the very one that it was entered from.
// Depth costs no descriptors: the first levels stay open, with what was read of them; deeper ones
// are found again by "..", read from their beginning (what was there is gone), and known by their
// inode.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/hand-internal.h"

enum {
    KEPT = 64, // levels that stay open; one more place is for whichever is below
    DEPTH_MAX = 1 << 20,
    TRIES_MAX = 1000, // at one name that somebody swaps all the time
    MOVED_TRIES = 16,
    IDLE_MAX = 16,
};

struct dirent_raw { // as getdents64 writes it
    uint64_t ino;
    int64_t off;
    uint16_t len;
    uint8_t type;
    char name[];
};

struct place {
    int fd;
    long at, len;
    _Alignas(8) char buf[8 * 1024];
};

struct id {
    dev_t dev;
    ino_t ino;
    uint64_t n_before; // deleted when it was entered
};

static struct place places[KEPT + 1];
static struct id *ids; // DEPTH_MAX of them
static unsigned depth;
// How often in a row we came up from a directory in which there was nothing to delete: it is not
// empty to rmdir, but to us.
static unsigned idle;

static struct place *here(void)
{
    return &places[depth < KEPT ? depth : KEPT];
}

// Takes fd as the directory at the current depth.
static int arrive(int take_fd, uint64_t n)
{
    struct stat st;
    struct place *p = here();
    p->fd = take_fd;
    p->at = p->len = 0;
    if (fstat(take_fd, &st) < 0)
        return -errno;
    ids[depth] = (struct id){st.st_dev, st.st_ino, n};
    return 0;
}

static int descend(struct work *work, const char *name)
{
    if (depth + 1 >= DEPTH_MAX)
        return -ENAMETOOLONG;
    int fd = hand_open_inside(here()->fd, name);
    if (fd < 0)
        return fd;
    if (depth >= KEPT)
        fd_close(places[KEPT].fd);
    depth++;
    return arrive(fd, work->n);
}

static int ascend(struct work *work)
{
    struct stat st;
    struct place *p = here();
    idle = work->n == ids[depth].n_before ? idle + 1 : 0;
    depth--;
    if (depth < KEPT) {
        fd_close(p->fd);
        return 0;
    }
    int fd = hand_open(p->fd, "..", O_RDONLY | O_DIRECTORY);
    fd_close(p->fd);
    p->fd = fd;
    p->at = p->len = 0;
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    // Somebody moved it: what is above now was never to be deleted.
    return st.st_dev == ids[depth].dev && st.st_ino == ids[depth].ino ? 0 : -EBUSY;
}

// 1: deleted or gone, 0: it is a directory with something in it.
static int delete_one(struct work *work, int dir, const char *name, bool is_dir)
{
    for (int i = 0; i < 2; i++, is_dir = !is_dir) {
        if (unlinkat(dir, name, is_dir ? AT_REMOVEDIR : 0) == 0) {
            work->n++;
            return 1;
        }
        if (errno == ENOENT)
            return 1;
        if (is_dir && (errno == ENOTEMPTY || errno == EEXIST))
            return 0;
        if (errno != (is_dir ? ENOTDIR : EISDIR))
            return -errno;
    }
    return 0; // one thing first, then another: look again
}

// The next entry of the directory we are in, or NULL at its end or on failure (*ret_r).
static struct dirent_raw *next(struct place *p, int *ret_r)
{
    *ret_r = 0;
    if (p->at == p->len) {
        p->at = 0;
        p->len = syscall(SYS_getdents64, p->fd, p->buf, sizeof p->buf);
        if (p->len <= 0) {
            *ret_r = p->len < 0 && errno != ENOENT ? -errno : 0;
            p->len = 0;
            return NULL;
        }
    }
    return (void *)(p->buf + p->at);
}

// Deletes an entry, or goes into it; whoever comes back finds it as the next one again.
static int handle(struct work *work, struct place *p, const struct dirent_raw *e)
{
    bool dots =
        e->name[0] == '.' && (e->name[1] == '\0' || (e->name[1] == '.' && e->name[2] == '\0'));
    int r = dots ? 1 : 0;
    for (int tries = 0; r == 0; tries++) {
        r = delete_one(work, p->fd, e->name, e->type == DT_DIR);
        if (r != 0)
            break;
        if (idle > IDLE_MAX || tries == TRIES_MAX) {
            r = -ENOTEMPTY;
            break;
        }
        r = descend(work, e->name);
        if (r == 0)
            return 0;
        // It has changed since; and one that is moved away while it is opened looks like a mount.
        if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || (r == -EBUSY && tries < MOVED_TRIES))
            r = 0;
    }
    if (r < 0)
        return work_failed(work, e->name, -r);
    p->at += e->len;
    return 0;
}

static int empty(struct work *work)
{
    for (;;) {
        struct place *p = here();
        int r;
        const struct dirent_raw *e = next(p, &r);
        if (e == NULL && r == 0 && depth == 0)
            return 0;
        if (r == 0)
            r = e != NULL ? handle(work, p, e) : ascend(work);
        if (r == 0)
            r = work_tick(work);
        if (r < 0)
            return r;
    }
}

int work_delete_tree(struct work *work)
{
    const char *name, *path = work->texts.path;
    work->progress = true;
    auto_fd dir = hand_open_parent(path, /*make=*/false, &name);
    if (dir < 0)
        return work_failed(work, path, -dir);
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return work_failed(work, path, errno);
    if (S_ISDIR(st.st_mode)) {
        ids = mmap(NULL, DEPTH_MAX * sizeof *ids, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (ids == MAP_FAILED)
            return work_failed(work, path, errno);
        int fd = hand_open_inside(dir, name);
        int r = fd < 0 ? fd : arrive(fd, 0);
        if (r < 0)
            return work_failed(work, path, -r);
        r = empty(work);
        if (r < 0)
            return r;
    }
    int r = delete_one(work, dir, name, S_ISDIR(st.st_mode));
    return r > 0 ? 0 : work_failed(work, path, r == 0 ? ENOTEMPTY : -r);
}
