// SPDX-License-Identifier: Apache-2.0
// Texts are laid from the beginning of the memory, each after a byte with its length, pointers to
// them from its end. When they meet, the upper half of the names is dropped, and from then on all
// that come after the last one that was kept.
#include "hand/tar-names.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    DENTS_SIZE = 32 * 1024,
    SIZE_MIN = 4096, // a few names, however long
    TEXT_AT = 1,     // after the byte with the length
};

struct dent { // as the kernel writes it
    uint64_t ino;
    int64_t off;
    uint16_t len;
    uint8_t type;
    char name[];
};

struct pile {
    char *memory, **top; // pointers lie below `top`
    size_t len, n;       // bytes of texts; names
    const char *after;
    char before[NAME_MAX + 1]; // names from here on are for the next time; or ""
};

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(struct pile *p)
{
    qsort(p->top - p->n, p->n, sizeof *p->top, compare);
}

// Texts whose pointer is gone are marked by an empty first byte.
static void squeeze(struct pile *p)
{
    size_t from = 0, to = 0, n = 0;
    while (from < p->len) {
        size_t size = TEXT_AT + (uint8_t)p->memory[from] + 1u;
        if (p->memory[from + TEXT_AT] != '\0') {
            memmove(p->memory + to, p->memory + from, size);
            p->top[-1 - (ptrdiff_t)n++] = p->memory + to + TEXT_AT;
            to += size;
        }
        from += size;
    }
    p->len = to;
    p->n = n;
}

static void drop_half(struct pile *p)
{
    char **names = p->top - p->n;
    size_t keep = (p->n + 1) / 2;
    sort(p);
    memcpy(p->before, names[keep], strlen(names[keep]) + 1);
    for (size_t i = keep; i < p->n; i++)
        names[i][0] = '\0';
    squeeze(p);
}

static bool is_wanted(const struct pile *p, const char *name)
{
    if (name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0')))
        return false;
    return strcmp(name, p->after) > 0 && (p->before[0] == '\0' || strcmp(name, p->before) < 0);
}

static size_t room(const struct pile *p)
{
    return (size_t)((char *)(p->top - p->n) - p->memory) - p->len;
}

static void add(struct pile *p, const char *name)
{
    size_t len = strnlen(name, NAME_MAX);
    if (!is_wanted(p, name))
        return;
    while (room(p) < TEXT_AT + len + 1 + sizeof(char *))
        drop_half(p); // there are several: SIZE_MIN
    if (!is_wanted(p, name))
        return;
    char *at = p->memory + p->len;
    at[0] = (char)len;
    memcpy(at + TEXT_AT, name, len);
    at[TEXT_AT + len] = '\0';
    p->len += TEXT_AT + len + 1;
    p->top[-1 - (ptrdiff_t)p->n++] = at + TEXT_AT;
}

static int read_all(int dirfd, struct pile *p)
{
    static _Alignas(8) char buf[DENTS_SIZE];
    if (lseek(dirfd, 0, SEEK_SET) < 0)
        return -errno;
    for (;;) {
        long n = syscall(SYS_getdents64, dirfd, buf, sizeof buf);
        if (n <= 0)
            return n < 0 ? -errno : 0;
        for (long i = 0; i < n;) {
            const struct dent *d = (const struct dent *)(const void *)(buf + i);
            add(p, d->name);
            i += d->len;
        }
    }
}

int tar_names_read(int dirfd, const char *after, char *memory, size_t size, struct tar_names *ret)
{
    size &= ~(sizeof(char *) - 1);
    struct pile p = {.memory = memory, .top = (char **)(void *)(memory + size), .after = after};
    if (size < SIZE_MIN)
        return -ENOMEM;
    int r = read_all(dirfd, &p);
    if (r < 0)
        return r;
    sort(&p);
    size_t at = (p.len + sizeof(char *) - 1) & ~(sizeof(char *) - 1);
    memmove(memory + at, p.top - p.n, p.n * sizeof *p.top);
    *ret = (struct tar_names){
        .name = (char **)(void *)(memory + at),
        .n = p.n,
        .used = at + p.n * sizeof *p.top,
        .more = p.before[0] != '\0',
    };
    return 0;
}
