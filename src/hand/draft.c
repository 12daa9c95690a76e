// SPDX-License-Identifier: Apache-2.0
// A new file that nobody sees before it is whole. It is born without a name in the directory where
// it will be (O_TMPFILE), so that one that is given up, or whose writer is killed, leaves nothing
// behind. linkat gives a name only where there is none; to replace, it gets a passing name, which
// is then renamed over the old one.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/hand-internal.h"

enum {
    LINKS_MAX = 40,  // as the kernel has it
    TRIES_MAX = 100, // against somebody who makes and removes the same name all the time
};

// --- where

// Opens the directory of `path`, which a link may have said, and finds the last component's name.
static int split(int base, const char *path, struct hand_place *ret)
{
    char above[HAND_PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    size_t len = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return -EISDIR;
    if (strlen(name) > NAME_MAX || len >= sizeof above)
        return -ENAMETOOLONG;
    memcpy(above, path, len);
    above[len] = '\0';
    ret->dir = hand_open(base, len > 0 ? above : ".", O_PATH | O_DIRECTORY);
    if (ret->dir < 0)
        return ret->dir;
    memcpy(ret->name, name, strlen(name) + 1);
    return 0;
}

int hand_place(const char *path, bool make_parents, struct hand_place *ret)
{
    char target[HAND_PATH_MAX];
    struct hand_place at;
    const char *name;
    at.dir = hand_open_parent(path, make_parents, &name);
    if (at.dir < 0)
        return at.dir == -EBUSY ? -EISDIR : at.dir;
    memcpy(at.name, name, strlen(name) + 1); // its length was checked with the request
    for (int links = 0;; links++) {
        ssize_t n = readlinkat(at.dir, at.name, target, sizeof target);
        if (n < 0 && (errno == EINVAL || errno == ENOENT)) { // no link
            *ret = at;
            return 0;
        }
        int r = n < 0 ? -errno : (size_t)n >= sizeof target ? -ENAMETOOLONG : 0;
        if (r == 0 && links == LINKS_MAX)
            r = -ELOOP;
        int base = at.dir;
        if (r == 0) {
            target[n] = '\0';
            r = split(base, target, &at);
        }
        fd_close(base);
        if (r < 0)
            return r;
    }
}

// --- the file

// On file systems that know no files without names.
static int open_named(struct hand_draft *draft)
{
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        hand_passing_name(draft->temp);
        int fd = openat(draft->place.dir, draft->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0)
            return fd;
        if (errno != EEXIST)
            break;
    }
    int r = -errno;
    draft->temp[0] = '\0';
    return r;
}

// What is there now, against what was asked for. 1: there is something, 0: nothing.
static int look(const struct hand_place *place, const struct hand_terms *terms, struct stat *ret)
{
    if (fstatat(place->dir, place->name, ret, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT)
            return -errno;
        return terms->flags & HAND_ETAG_GIVEN ? -ESTALE
               : terms->flags & HAND_EXISTING ? -ENOENT
                                              : 0;
    }
    if (S_ISDIR(ret->st_mode))
        return -EISDIR;
    if (terms->flags & HAND_EXCLUSIVE)
        return -EEXIST;
    if (S_ISLNK(ret->st_mode) && !(terms->flags & HAND_NO_FOLLOW))
        return -ELOOP; // it was put there after we had followed what was there before
    if (!S_ISREG(ret->st_mode) && !S_ISLNK(ret->st_mode))
        return -EINVAL;
    if (terms->flags & HAND_ETAG_GIVEN) {
        struct hand_stat now;
        hand_fill_stat(&now, ret);
        if (strcmp(now.etag, terms->etag) != 0)
            return -ESTALE;
    }
    return 1;
}

