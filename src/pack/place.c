// SPDX-License-Identifier: Apache-2.0
#include "pack/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "pack/pack-internal.h"

enum { LEVELS_MAX = JOB_NAME_MAX / 2 };

struct level {
    int fd;
    size_t name, len; // in `names`
};

struct place {
    int top;
    bool makes;
    uint32_t uid, gid;
    struct level *levels;
    unsigned n, room;
    char names[JOB_NAME_MAX + 1]; // of the levels, one after the other
    char last[NAME_MAX + 1];
};

struct place *place_new(int top, bool makes, struct err *err)
{
    struct place *place = calloc(1, sizeof *place);
    if (place == NULL) {
        (void)err_set(err, ERR_EXHAUSTED, "no memory to find places with");
        return NULL;
    }
    place->top = top;
    place->makes = makes;
    return place;
}

void place_own(struct place *place, uint32_t uid, uint32_t gid)
{
    place->uid = uid;
    place->gid = gid;
}

static void cut(struct place *place, unsigned n)
{
    while (place->n > n)
        fd_close(place->levels[--place->n].fd);
}

void place_free(struct place *place)
{
    if (place == NULL)
        return;
    cut(place, 0);
    free(place->levels);
    free(place);
}

void place_forget(struct place *place)
{
    cut(place, 0);
}

// The next name of a path that says something: 1, 0 at the end, -1 for one that is not allowed.
static int next_name(const char **at, const char **ret, size_t *ret_len)
{
    for (;;) {
        while (**at == '/')
            (*at)++;
        size_t len = strcspn(*at, "/");
        const char *name = *at;
        *at += len;
        if (len == 0)
            return 0;
        if (len == 1 && name[0] == '.')
            continue;
        if (len > NAME_MAX || (len == 2 && name[0] == '.' && name[1] == '.'))
            return -1;
        *ret = name;
        *ret_len = len;
        return 1;
    }
}

static int open_level(struct place *place, int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT || !place->makes)
        return fd < 0 ? -errno : fd;
    if (mkdirat(dir, name, 0755) < 0 ||
        ((place->uid != 0 || place->gid != 0) &&
         fchownat(dir, name, place->uid, place->gid, AT_SYMLINK_NOFOLLOW) < 0))
        return -errno;
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int push(struct place *place, const char *name, size_t len)
{
    char text[NAME_MAX + 1];
    struct level *above = place->n > 0 ? &place->levels[place->n - 1] : NULL;
    size_t at = above != NULL ? above->name + above->len : 0;
    if (at + len > JOB_NAME_MAX || place->n == LEVELS_MAX)
        return -ENAMETOOLONG;
    if (place->n == place->room) {
        unsigned room = place->room > 0 ? place->room * 2 : 32;
        struct level *levels = reallocarray(place->levels, room, sizeof *levels);
        if (levels == NULL)
            return -ENOMEM;
        place->levels = levels;
        above = place->n > 0 ? &levels[place->n - 1] : NULL;
        place->room = room;
    }
    memcpy(text, name, len);
    text[len] = '\0';
    int fd = open_level(place, above != NULL ? above->fd : place->top, text);
    if (fd < 0)
        return fd;
    memcpy(place->names + at, name, len);
    place->levels[place->n++] = (struct level){.fd = fd, .name = at, .len = len};
    return 0;
}

static bool is_level(const struct place *place, unsigned i, const char *name, size_t len)
{
    const struct level *level = &place->levels[i];
    return i < place->n && level->len == len && memcmp(place->names + level->name, name, len) == 0;
}

static int refuse(int r, const char *path, struct err *err)
{
    char text[100];
    if (r == -ENOTDIR || r == -ELOOP)
        return err_set(err, ERR_INVALID, "'%s' leads through what is no directory",
                       shown(path, text));
    (void)err_sys(err, -r, "get to '%s'", shown(path, text));
    if (r == -ENOENT || r == -ENAMETOOLONG || r == -EEXIST)
        err->code = ERR_INVALID;
    return -1;
}

// Goes down as the path says; `name` is the last one, that is not gone into.
static int descend(struct place *place, const char *path, const char **name, size_t *len,
                   struct err *err)
{
    const char *at = path, *next;
    size_t next_len;
    unsigned depth = 0;
    int r;
    while ((r = next_name(&at, &next, &next_len)) == 1) {
        if (*len > 0) {
            if (!is_level(place, depth, *name, *len)) {
                cut(place, depth);
                int pushed = push(place, *name, *len);
                if (pushed < 0)
                    return refuse(pushed, path, err);
            }
            depth++;
        }
        *name = next;
        *len = next_len;
    }
    cut(place, depth);
    return r;
}

int place_find(struct place *place, const char *path, const char **ret_name, struct err *err)
{
    char text[100];
    const char *name = ".";
    size_t len = 0;
    if (path[0] == '/' || strlen(path) > JOB_NAME_MAX)
        return err_set(err, ERR_INVALID, "'%s' is no path in the directory", shown(path, text));
    struct err why = {0};
    if (descend(place, path, &name, &len, &why) < 0) {
        if (why.code == ERR_NONE)
            return err_set(err, ERR_INVALID, "'%s' is no path in the directory", shown(path, text));
        *err = why;
        return -1;
    }
    memcpy(place->last, name, len > 0 ? len : 1);
    place->last[len > 0 ? len : 1] = '\0';
    *ret_name = place->last;
    return place->n > 0 ? place->levels[place->n - 1].fd : place->top;
}
