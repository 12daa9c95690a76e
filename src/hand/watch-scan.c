// SPDX-License-Identifier: Apache-2.0
// Finding directories. A watch is set first and the directory is read then: what appears in between
// is told twice, and never not at all. Directories are opened by the path that they are known by,
// and it is checked that they are the ones that were meant: the watch says so. Where they are not,
// events about it are still to be read, and it is tried again when they have been.
//
// No directory stays open or is our working directory for longer than it is read: the kernel would
// not tell that it was removed.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/watch-internal.h"

struct dent { // as getdents64 writes it
    uint64_t ino;
    int64_t off;
    uint16_t len;
    uint8_t type;
    char name[];
};

static bool is_away(int r) // or not what it was
{
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP;
}

static void queue_scan(struct watch *w, struct watch_node *node, enum watch_scan scan)
{
    if (node->scan == WATCH_SCAN_NONE)
        w->todo[w->n_todo++] = (uint32_t)(node - w->table.node); // each is there at most once
    if (node->scan < scan)
        node->scan = (uint8_t)scan;
}

// Some directory cannot be watched: no watches are left, or it may not be read, or its path is too
// long. Before the beginning that is a failure; later it is told that changes may be missing.
static int give_up(struct watch *w, const struct watch_node *dir, const char *name, int sys_errno)
{
    char path[WATCH_PATH_SIZE];
    w->limited = true;
    if (!w->starting) {
        w->lost = true;
        return 0;
    }
    int n = watch_path(&w->table, dir, path, sizeof path - NAME_MAX - 1);
    if (n < 0)
        return work_failed(w->work, name, sys_errno);
    if (n > 0 && name[0] != '\0')
        path[n++] = '/';
    memcpy(path + n, name, strlen(name) + 1);
    return work_failed(w->work, path, sys_errno);
}

// --- entering

static int open_node(struct watch *w, const struct watch_node *node)
{
    char path[HAND_PATH_MAX];
    int n = watch_path(&w->table, node, path, sizeof path);
    if (n < 0)
        return n;
    int fd = hand_open(AT_FDCWD, w->work->texts.path, O_RDONLY | O_DIRECTORY);
    if (n == 0 || fd < 0)
        return fd;
    int below = hand_open_beneath(fd, path, O_RDONLY | O_DIRECTORY);
    fd_close(fd);
    return below;
}

// Its descriptor, and we are in it. -ENOENT when it is not where it was.
static int enter(struct watch *w, const struct watch_node *node)
{
    auto_fd fd = open_node(w, node);
    if (fd < 0)
        return is_away(fd) ? -ENOENT : fd;
    if (fchdir(fd) < 0)
        return -errno;
    int wd = inotify_add_watch(w->fd, ".", WATCH_EVENTS);
    if (wd == node->wd)
        return TAKE_FD(fd);
    if (wd >= 0 && watch_by_wd(&w->table, wd) == NULL)
        (void)inotify_rm_watch(w->fd, wd);
    return -ENOENT;
}

static void leave(void)
{
    if (chdir("/") < 0)
        return; // then the next one will be left by being replaced
}

void watch_look_at_root(struct watch *w)
{
    int fd = w->root_is_dir ? enter(w, w->table.node) : -1;
    leave();
    if (w->root_is_dir)
        w->gone |= fd == -ENOENT;
    else
        w->gone |= access(w->work->texts.path, F_OK) < 0 && errno == ENOENT;
    fd_close(fd);
}