int hand_draft_open(struct hand_draft *draft, struct hand_place *take_place,
                    const struct hand_terms *terms)
{
    struct stat st;
    int r = look(take_place, terms, &st);
    if (r < 0)
        return r;
    *draft = (struct hand_draft){.place = *take_place};
    draft->fd = openat(draft->place.dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (draft->fd < 0)
        draft->fd =
            errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL ? open_named(draft) : -errno;
    if (draft->fd < 0)
        return draft->fd;
    take_place->dir = -1;
    return 0;
}

void hand_draft_done(struct hand_draft *draft)
{
    if (draft->temp[0] != '\0')
        (void)unlinkat(draft->place.dir, draft->temp, 0);
    fd_close(draft->fd);
    fd_close(draft->place.dir);
    *draft = (struct hand_draft){.fd = -1, .place = {.dir = -1}};
}

// The owner before the mode: changing it takes bits of the mode away. And a time to the nanosecond,
// where the kernel's own clock for files stands still for milliseconds: it tells contents apart.
static int settle(const struct hand_draft *draft, const struct hand_terms *terms,
                  const struct stat *old)
{
    bool keep = old != NULL && S_ISREG(old->st_mode);
    mode_t mode = terms->flags & HAND_MODE ? terms->mode : keep ? old->st_mode & 0777 : 0644;
    uid_t uid = terms->flags & HAND_OWNER ? terms->uid : keep ? old->st_uid : (uid_t)-1;
    gid_t gid = terms->flags & HAND_OWNER ? terms->gid : keep ? old->st_gid : (gid_t)-1;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
    (void)clock_gettime(CLOCK_REALTIME, &times[1]);
    if (fchown(draft->fd, uid, gid) < 0 || fchmod(draft->fd, mode) < 0)
        return -errno;
    (void)futimens(draft->fd, times);
    return 0;
}

// A second name for one that has a passing one, which goes then, instead of a rename: a watch sees
// from this that the file is new (watch-own.c). Where no file may have two names it is renamed.
static int take_free_name(struct hand_draft *draft)
{
    const struct hand_place *p = &draft->place;
    if (draft->temp[0] == '\0')
        return hand_give_name(draft->fd, p->dir, p->name);
    if (linkat(p->dir, draft->temp, p->dir, p->name, 0) == 0)
        (void)unlinkat(p->dir, draft->temp, 0);
    else if (errno == EEXIST ||
             renameat2(p->dir, draft->temp, p->dir, p->name, RENAME_NOREPLACE) < 0)
        return -errno;
    draft->temp[0] = '\0';
    return 0;
}

static int replace(struct hand_draft *draft, const struct hand_terms *terms)
{
    const struct hand_place *p = &draft->place;
    struct stat now;
    int r = 0;
    for (int tries = 0; draft->temp[0] == '\0' && tries < TRIES_MAX; tries++) {
        char temp[HAND_PASSING_SIZE];
        hand_passing_name(temp);
        r = hand_give_name(draft->fd, p->dir, temp);
        if (r == 0)
            memcpy(draft->temp, temp, sizeof temp);
        else if (r != -EEXIST)
            break;
    }
    if (r == 0 && (terms->flags & HAND_ETAG_GIVEN))
        r = look(p, terms, &now);
    if (r < 0)
        return r;
    if (renameat(p->dir, draft->temp, p->dir, p->name) < 0)
        return -errno;
    draft->temp[0] = '\0';
    return 0;
}

static int commit(struct hand_draft *draft, const struct hand_terms *terms, bool *ret_existed)
{
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        struct stat old;
        int there = look(&draft->place, terms, &old);
        if (there < 0)
            return there;
        int r = settle(draft, terms, there ? &old : NULL);
        if (r == 0)
            r = there ? replace(draft, terms) : take_free_name(draft);
        *ret_existed = there;
        if (r != -EEXIST || (terms->flags & HAND_EXCLUSIVE))
            return r;
    }
    return -EBUSY;
}

int hand_draft_commit(struct hand_draft *draft, const struct hand_terms *terms, bool *ret_existed,
                      struct stat *ret_st)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all,
                      &before); // nobody is to be ended with the passing name there
    int r = commit(draft, terms, ret_existed);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (r == 0 && fstat(draft->fd, ret_st) < 0)
        r = -errno;
    return r;
}
