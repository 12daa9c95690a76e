// SPDX-License-Identifier: Apache-2.0
#include "hand/tar-place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/hand-internal.h"

enum {
    MODES = 0777,
    TRIES = 16, // user code may put something back as often as it is removed
};

// What is known of a directory until the end; its name follows.
struct later {
    int64_t mtime;
    uint32_t mtime_ns;
    uint32_t mode;
    uint32_t uid, gid;
    uint32_t name_len; // with its NUL
};

static int open_below(int dirfd, const char *path, int flags)
{
    return hand_open_beneath(dirfd, path[0] == '\0' ? "." : path, flags | O_DIRECTORY);
}

static int make_root(const char *path)
{
    const char *name;
    auto_fd parent = hand_open_parent(path, true, &name);
    if (parent < 0)
        return parent;
    return mkdirat(parent, name, 0755) < 0 ? -errno : 0;
}

int tar_place_init(struct tar_place *place, const char *path, uint32_t flags)
{
    int how = O_PATH | O_DIRECTORY | (flags & HAND_NO_FOLLOW ? O_NOFOLLOW : 0);
    place->dir = -1;
    place->keep_owner = flags & HAND_OWNER;
    place->no_replace = flags & HAND_NO_REPLACE;
    place->root = hand_open(AT_FDCWD, path, how);
    if (place->root == -ENOENT) {
        int r = make_root(path);
        place->made = r == 0;
        if (r < 0 && r != -EEXIST)
            return r;
        place->root = hand_open(AT_FDCWD, path, how);
    }
    return place->root < 0 ? place->root : 0;
}

void tar_place_done(struct tar_place *place)
{
    fd_close(place->root);
    fd_close(place->dir);
}

// --- directories above an entry

// Goes down from the root, making what is missing.
static int make_dirs(int root, char *path)
{
    auto_fd at = open_below(root, ".", O_PATH);
    for (char *name = path; at >= 0 && *name != '\0';) {
        size_t len = strcspn(name, "/");
        bool last = name[len] == '\0';
        name[len] = '\0';
        if (mkdirat(at, name, 0755) < 0 && errno != EEXIST)
            return -errno;
        int next = open_below(at, name, O_PATH);
        name[len] = last ? '\0' : '/';
        fd_close(at);
        at = next;
        name += len + !last;
    }
    return TAKE_FD(at);
}

// The directory that the entry is in stays open in `place`; `ret_name` is its name there.
static int enter(struct tar_place *place, const char *name, const char **ret_name)
{
    const char *slash = strrchr(name, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - name);
    *ret_name = slash == NULL ? name : slash + 1;
    if (place->dir >= 0 && strncmp(place->dir_path, name, len) == 0 && place->dir_path[len] == '\0')
        return 0;
    fd_close(TAKE_FD(place->dir));
    memcpy(place->dir_path, name, len);
    place->dir_path[len] = '\0';
    int fd = open_below(place->root, place->dir_path, O_PATH);
    if (fd == -ENOENT)
        fd = make_dirs(place->root, place->dir_path);
    place->dir = fd < 0 ? -1 : fd;
    return fd < 0 ? fd : 0;
}

