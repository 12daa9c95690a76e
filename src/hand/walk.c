// SPDX-License-Identifier: Apache-2.0
// The names of the directory we are in, and of those above, lie in one stretch of memory: texts
// from the bottom up, their places from the top down, so that leaving a directory gives back what
// it took. Few directories stay open; deeper ones are opened anew by their path, beneath the first
// one.
#include "hand/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "hand/hand-internal.h"

enum {
    LEVELS_MAX = HAND_PATH_MAX / 2 + 1, // no path is deeper
    OPEN_MAX_LEVEL = 32,
    KEEP_MIN = 1024,
};

struct level {
    int fd;       // -1: is not kept open
    bool made_up; // and all below
    dev_t dev;
    uint32_t text_top; // where it began in memory
    uint32_t n, next;  // names, and the one that is next
    size_t path_len;   // of its own path
    const char *after; // only names behind this one's first component; NULL: all
};

static struct {
    char *memory; // WALK_MEMORY bytes
    uint32_t text_top;
    uint32_t *places; // grows down: the last name of the current directory
    struct level levels[LEVELS_MAX];
    unsigned depth; // of the current one
    struct walk_how how;
    uint64_t need;
    char path[HAND_PATH_MAX]; // of the current entry
    bool enter;               // it is a directory to go into
    const char *enter_after;
    int missed;
    char missed_path[256];
} w;

static void miss(int sys_errno)
{
    if (w.missed != 0)
        return;
    w.missed = sys_errno;
    size_t len = strnlen(w.path, sizeof w.missed_path - 1);
    memcpy(w.missed_path, w.path, len);
    w.missed_path[len] = '\0';
}

int walk_missed(const char **ret_path)
{
    *ret_path = w.missed_path;
    return w.missed;
}

void walk_need(uint64_t n)
{
    w.need = n;
}

void walk_pass(void)
{
    w.enter = false;
}

// --- names of one directory

static int compare(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return strcmp(w.memory + *x, w.memory + *y);
}