bool watch_is_missing(struct watch *w, const struct watch_node *dir, const char *name)
{
    struct stat st;
    auto_fd fd = open_node(w, dir);
    return fd >= 0 && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

// --- directories

void watch_displace(struct watch *w, struct watch_node *dir, const char *name)
{
    struct watch_node *old = watch_child(&w->table, dir, name);
    if (old == NULL)
        return;
    watch_detach(&w->table, old, 0);
    w->displaced = (uint32_t)(old - w->table.node) + 1;
    w->loose = true;
}

static int adopt_new(struct watch *w, int wd, struct watch_node *dir, const char *name)
{
    watch_displace(w, dir, name);
    struct watch_node *node = watch_add(&w->table, wd, dir, name);
    if (node == NULL) {
        (void)inotify_rm_watch(w->fd, wd);
        return give_up(w, dir, name, ENOSPC);
    }
    node->seen = w->marking;
    queue_scan(w, node, w->starting ? WATCH_SCAN_QUIET : WATCH_SCAN_ALL);
    return 0;
}

// It has been known, perhaps by another name.
static void adopt_known(struct watch *w, struct watch_node *node, struct watch_node *dir,
                        const char *name)
{
    if (watch_is_above(&w->table, node, dir))
        return; // a mount of something further up
    if (watch_child(&w->table, dir, name) != node) {
        watch_displace(w, dir, name);
        watch_attach(&w->table, node, dir, name);
    }
    if (w->marking && !node->seen) {
        node->seen = true;
        queue_scan(w, node, WATCH_SCAN_DIRS);
    }
}

// The directory of that name in `dir`, which we are in.
static int adopt(struct watch *w, struct watch_node *dir, const char *name)
{
    int wd = inotify_add_watch(w->fd, name, WATCH_EVENTS | IN_ONLYDIR | IN_DONT_FOLLOW);
    if (wd < 0)
        return is_away(-errno) ? 0 : give_up(w, dir, name, errno);
    struct watch_node *node = watch_by_wd(&w->table, wd);
    if (node == NULL)
        return adopt_new(w, wd, dir, name);
    adopt_known(w, node, dir, name);
    return 0;
}

static int take_entry(struct watch *w, struct watch_node *dir, const struct dent *d,
                      enum watch_scan scan)
{
    const char *name = d->name;
    if (name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0')))
        return 0;
    if (watch_is_excluded(w, name) || hand_is_passing(name))
        return 0;
    int r =
        scan == WATCH_SCAN_ALL ? watch_tell(w, HAND_CREATED, dir, name, d->type == DT_DIR, 0) : 0;
    if (r == 0 && (d->type == DT_DIR || d->type == DT_UNKNOWN))
        r = adopt(w, dir, name);
    return r;
}

static int read_dir(struct watch *w, struct watch_node *node, int fd, enum watch_scan scan)
{
    static _Alignas(8) char buf[32 * 1024];
    if (node != w->table.node && hand_is_made_up(fd))
        return 0; // nothing happens there that could be seen
    for (;;) {
        long n = syscall(SYS_getdents64, fd, buf, sizeof buf);
        if (n < 0 && errno != ENOENT)
            return give_up(w, node, "", errno);
        if (n <= 0)
            return 0;
        for (long at = 0; at < n;) {
            const struct dent *d = (const void *)(buf + at);
            int r = take_entry(w, node, d, scan);
            if (r < 0)
                return r;
            at += d->len;
        }
    }
}

static int scan(struct watch *w, struct watch_node *node)
{
    enum watch_scan how = node->scan;
    node->scan = WATCH_SCAN_NONE;
    if (node->wd <= 0)
        return 0;
    auto_fd fd = enter(w, node);
    if (fd == -ENOENT) { // scan it stays, but out of the list
        node->scan = (uint8_t)how;
        w->later = true;
        return 0;
    }
    return fd < 0 ? give_up(w, node, "", -fd) : read_dir(w, node, fd, how);
}

static int scan_all(struct watch *w)
{
    int r = 0;
    while (r == 0 && w->n_todo > 0)
        r = scan(w, &w->table.node[w->todo[--w->n_todo]]);
    leave();
    return r;
}

void watch_look_later(struct watch *w, struct watch_node *dir)
{
    if (dir->scan < WATCH_SCAN_DIRS)
        dir->scan = WATCH_SCAN_DIRS;
    w->later = true;
}

int watch_appeared(struct watch *w, struct watch_node *dir, const char *name)
{
    auto_fd fd = enter(w, dir);
    int r = 0;
    if (fd == -ENOENT) {
        watch_look_later(w, dir); // its name is told; what is in it will be
    } else {
        r = fd < 0 ? give_up(w, dir, name, -fd) : adopt(w, dir, name);
    }
    fd_close(TAKE_FD(fd));
    leave();
    return r < 0 ? r : scan_all(w);
}

int watch_first(struct watch *w)
{
    queue_scan(w, w->table.node, WATCH_SCAN_QUIET);
    return scan_all(w);
}

// --- when it is quiet

static bool is_doomed(const struct watch *w, const struct watch_node *node)
{
    const struct watch_table *t = &w->table;
    for (uint32_t i = 0; node != t->node; node = &t->node[node->parent])
        if (node->detached || node->wd <= 0 || i++ == WATCH_MAX)
            return true;
    return false;
}

// Those that went, and all below them.
static void remove_loose(struct watch *w)
{
    struct watch_table *t = &w->table;
    for (uint32_t i = 1; i < t->used; i++)
        t->node[i].doomed = t->node[i].wd != 0 && is_doomed(w, &t->node[i]);
    for (uint32_t i = 1; i < t->used; i++) {
        if (!t->node[i].doomed)
            continue;
        if (t->node[i].wd > 0)
            (void)inotify_rm_watch(w->fd, t->node[i].wd);
        t->node[i].scan = WATCH_SCAN_NONE;
        watch_remove(t, &t->node[i]);
        w->freed = true;
    }
    w->loose = false;
    w->displaced = 0;
}

// What failed because something had been renamed. All that is known of that has been read by now,
// so it should not fail again; if it does, only looking through everything helps.
static int scan_later(struct watch *w)
{
    struct watch_table *t = &w->table;
    w->later = false;
    for (uint32_t i = 0; i < t->used; i++)
        if (t->node[i].wd > 0 && t->node[i].scan != WATCH_SCAN_NONE)
            w->todo[w->n_todo++] = i;
    int r = scan_all(w);
    w->all |= w->later;
    return r;
}

static int look_through(struct watch *w)
{
    struct watch_table *t = &w->table;
    for (uint32_t i = 1; i < t->used; i++) {
        t->node[i].seen = false;
        if (t->node[i].scan < WATCH_SCAN_ALL) // will be found again
            t->node[i].scan = WATCH_SCAN_NONE;
    }
    w->all = w->later = w->limited = w->freed = false;
    w->marking = true;
    for (uint32_t i = 1; i < t->used; i++)
        if (t->node[i].wd > 0 && t->node[i].scan != WATCH_SCAN_NONE)
            w->todo[w->n_todo++] = i;
    queue_scan(w, t->node, WATCH_SCAN_DIRS);
    int r = scan_all(w);
    w->marking = false;
    for (uint32_t i = 1; i < t->used; i++) {
        if (t->node[i].wd <= 0 || t->node[i].seen)
            continue;
        watch_detach(t, &t->node[i], 0);
        w->loose = true;
    }
    return r;
}

int watch_settle(struct watch *w)
{
    int r = 0;
    if (w->later)
        r = scan_later(w);
    if (r == 0 && w->all) {
        watch_look_at_root(w);
        r = w->gone ? 0 : look_through(w);
    }
    if (w->loose)
        remove_loose(w);
    return r;
}