// Whether what has that name may go: it may, unless it is a directory.
static int may_replace(const struct tar_place *place, const char *name)
{
    struct stat st;
    if (place->no_replace)
        return -EEXIST;
    if (fstatat(place->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    return S_ISDIR(st.st_mode) ? -EISDIR : 0;
}

static int make_room(const struct tar_place *place, const char *name)
{
    int r = may_replace(place, name);
    if (r == 0 && unlinkat(place->dir, name, 0) < 0 && errno != ENOENT)
        r = -errno;
    return r;
}

static struct timespec time_of(const struct tar_head *head)
{
    return (struct timespec){.tv_sec = head->mtime, .tv_nsec = head->mtime_ns};
}

static int own(const struct tar_place *place, int dir, const char *name, uint64_t uid, uint64_t gid)
{
    if (!place->keep_owner)
        return 0;
    if (uid >= UINT32_MAX || gid >= UINT32_MAX)
        return -EINVAL;
    int flags = AT_SYMLINK_NOFOLLOW | (name[0] == '\0' ? AT_EMPTY_PATH : 0);
    return fchownat(dir, name, (uid_t)uid, (gid_t)gid, flags) < 0 ? -errno : 0;
}

// Owner and time of what is no file and no directory.
static int dress(const struct tar_place *place, const char *name, const struct tar_head *head)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, time_of(head)};
    int r = own(place, place->dir, name, head->uid, head->gid);
    if (r == 0 && utimensat(place->dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        r = -errno;
    return r;
}

// --- files

static int create(int dir, const char *name)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

// One that nobody sees, and that leaves nothing behind if we are killed.
static int create_unseen(struct tar_place *place)
{
    hand_passing_name(place->passing);
    int fd = openat(place->dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    place->has_name = fd < 0;
    return fd < 0 ? create(place->dir, place->passing) : fd;
}

// In the place of what is there.
static int show(struct tar_place *place, int fd, const char *name)
{
    int r = place->has_name ? 0 : hand_give_name(fd, place->dir, place->passing);
    if (r < 0)
        return r;
    place->has_name = true;
    return renameat(place->dir, place->passing, place->dir, name) < 0 ? -errno : 0;
}

int tar_place_file(struct tar_place *place, const struct tar_head *head, int *ret_fd)
{
    const char *name;
    int r = enter(place, head->name, &name);
    if (r < 0)
        return r;
    place->passing[0] = '\0';
    int fd = create(place->dir, name);
    if (fd == -EEXIST && (r = may_replace(place, name)) == 0)
        fd = create_unseen(place);
    if (r < 0 || fd < 0)
        return r < 0 ? r : fd;
    *ret_fd = fd;
    return 0;
}

int tar_place_file_consume(struct tar_place *place, const struct tar_head *head, int fd_)
{
    auto_fd fd = fd_;
    const char *name;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, time_of(head)};
    int r = own(place, fd, "", head->uid, head->gid);
    if (r == 0 && (fchmod(fd, head->mode & MODES) < 0 || futimens(fd, times) < 0))
        r = -errno;
    if (r < 0 || place->passing[0] == '\0')
        return r;
    r = enter(place, head->name, &name);
    return r == 0 ? show(place, fd, name) : r;
}

void tar_place_undo(struct tar_place *place, const struct tar_head *head)
{
    const char *name;
    bool is_unseen = place->passing[0] != '\0';
    if (enter(place, head->name, &name) == 0 && (!is_unseen || place->has_name))
        (void)unlinkat(place->dir, is_unseen ? place->passing : name, 0);
}

// --- links and FIFOs

// Makes it by `make`, in the place of what is there.
static int make_other(struct tar_place *place, const struct tar_head *head,
                      int (*make)(const struct tar_head *, int dir, const char *name))
{
    const char *name;
    int r = enter(place, head->name, &name);
    for (int i = 0; r == 0 && i < TRIES; i++) {
        if (make(head, place->dir, name) == 0)
            return dress(place, name, head);
        if (errno != EEXIST)
            return -errno;
        r = make_room(place, name);
    }
    return r < 0 ? r : -EEXIST;
}

static int make_symlink(const struct tar_head *head, int dir, const char *name)
{
    return symlinkat(head->link, dir, name);
}

static int make_fifo(const struct tar_head *head, int dir, const char *name)
{
    // The mode is given here, as there is no chmod that would not follow a link put in its place.
    return mkfifoat(dir, name, head->mode & MODES);
}

int tar_place_symlink(struct tar_place *place, const struct tar_head *head)
{
    return head->link[0] == '\0' ? -EBADMSG : make_other(place, head, make_symlink);
}

int tar_place_fifo(struct tar_place *place, const struct tar_head *head)
{
    return make_other(place, head, make_fifo);
}

// The directory of the file that is linked to.
static int open_target(const struct tar_place *place, const char *link, const char **ret_name)
{
    char path[TAR_NAME_MAX];
    const char *slash = strrchr(link, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - link);
    memcpy(path, link, len);
    path[len] = '\0';
    *ret_name = slash == NULL ? link : slash + 1;
    return open_below(place->root, path, O_PATH);
}

int tar_place_hardlink(struct tar_place *place, const struct tar_head *head)
{
    const char *name, *old;
    if (strcmp(head->name, head->link) == 0)
        return 0; // removing the one would remove the other
    auto_fd from = open_target(place, head->link, &old);
    if (from < 0)
        return from;
    int r = enter(place, head->name, &name);
    for (int i = 0; r == 0 && i < TRIES; i++) {
        if (linkat(from, old, place->dir, name, 0) == 0)
            return 0;
        if (errno != EEXIST)
            return -errno;
        r = make_room(place, name);
    }
    return r < 0 ? r : -EEXIST;
}

// --- directories

// It may have gone, or become something else.
static int dress_dir(const struct tar_place *place, const struct later *later, const char *name)
{
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT      },
        { .tv_sec = later->mtime, .tv_nsec = later->mtime_ns},
    };
    auto_fd fd = open_below(place->root, name, O_RDONLY);
    if (fd < 0)
        return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? 0 : fd;
    int r = own(place, fd, "", later->uid, later->gid);
    if (r == 0 && (fchmod(fd, later->mode & MODES) < 0 || futimens(fd, times) < 0))
        r = -errno;
    return r;
}

int tar_place_finish(struct tar_place *place)
{
    size_t at = 0;
    int r = 0;
    while (r == 0 && at < place->later_len) {
        struct later later;
        memcpy(&later, place->later + at, sizeof later);
        r = dress_dir(place, &later, place->later + at + sizeof later);
        at += sizeof later + later.name_len;
    }
    place->later_len = 0;
    return r;
}

static int remember(struct tar_place *place, const struct tar_head *head)
{
    struct later later = {
        .mtime = head->mtime,
        .mtime_ns = head->mtime_ns,
        .mode = head->mode,
        .uid = (uint32_t)head->uid,
        .gid = (uint32_t)head->gid,
        .name_len = (uint32_t)strlen(head->name) + 1,
    };
    if (place->keep_owner && (head->uid >= UINT32_MAX || head->gid >= UINT32_MAX))
        return -EINVAL;
    if (sizeof later + later.name_len > sizeof place->later - place->later_len) {
        int r = tar_place_finish(place);
        if (r < 0)
            return r;
    }
    memcpy(place->later + place->later_len, &later, sizeof later);
    memcpy(place->later + place->later_len + sizeof later, head->name, later.name_len);
    place->later_len += sizeof later + later.name_len;
    return 0;
}

static int is_dir(int dir, const char *name)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    return S_ISDIR(st.st_mode);
}

int tar_place_dir(struct tar_place *place, const struct tar_head *head)
{
    const char *name;
    if (head->name[0] ==
        '\0') // where all is unpacked: not the archive's to change, if it was there
        return place->made ? remember(place, head) : 0;
    int r = enter(place, head->name, &name);
    for (int i = 0; r == 0 && i < TRIES; i++) {
        if (mkdirat(place->dir, name, (head->mode & MODES) | 0700) == 0)
            return remember(place, head);
        if (errno != EEXIST)
            return -errno;
        r = is_dir(place->dir, name);
        if (r != 0)
            return r < 0 ? r : remember(place, head);
        r = make_room(place, name);
    }
    return r < 0 ? r : -EEXIST;
}
