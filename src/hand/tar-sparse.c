// SPDX-License-Identifier: Apache-2.0
#include "hand/tar-sparse.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

#define HOLE_MIN  ((uint64_t)64 << 10)
#define ZEROS_MAX ((uint64_t)1 << 30)

struct search {
    struct tar_extent *at;
    int n;
    uint64_t hole_min;
    uint64_t zeros; // holes that count as data
    bool full;
};

// The next stretch of data from `pos` on; whatever the file has become meanwhile, it moves on.
static bool next_data(int fd, uint64_t pos, uint64_t size, struct tar_extent *ret)
{
    off_t from = lseek(fd, (off_t)pos, SEEK_DATA);
    if (from < 0 && errno == ENXIO)
        return false;
    if (from < (off_t)pos) // a file system that does not know
        from = (off_t)pos;
    if ((uint64_t)from >= size)
        return false;
    off_t to = lseek(fd, from, SEEK_HOLE);
    uint64_t end = to <= from || (uint64_t)to > size ? size : (uint64_t)to;
    *ret = (struct tar_extent){(uint64_t)from, end - (uint64_t)from};
    return true;
}

static void add(struct search *s, struct tar_extent e)
{
    struct tar_extent *last = s->n > 0 ? &s->at[s->n - 1] : NULL;
    uint64_t end = last == NULL ? 0 : last->at + last->len;
    if (e.at - end >= s->hole_min || (last == NULL && e.at == 0)) {
        // Two are kept back: for the end.
        s->full = s->n == TAR_EXTENTS_MAX - 2;
        if (!s->full)
            s->at[s->n++] = e;
        return;
    }
    s->zeros += e.at - end;
    if (last != NULL)
        last->len = e.at + e.len - last->at;
    else
        s->at[s->n++] = (struct tar_extent){0, e.at + e.len};
}

static void search(struct search *s, int fd, uint64_t size)
{
    struct tar_extent e;
    uint64_t pos = 0;
    while (!s->full && pos < size && next_data(fd, pos, size, &e)) {
        add(s, e);
        pos = e.at + e.len;
    }
    pos = s->n > 0 ? s->at[s->n - 1].at + s->at[s->n - 1].len : 0;
    if (s->full || pos == size)
        return;
    if (size - pos >= s->hole_min || s->n == 0) {
        s->at[s->n++] = (struct tar_extent){size, 0};
    } else {
        s->at[s->n - 1].len += size - pos;
        s->zeros += size - pos;
    }
}

// Half of what is written may be zeros.
static bool is_too_much(const struct search *s)
{
    uint64_t all = 0;
    for (int i = 0; i < s->n; i++)
        all += s->at[i].len;
    return s->zeros > ZEROS_MAX && s->zeros > all / 2;
}

int tar_sparse_find(int fd, uint64_t size, struct tar_extent *ret)
{
    for (uint64_t hole = HOLE_MIN; hole <= size || hole == HOLE_MIN; hole *= 16) {
        struct search s = {.at = ret, .hole_min = hole};
        search(&s, fd, size);
        if (!s.full && is_too_much(&s))
            return -EFBIG;
        if (!s.full)
            return s.n;
    }
    return -EFBIG;
}
