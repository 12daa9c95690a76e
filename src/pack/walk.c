// SPDX-License-Identifier: Apache-2.0
#include "pack/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "pack/pack-internal.h"

enum {
    NAMES_MAX = 1024 * 1024 * 1024, // bytes of the names of one directory
    READ_SIZE = 64 * 1024,
};

struct level {
    int fd; // the caller's, of the first
    char *names;
    size_t len, at;
    size_t path_len; // of the directory, without a slash
};

struct walk {
    struct level *levels;
    unsigned n, room;
    int next; // the directory that came last, if it is to be entered
    char path[JOB_NAME_MAX + 1];
    char block[READ_SIZE];
};

static int out_of_memory(struct err *err)
{
    return err_set(err, ERR_EXHAUSTED, "too many names in the tree for the memory there is");
}

static int add_names(struct level *level, const char *block, size_t size, size_t *room)
{
    for (size_t at = 0; at < size;) {
        const struct dirent64 *e = (const void *)(block + at);
        at += e->d_reclen;
        size_t len = strlen(e->d_name) + 1;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (*room - level->len < len) {
            size_t more = *room > 0 ? *room * 2 : 4096;
            char *names = more <= NAMES_MAX ? realloc(level->names, more) : NULL;
            if (names == NULL)
                return -ENOMEM;
            level->names = names;
            *room = more;
        }
        memcpy(level->names + level->len, e->d_name, len);
        level->len += len;
    }
    return 0;
}

static int read_names(struct walk *walk, struct level *level, struct err *err)
{
    size_t room = 0;
    for (;;) {
        ssize_t n = getdents64(level->fd, walk->block, sizeof walk->block);
        if (n < 0)
            return err_sys(err, errno, "list a directory");
        if (n == 0)
            return 0;
        if (add_names(level, walk->block, (size_t)n, &room) < 0)
            return out_of_memory(err);
    }
}

// Takes the descriptor, but for the first one.
static int enter(struct walk *walk, int fd, size_t path_len, struct err *err)
{
    if (walk->n == walk->room) {
        unsigned room = walk->room > 0 ? walk->room * 2 : 64;
        struct level *levels = reallocarray(walk->levels, room, sizeof *levels);
        if (levels == NULL)
            return out_of_memory(err);
        walk->levels = levels;
        walk->room = room;
    }
    struct level *level = &walk->levels[walk->n++];
    *level = (struct level){.fd = fd, .path_len = path_len};
    return read_names(walk, level, err);
}

static void leave(struct walk *walk)
{
    struct level *level = &walk->levels[--walk->n];
    free(level->names);
    if (walk->n > 0)
        fd_close(level->fd);
}

struct walk *walk_new(int dir, struct err *err)
{
    struct walk *walk = calloc(1, sizeof *walk);
    if (walk == NULL) {
        (void)out_of_memory(err);
        return NULL;
    }
    walk->next = -1;
    if (lseek(dir, 0, SEEK_SET) < 0) {
        (void)err_sys(err, errno, "list a directory");
        free(walk);
        return NULL;
    }
    if (enter(walk, dir, 0, err) < 0) {
        walk_free(walk);
        return NULL;
    }
    return walk;
}

void walk_free(struct walk *walk)
{
    if (walk == NULL)
        return;
    fd_close(walk->next);
    while (walk->n > 0)
        leave(walk);
    free(walk->levels);
    free(walk);
}

// Puts the name behind the path of its directory.
static int extend(struct walk *walk, size_t at, const char *name, size_t *ret, struct err *err)
{
    size_t len = strlen(name), slash = at > 0;
    if (at + slash + len >= sizeof walk->path)
        return err_set(err, ERR_UNSUPPORTED, "the tree is too deep: a path has over %d bytes",
                       JOB_NAME_MAX);
    if (slash)
        walk->path[at] = '/';
    memcpy(walk->path + at + slash, name, len + 1);
    *ret = at + slash + len;
    return 0;
}

static int describe(struct walk *walk, struct walk_entry *e, struct err *err)
{
    char text[100];
    if (fstatat(e->dir, e->name, &e->st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, errno, "look at '%s'", shown(e->path, text));
    if (!S_ISDIR(e->st.st_mode))
        return 1;
    e->fd = openat(e->dir, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (e->fd < 0)
        return err_sys(err, errno, "open '%s'", shown(e->path, text));
    walk->next = e->fd;
    return 1;
}

int walk_next(struct walk *walk, struct walk_entry *ret, struct err *err)
{
    if (walk->next >= 0) {
        int fd = TAKE_FD(walk->next);
        unsigned before = walk->n;
        if (enter(walk, fd, strlen(walk->path), err) < 0) {
            if (walk->n == before)
                fd_close(fd);
            return -1;
        }
    }
    while (walk->n > 0 && walk->levels[walk->n - 1].at == walk->levels[walk->n - 1].len)
        leave(walk);
    if (walk->n == 0)
        return 0;
    struct level *level = &walk->levels[walk->n - 1];
    const char *name = level->names + level->at;
    level->at += strlen(name) + 1;
    *ret = (struct walk_entry){
        .dir = level->fd, .name = name, .path = walk->path, .depth = walk->n, .fd = -1};
    if (extend(walk, level->path_len, name, &ret->path_len, err) < 0)
        return -1;
    return describe(walk, ret, err);
}

void walk_skip(struct walk *walk)
{
    fd_close(TAKE_FD(walk->next));
}
