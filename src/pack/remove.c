// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "pack/pack-internal.h"

enum { DEPTH_MAX = JOB_NAME_MAX };

struct open_dir {
    int fd;
    char name[NAME_MAX + 1]; // in the one before
};

struct stack {
    struct open_dir *dirs;
    unsigned n, room;
};

static int push(struct stack *stack, int fd, const char *name)
{
    if (stack->n == stack->room) {
        unsigned room = stack->room > 0 ? stack->room * 2 : 32;
        struct open_dir *dirs =
            room <= DEPTH_MAX ? reallocarray(stack->dirs, room, sizeof *dirs) : NULL;
        if (dirs == NULL)
            return -ENOMEM;
        stack->dirs = dirs;
        stack->room = room;
    }
    struct open_dir *dir = &stack->dirs[stack->n++];
    dir->fd = fd;
    memcpy(dir->name, name, strnlen(name, NAME_MAX) + 1);
    dir->name[NAME_MAX] = '\0';
    return 0;
}

// Into the directory of that name, which is not empty.
static int descend(struct stack *stack, int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = fd < 0 ? -errno : push(stack, fd, name);
    if (fd >= 0 && r < 0)
        fd_close(fd);
    return r;
}

// Removes the names of one block; 1 when a directory has to be emptied first, which is then open.
static int remove_block(struct stack *stack, int dir, const char *block, size_t size)
{
    for (size_t at = 0; at < size;) {
        const struct dirent64 *e = (const void *)(block + at);
        at += e->d_reclen;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (e->d_type != DT_DIR && unlinkat(dir, e->d_name, 0) == 0)
            continue;
        if (unlinkat(dir, e->d_name, AT_REMOVEDIR) == 0)
            continue;
        if (errno != ENOTEMPTY && errno != EEXIST)
            return -errno;
        int r = descend(stack, dir, e->d_name);
        return r < 0 ? r : 1;
    }
    return 0;
}

// One pass over the top of the stack: 1 when there is more to do, 0 when it is empty.
static int pass(struct stack *stack)
{
    char block[8192] __attribute__((aligned(8)));
    int dir = stack->dirs[stack->n - 1].fd;
    if (lseek(dir, 0, SEEK_SET) < 0)
        return -errno;
    for (;;) {
        ssize_t n = getdents64(dir, block, sizeof block);
        if (n <= 0)
            return n < 0 ? -errno : 0;
        int r = remove_block(stack, dir, block, (size_t)n);
        if (r != 0)
            return r;
    }
}

static int ascend(struct stack *stack)
{
    struct open_dir *top = &stack->dirs[--stack->n];
    fd_close(top->fd);
    if (unlinkat(stack->dirs[stack->n - 1].fd, top->name, AT_REMOVEDIR) < 0)
        return -errno;
    return 1;
}

int tree_empty(int dir, struct err *err)
{
    struct stack stack = {0};
    int r = push(&stack, dir, "");
    while (r >= 0) {
        r = pass(&stack);
        if (r == 0 && stack.n == 1)
            break;
        if (r == 0)
            r = ascend(&stack);
    }
    while (stack.n > 1)
        fd_close(stack.dirs[--stack.n].fd);
    free(stack.dirs);
    return r < 0 ? err_sys(err, -r, "remove what was there") : 0;
}
