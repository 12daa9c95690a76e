// SPDX-License-Identifier: Apache-2.0
#include "pack/links.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct link_entry {
    dev_t dev;
    ino_t ino;
    size_t name; // 1 more than where it is; 0: unused
};

void links_done(struct links *links)
{
    free(links->entries);
    free(links->names);
    *links = (struct links){0};
}

// The numbers are the file system's own, which counts them up: no guest can choose where they go.
static size_t slot_of(const struct link_entry *entries, size_t cap, dev_t dev, ino_t ino)
{
    uint64_t hash = ((uint64_t)ino ^ (uint64_t)dev << 40) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 20) & (cap - 1);
    while (entries[at].name != 0 && (entries[at].dev != dev || entries[at].ino != ino))
        at = (at + 1) & (cap - 1);
    return at;
}

static int grow(struct links *links)
{
    size_t cap = links->cap > 0 ? links->cap * 2 : 1024;
    struct link_entry *entries = calloc(cap, sizeof *entries);
    if (entries == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < links->cap; i++) {
        const struct link_entry *e = &links->entries[i];
        if (e->name != 0)
            entries[slot_of(entries, cap, e->dev, e->ino)] = *e;
    }
    free(links->entries);
    links->entries = entries;
    links->cap = cap;
    return 0;
}

static int add_name(struct links *links, const char *path, size_t *ret)
{
    size_t len = strlen(path) + 1;
    while (links->room - links->len < len) {
        size_t room = links->room > 0 ? links->room * 2 : 64 * 1024;
        char *names = realloc(links->names, room);
        if (names == NULL)
            return -ENOMEM;
        links->names = names;
        links->room = room;
    }
    memcpy(links->names + links->len, path, len);
    *ret = links->len + 1;
    links->len += len;
    return 0;
}

const char *links_find(struct links *links, dev_t dev, ino_t ino, const char *path, int *ret_errno)
{
    *ret_errno = links->n * 2 >= links->cap ? grow(links) : 0;
    if (*ret_errno < 0)
        return NULL;
    struct link_entry *e = &links->entries[slot_of(links->entries, links->cap, dev, ino)];
    if (e->name != 0)
        return links->names + e->name - 1;
    size_t name;
    *ret_errno = add_name(links, path, &name);
    if (*ret_errno == 0) {
        *e = (struct link_entry){.dev = dev, .ino = ino, .name = name};
        links->n++;
    }
    return NULL;
}
