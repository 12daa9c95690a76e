// SPDX-License-Identifier: Apache-2.0
#include "pack/select.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "pack/ignore.h"
#include "pack/pack-internal.h"

enum { GITIGNORE_MAX = 1024 * 1024 };

struct select {
    const struct job *job;
    struct walk *walk;
};

// A file of that name that is none, or is too large, says nothing.
static int read_gitignore(struct select *select, int dir, const char *path, unsigned depth,
                          struct err *err)
{
    struct stat st;
    if (!select->job->gitignore)
        return 0;
    auto_fd fd = openat(dir, ".gitignore", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > GITIGNORE_MAX)
        return 0;
    auto_free char *text = malloc((size_t)st.st_size + 1);
    ssize_t n = text != NULL ? fd_read_all(fd, text, (size_t)st.st_size) : -ENOMEM;
    int r = n < 0 ? (int)n : ignore_add(select->job->ignore, path, depth, text, (size_t)n);
    if (r == -E2BIG)
        return err_set(err, ERR_INVALID, "there are too many lines in .gitignore files");
    return r < 0 ? err_sys(err, -r, "read a .gitignore") : 0;
}

struct select *select_new(const struct job *job, int dir, struct err *err)
{
    struct select *select = calloc(1, sizeof *select);
    if (select == NULL) {
        (void)err_sys(err, ENOMEM, "walk through a tree");
        return NULL;
    }
    select->job = job;
    select->walk = walk_new(dir, err);
    if (select->walk == NULL || read_gitignore(select, dir, "", 0, err) < 0) {
        select_free(select);
        return NULL;
    }
    return select;
}

void select_free(struct select *select)
{
    if (select == NULL)
        return;
    walk_free(select->walk);
    free(select);
}

int select_next(struct select *select, struct walk_entry *ret, struct err *err)
{
    int r;
    while ((r = walk_next(select->walk, ret, err)) == 1) {
        bool is_dir = S_ISDIR(ret->st.st_mode);
        ignore_leave(select->job->ignore, ret->depth - 1);
        enum ignore_verdict verdict = ignore_check(select->job->ignore, ret->path, is_dir);
        if (ignore_is_spent())
            return err_set(err, ERR_INVALID,
                           "the patterns take too long: there are too many, or too long ones");
        if (verdict == IGNORE_YES && is_dir)
            walk_skip(select->walk);
        if (verdict == IGNORE_YES)
            continue;
        if (is_dir && read_gitignore(select, ret->fd, ret->path, ret->depth, err) < 0)
            return -1;
        if (verdict == IGNORE_NO)
            return 1;
    }
    return r;
}
