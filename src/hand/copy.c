// SPDX-License-Identifier: Apache-2.0
// HAND_COPY: a file, a link, or a tree, with modes, owners and times. Files appear whole. What is
// neither file, directory nor link is left out of a tree.
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/hand-internal.h"
#include "hand/walk.h"

enum {
    CHUNK = 8 * 1024 * 1024, // between signs of life
    DEPTH_MAX = HAND_PATH_MAX,
};

// --- bytes

static ssize_t move_by_hand(int in, int out, off_t from, size_t len)
{
    static char buf[64 * 1024];
    ssize_t n = pread(in, buf, len < sizeof buf ? len : sizeof buf, from);
    if (n < 0)
        return -errno;
    int r = fd_write_all(out, buf, (size_t)n);
    return r < 0 ? r : n;
}

// Up to `len` bytes to where `out` stands. 0 at the end of the file.
static ssize_t move_some(int in, int out, off_t from, size_t len)
{
    ssize_t n = copy_file_range(in, &(off_t){from}, out, NULL, len, 0);
    if (n > 0)
        return n;
    // Some file systems answer 0 or an error where reading works.
    return move_by_hand(in, out, from, len);
}

static int copy_data(struct work *work, int in, int out, off_t from, off_t end)
{
    while (from < end) {
        size_t len = end - from < CHUNK ? (size_t)(end - from) : CHUNK;
        ssize_t n = move_some(in, out, from, len);
        if (n == -EINTR)
            continue;
        if (n < 0)
            return (int)n;
        if (n == 0)
            return 0;
        from += n;
        work->bytes += (uint64_t)n;
        int r = work_tick(work);
        if (r < 0)
            return r;
    }
    return 0;
}

int work_copy_bytes(struct work *work, int in, int out, uint64_t from, uint64_t end)
{
    off_t at = (off_t)from, stop = (off_t)end;
    off_t base = lseek(out, 0, SEEK_CUR) - at; // out's place for in's place 0
    while (at < stop) {
        off_t data = lseek(in, at, SEEK_DATA);
        if (data < 0 && errno != ENXIO)
            data = at; // knows no holes
        off_t hole = data >= 0 && data < stop ? lseek(in, data, SEEK_HOLE) : stop;
        if (data < 0 || data > stop)
            data = stop;
        if (hole < 0 || hole > stop)
            hole = stop;
        if (data > at && lseek(out, base + data, SEEK_SET) < 0)
            return -errno;
        int r = copy_data(work, in, out, data, hole);
        if (r < 0)
            return r;
        at = hole;
    }
    return 0;
}

static int copy_content(struct work *work, int in, int out, uint64_t size)
{
    if (ioctl(out, FICLONE, in) == 0) {
        work->bytes += size;
        return 0;
    }
    int r = work_copy_bytes(work, in, out, 0, size);
    if (r < 0)
        return r;
    struct stat st; // a hole at the end; but not if the file got shorter meanwhile
    if (fstat(in, &st) == 0 && (uint64_t)st.st_size < size)
        size = (uint64_t)st.st_size;
    return ftruncate(out, (off_t)size) < 0 ? -errno : 0;
}

// --- one of each kind: from `name` in a directory to `to_name` in another

struct job {
    struct work *work;
    bool replace;
};

static int copy_file(const struct job *job, int from, const char *name, int to, const char *to_name)
{
    struct stat st, made;
    bool existed;
    auto_fd in = hand_open_file(from, name, O_NOFOLLOW, &st);
    if (in < 0)
        return in;
    struct hand_terms terms = {
        .flags = HAND_MODE | HAND_OWNER | HAND_NO_FOLLOW | (job->replace ? 0 : HAND_EXCLUSIVE),
        .mode = st.st_mode & 07777,
        .uid = st.st_uid,
        .gid = st.st_gid,
    };
    struct hand_place place = {.dir = fcntl(to, F_DUPFD_CLOEXEC, 0)};
    if (place.dir < 0)
        return -errno;
    memcpy(place.name, to_name, strlen(to_name) + 1);
    struct hand_draft draft;
    int r = hand_draft_open(&draft, &place, &terms);
    fd_close(place.dir);
    if (r < 0)
        return r;
    r = copy_content(job->work, in, draft.fd, (uint64_t)st.st_size);
    if (r == 0)
        r = hand_draft_commit(&draft, &terms, &existed, &made);
    if (r == 0)
        (void)futimens(draft.fd, (struct timespec[]){st.st_atim, st.st_mtim});
    hand_draft_done(&draft);
    return r;
}

