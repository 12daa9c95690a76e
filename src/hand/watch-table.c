// SPDX-License-Identifier: Apache-2.0
#include "hand/watch-table.h"

#include <errno.h>
#include <string.h>

static uint32_t index_of(const struct watch_table *t, const struct watch_node *node)
{
    return (uint32_t)(node - t->node);
}

static uint32_t *wd_slot(struct watch_table *t, int wd)
{
    return &t->wd_slot[(uint32_t)wd % WATCH_SLOTS];
}

static uint32_t *name_slot(struct watch_table *t, uint32_t parent, const char *name)
{
    uint32_t hash = 2166136261u ^ parent * 16777619u; // FNV-1a
    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return &t->name_slot[(hash ^ hash >> 16) % WATCH_SLOTS];
}

struct watch_node *watch_by_wd(struct watch_table *t, int wd)
{
    if (wd <= 0)
        return NULL;
    for (uint32_t i = *wd_slot(t, wd); i != 0; i = t->node[i - 1].by_wd)
        if (t->node[i - 1].wd == wd)
            return &t->node[i - 1];
    return NULL;
}

struct watch_node *watch_child(struct watch_table *t, const struct watch_node *dir,
                               const char *name)
{
    uint32_t parent = index_of(t, dir);
    for (uint32_t i = *name_slot(t, parent, name); i != 0; i = t->node[i - 1].by_name)
        if (t->node[i - 1].parent == parent && strcmp(t->node[i - 1].name, name) == 0)
            return &t->node[i - 1];
    return NULL;
}

static void link_wd(struct watch_table *t, struct watch_node *node, int wd)
{
    uint32_t *slot = wd_slot(t, wd);
    node->wd = wd;
    node->by_wd = *slot;
    *slot = index_of(t, node) + 1;
}

void watch_table_init(struct watch_table *t, int wd)
{
    t->n = t->used = 1;
    link_wd(t, &t->node[0], wd);
}

static struct watch_node *take_free(struct watch_table *t)
{
    struct watch_node *node;
    if (t->free != 0) {
        node = &t->node[t->free - 1];
        t->free = node->by_wd;
    } else if (t->used < WATCH_MAX) {
        node = &t->node[t->used++];
    } else {
        return NULL;
    }
    t->n++;
    return node;
}

struct watch_node *watch_add(struct watch_table *t, int wd, const struct watch_node *dir,
                             const char *name)
{
    struct watch_node *node = take_free(t);
    if (node == NULL)
        return NULL;
    memset(node, 0, offsetof(struct watch_node, name));
    node->detached = true;
    link_wd(t, node, wd);
    watch_attach(t, node, dir, name);
    return node;
}

bool watch_is_above(const struct watch_table *t, const struct watch_node *node,
                    const struct watch_node *dir)
{
    for (uint32_t i = 0; dir != node && dir != t->node; i++) {
        if (i == WATCH_MAX)
            return true; // a ring: what a directory's place was has another one now
        dir = &t->node[dir->parent];
    }
    return dir == node;
}

void watch_attach(struct watch_table *t, struct watch_node *node, const struct watch_node *dir,
                  const char *name)
{
    if (!node->detached)
        watch_detach(t, node, 0);
    size_t len = strnlen(name, NAME_MAX);
    memmove(node->name, name, len);
    node->name[len] = '\0';
    node->parent = index_of(t, dir);
    node->detached = false;
    node->cookie = 0;
    uint32_t *slot = name_slot(t, node->parent, node->name);
    node->by_name = *slot;
    *slot = index_of(t, node) + 1;
}

void watch_detach(struct watch_table *t, struct watch_node *node, uint32_t cookie)
{
    node->cookie = cookie;
    if (node->detached || node == t->node)
        return;
    uint32_t *at = name_slot(t, node->parent, node->name), me = index_of(t, node) + 1;
    while (*at != me)
        at = &t->node[*at - 1].by_name;
    *at = node->by_name;
    node->detached = true;
}

void watch_bury(struct watch_table *t, struct watch_node *node)
{
    uint32_t *at = wd_slot(t, node->wd), me = index_of(t, node) + 1;
    watch_detach(t, node, 0);
    while (*at != me)
        at = &t->node[*at - 1].by_wd;
    *at = node->by_wd;
    node->wd = -1;
}

void watch_rebind(struct watch_table *t, struct watch_node *node, int wd)
{
    watch_bury(t, node);
    link_wd(t, node, wd);
}

void watch_remove(struct watch_table *t, struct watch_node *node)
{
    if (node->wd > 0)
        watch_bury(t, node);
    node->wd = 0;
    node->by_wd = t->free;
    t->free = index_of(t, node) + 1;
    t->n--;
}

int watch_path(const struct watch_table *t, const struct watch_node *node, char *ret, size_t size)
{
    size_t at = size;
    if (at == 0)
        return -ENAMETOOLONG;
    ret[--at] = '\0';
    for (; node != t->node; node = &t->node[node->parent]) {
        size_t len = strlen(node->name), slash = at < size - 1;
        if (len + slash > at)
            return -ENAMETOOLONG;
        if (slash)
            ret[--at] = '/';
        at -= len;
        memcpy(ret + at, node->name, len);
    }
    memmove(ret, ret + at, size - at);
    return (int)(size - at - 1);
}