static int compare_places(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

// Only the first `keep` of the names can matter: the others go, and what their texts took. Those
// that stay move down in the order in which they lie there, so that none is overwritten.
static void cut(struct level *level, uint32_t keep)
{
    qsort(w.places, level->n, sizeof *w.places, compare);
    qsort(w.places, keep, sizeof *w.places, compare_places);
    w.text_top = level->text_top;
    for (uint32_t i = 0; i < keep; i++) {
        size_t len = strlen(w.memory + w.places[i]) + 1;
        memmove(w.memory + w.text_top, w.memory + w.places[i], len);
        w.places[i] = w.text_top;
        w.text_top += (uint32_t)len;
    }
    uint32_t *to = w.places + (level->n - keep);
    memmove(to, w.places, keep * sizeof *to);
    w.places = to;
    level->n = keep;
}

static bool is_wanted(const struct level *level, const char *name)
{
    if (name[0] == '.') {
        if (name[1] == '\0' || (name[1] == '.' && name[2] == '\0') || !w.how.hidden)
            return false;
    }
    if (level->after == NULL)
        return true;
    size_t len = strcspn(level->after, "/");
    int order = strncmp(name, level->after, len);
    if (order != 0)
        return order > 0;
    return name[len] != '\0' || w.how.recursive; // itself is passed, but gone into
}

static size_t room(void)
{
    return (size_t)((char *)w.places - (w.memory + w.text_top));
}

static int add(struct level *level, const char *name)
{
    uint64_t keep = w.need < KEEP_MIN ? KEEP_MIN : w.need;
    size_t len = strlen(name) + 1;
    if (level->n / 2 >= keep)
        cut(level, (uint32_t)keep);
    if (room() < len + sizeof *w.places && keep < level->n)
        cut(level, (uint32_t)keep);
    if (room() < len + sizeof *w.places)
        return -ENOMEM;
    memcpy(w.memory + w.text_top, name, len);
    *--w.places = w.text_top;
    w.text_top += (uint32_t)len;
    level->n++;
    return 0;
}

struct dirent_raw { // as getdents64 writes it
    uint64_t ino;
    int64_t off;
    uint16_t len;
    uint8_t type;
    char name[];
};

static int read_names(struct level *level)
{
    static _Alignas(8) char buf[64 * 1024];
    for (;;) {
        long n = syscall(SYS_getdents64, level->fd, buf, sizeof buf);
        if (n < 0 && errno != ENOENT) // it was removed
            return -errno;
        if (n <= 0)
            break;
        for (long at = 0; at < n;) {
            const struct dirent_raw *e = (const void *)(buf + at);
            int r = is_wanted(level, e->name) ? add(level, e->name) : 0;
            if (r < 0)
                return r;
            at += e->len;
        }
    }
    qsort(w.places, level->n, sizeof *w.places, compare);
    return 0;
}

// --- up and down

static int push(int take_fd, size_t path_len, const char *after)
{
    struct stat st;
    struct level *level = &w.levels[w.depth];
    const struct level *above = w.depth > 0 ? level - 1 : NULL;
    *level =
        (struct level){.fd = take_fd, .path_len = path_len, .after = after, .text_top = w.text_top};
    if (fstat(take_fd, &st) < 0)
        return -errno;
    level->dev = st.st_dev;
    if (above == NULL || above->dev != st.st_dev)
        level->made_up = hand_is_made_up(take_fd);
    else
        level->made_up = above->made_up;
    if (above != NULL && level->made_up)
        return 0; // nothing in there
    return read_names(level);
}

static void pop(void)
{
    struct level *level = &w.levels[w.depth];
    fd_close(level->fd);
    w.text_top = level->text_top;
    w.places += level->n - level->next;
    if (w.depth-- == 0)
        return;
    level--;
    w.path[level->path_len] = '\0';
    if (level->fd >= 0)
        return;
    level->fd = hand_open_beneath(w.levels[0].fd, w.path, O_RDONLY | O_DIRECTORY);
    if (level->fd < 0) { // it is not there any more
        w.places += level->n - level->next;
        level->next = level->n;
    }
}

static int descend(void)
{
    struct level *level = &w.levels[w.depth];
    const char *name = strrchr(w.path, '/');
    w.enter = false;
    if (w.depth + 1 >= LEVELS_MAX) {
        miss(ENAMETOOLONG);
        return 0;
    }
    int fd = hand_open_beneath(level->fd, name != NULL ? name + 1 : w.path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        if (fd != -ENOENT && fd != -ENOTDIR && fd != -ELOOP)
            miss(-fd);
        return 0;
    }
    if (w.depth >= OPEN_MAX_LEVEL) {
        fd_close(level->fd);
        level->fd = -1;
    }
    w.depth++;
    return push(fd, strlen(w.path), w.enter_after);
}

int walk_begin(int take_dir, const struct walk_how *how)
{
    void *at = mmap(NULL, WALK_MEMORY, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return -errno;
    w.memory = at;
    w.places = (uint32_t *)(void *)(w.memory + WALK_MEMORY);
    w.how = *how;
    if (w.need == 0)
        w.need = UINT64_MAX;
    return push(take_dir, 0, how->after[0] != '\0' ? how->after : NULL);
}

// --- entries

// Puts the name behind its directory's path. False: that would be longer than any path.
static bool set_path(const struct level *level, const char *name)
{
    size_t at = level->path_len, len = strlen(name);
    if (at + 1 + len >= sizeof w.path)
        return false;
    if (at > 0)
        w.path[at++] = '/';
    memcpy(w.path + at, name, len + 1);
    return true;
}

// Whether the name is the one that `after` begins with, and then what is left of that for below.
static bool is_passed(const struct level *level, const char *name, const char **ret_rest)
{
    *ret_rest = NULL;
    if (level->after == NULL)
        return false;
    size_t len = strcspn(level->after, "/");
    if (strncmp(name, level->after, len) != 0 || name[len] != '\0')
        return false;
    if (level->after[len] == '/')
        *ret_rest = level->after + len + 1;
    return true;
}

// 1: an entry, 0: nothing to tell.
static int take(struct level *level, const char *name, struct walk_entry *ret)
{
    if (!set_path(level, name)) {
        w.path[level->path_len] = '\0';
        miss(ENAMETOOLONG);
        return 0;
    }
    if (fstatat(level->fd, name, &ret->st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT)
            miss(errno);
        return 0;
    }
    bool passed = is_passed(level, name, &w.enter_after);
    w.enter = w.how.recursive && S_ISDIR(ret->st.st_mode) && !level->made_up;
    ret->dir = level->fd;
    ret->path_len = strlen(w.path);
    ret->path = w.path;
    ret->name = w.path + ret->path_len - strlen(name);
    return !passed;
}

int walk_next(struct walk_entry *ret)
{
    for (;;) {
        int r = w.enter ? descend() : 0;
        if (r < 0)
            return r;
        struct level *level = &w.levels[w.depth];
        if (level->next == level->n) {
            if (w.depth == 0)
                return 0;
            pop();
            continue;
        }
        level->next++;
        r = take(level, w.memory + *w.places++, ret);
        if (r != 0)
            return r;
    }
}