static int make_link(const char *target, int to, const char *to_name, bool replace)
{
    char temp[HAND_PASSING_SIZE];
    struct stat st;
    if (symlinkat(target, to, to_name) == 0)
        return 0;
    if (errno != EEXIST || !replace)
        return -errno;
    if (fstatat(to, to_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
        return -EISDIR;
    hand_passing_name(temp);
    if (symlinkat(target, to, temp) < 0)
        return -errno;
    if (renameat(to, temp, to, to_name) == 0)
        return 0;
    int r = -errno;
    (void)unlinkat(to, temp, 0);
    return r;
}

static int copy_link(const struct job *job, int from, const char *name, int to, const char *to_name)
{
    char target[HAND_PATH_MAX];
    struct stat st;
    ssize_t n = readlinkat(from, name, target, sizeof target);
    if (n < 0 || (size_t)n >= sizeof target)
        return n < 0 ? -errno : -ENAMETOOLONG;
    target[n] = '\0';
    int r = make_link(target, to, to_name, job->replace);
    if (r == 0 && fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        (void)fchownat(to, to_name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW);
    return r;
}

// One that is there already stays as it is, and gets what is in the other one.
static int copy_dir(const struct stat *st, int to, const char *to_name)
{
    bool made = mkdirat(to, to_name, 0700) == 0;
    if (!made && errno != EEXIST)
        return -errno;
    auto_fd fd = hand_open_beneath(to, to_name, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fd;
    if (made && (fchown(fd, st->st_uid, st->st_gid) < 0 || fchmod(fd, st->st_mode & 07777) < 0))
        return -errno;
    return 0;
}

// --- trees

static struct { // the directory of the copy that was last written to
    int root, fd;
    char path[HAND_PATH_MAX];
} to_dir;

// Where the entry's copy goes.
static int enter(const struct walk_entry *e)
{
    size_t len = e->name > e->path ? (size_t)(e->name - e->path) - 1 : 0;
    if (to_dir.fd >= 0 && strlen(to_dir.path) == len && memcmp(to_dir.path, e->path, len) == 0)
        return to_dir.fd;
    fd_close(to_dir.fd);
    memcpy(to_dir.path, e->path, len);
    to_dir.path[len] = '\0';
    to_dir.fd = hand_open_beneath(to_dir.root, len > 0 ? to_dir.path : ".", O_PATH | O_DIRECTORY);
    return to_dir.fd;
}

static int copy_entry(const struct job *job, const struct walk_entry *e)
{
    int to = enter(e);
    if (to < 0)
        return to;
    int r = -EINVAL;
    if (S_ISREG(e->st.st_mode))
        r = copy_file(job, e->dir, e->name, to, e->name);
    else if (S_ISLNK(e->st.st_mode))
        r = copy_link(job, e->dir, e->name, to, e->name);
    else if (S_ISDIR(e->st.st_mode))
        r = copy_dir(&e->st, to, e->name);
    else
        return 0;
    job->work->n += r == 0;
    return r;
}

// Did somebody remove it, or put something else there, while we looked at it?
static bool has_changed(const struct walk_entry *e)
{
    struct stat st;
    if (fstatat(e->dir, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT;
    return (st.st_mode & S_IFMT) != (e->st.st_mode & S_IFMT);
}

static int copy_tree(const struct job *job, int take_from, int root)
{
    struct work *work = job->work;
    const struct walk_how how = {.recursive = true, .hidden = true, .after = ""};
    to_dir.root = root;
    to_dir.fd = -1;
    int r = walk_begin(take_from, &how);
    while (r == 0) {
        struct walk_entry e;
        r = walk_next(&e);
        if (r <= 0)
            break;
        r = copy_entry(job, &e);
        if (r < 0 && has_changed(&e))
            r = 0;
        if (r < 0)
            return work_failed(work, e.path, -r);
        r = work_tick(work);
    }
    const char *missed = work->texts.path;
    if (r == 0 && (r = -walk_missed(&missed)) == 0)
        return 0;
    return work_failed(work, missed, -r);
}

// Is `dir`, or what it is in, and so on up to the root, the one that st is of?
static int is_within(int dir, const struct stat *st)
{
    struct stat now, before = {0};
    auto_fd fd = hand_open(dir, ".", O_PATH | O_DIRECTORY);
    for (int i = 0; i < DEPTH_MAX; i++) {
        if (fd < 0)
            return fd;
        if (fstat(fd, &now) < 0)
            return -errno;
        if (now.st_dev == st->st_dev && now.st_ino == st->st_ino)
            return 1;
        if (i > 0 && now.st_dev == before.st_dev && now.st_ino == before.st_ino)
            return 0; // the root is its own parent
        before = now;
        int up = hand_open(fd, "..", O_PATH | O_DIRECTORY);
        fd_close(fd);
        fd = up;
    }
    return -ENAMETOOLONG;
}

static int copy_top_dir(const struct job *job, int from, const char *name, const struct stat *st,
                        int to, const char *to_name)
{
    struct stat there;
    int r = is_within(to, st);
    if (r != 0)
        return r > 0 ? -EINVAL : r;
    if (fstatat(to, to_name, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        if (!job->replace)
            return -EEXIST;
        if (!S_ISDIR(there.st_mode))
            return -ENOTDIR;
        if (there.st_dev == st->st_dev && there.st_ino == st->st_ino)
            return -EINVAL;
    }
    auto_fd source = hand_open_beneath(from, name, O_RDONLY | O_DIRECTORY);
    if (source < 0)
        return source;
    if (hand_is_made_up(source))
        return -EINVAL;
    r = copy_dir(st, to, to_name);
    if (r < 0)
        return r;
    auto_fd root = hand_open_beneath(to, to_name, O_PATH | O_DIRECTORY);
    if (root < 0)
        return root;
    job->work->n++;
    return copy_tree(job, TAKE_FD(source), root);
}

static int copy_top(const struct job *job, int from, const char *name, int to, const char *to_name)
{
    struct stat st, there;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return copy_top_dir(job, from, name, &st, to, to_name);
    if (fstatat(to, to_name, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_dev == st.st_dev &&
        there.st_ino == st.st_ino)
        return job->replace ? -EINVAL : -EEXIST;
    int r = -EINVAL;
    if (S_ISREG(st.st_mode))
        r = copy_file(job, from, name, to, to_name);
    else if (S_ISLNK(st.st_mode))
        r = copy_link(job, from, name, to, to_name);
    job->work->n += r == 0;
    return r;
}

int work_copy(struct work *work)
{
    const char *name, *to_name;
    const struct job job = {work, .replace = !(work->req->flags & HAND_NO_REPLACE)};
    work->progress = true;
    auto_fd from = hand_open_parent(work->texts.path, /*make=*/false, &name);
    if (from < 0)
        return work_failed(work, work->texts.path, -from);
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0) // before directories are made for it
        return work_failed(work, work->texts.path, errno);
    auto_fd to = hand_open_parent(work->texts.path2, work->req->flags & HAND_PARENTS, &to_name);
    if (to < 0)
        return work_failed(work, work->texts.path2, -to);
    int r = copy_top(&job, from, name, to, to_name);
    if (r < 0 && work->path[0] == '\0')
        return work_failed(work, work->texts.path, -r);
    return r;
}
