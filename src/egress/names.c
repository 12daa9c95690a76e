// SPDX-License-Identifier: Apache-2.0
#include "egress/names.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

enum {
    FIRST = 0xc6120000u, // 198.18.0.0
    COUNT = 1u << 17,
};

struct entry {
    struct entry *newer, *older;
    uint32_t address; // host order
    unsigned held;
    char key[12]; // the address, for the map
    char name[];
};

struct names {
    struct map by_name, by_address;
    struct entry *newest, *oldest;
};

struct names *names_new(void)
{
    struct names *names = calloc(1, sizeof *names);
    if (names == NULL)
        abort();
    return names;
}

static void unlink_entry(struct names *names, struct entry *e)
{
    *(e->newer != NULL ? &e->newer->older : &names->newest) = e->older;
    *(e->older != NULL ? &e->older->newer : &names->oldest) = e->newer;
    e->newer = e->older = NULL;
}

static void link_newest(struct names *names, struct entry *e)
{
    e->older = names->newest;
    *(names->newest != NULL ? &names->newest->newer : &names->oldest) = e;
    names->newest = e;
}

static void drop(struct names *names, struct entry *e)
{
    unlink_entry(names, e);
    (void)map_del(&names->by_name, e->name);
    (void)map_del(&names->by_address, e->key);
    free(e);
}

void names_free(struct names *names)
{
    if (names == NULL)
        return;
    while (names->newest != NULL)
        drop(names, names->newest);
    map_done(&names->by_name);
    map_done(&names->by_address);
    free(names);
}

static void write_key(char key[12], uint32_t address)
{
    (void)snprintf(key, 12, "%08x", address);
}

static struct entry *find(struct names *names, uint32_t address)
{
    char key[12];
    write_key(key, address);
    return map_get(&names->by_address, key);
}

// FNV-1a: it spreads, and the box that could make it collide has only its own table.
static uint32_t spread(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash ^ hash >> 17;
}

static uint32_t free_address(struct names *names, const char *name)
{
    uint32_t at = spread(name) % COUNT;
    for (;; at = (at + 1) % COUNT) { // ends: there are far more addresses than entries
        uint32_t low = at & 0xff;
        if (low != 0 && low != 0xff && find(names, FIRST + at) == NULL)
            return FIRST + at;
    }
}

static int make_room(struct names *names)
{
    struct entry *e = names->oldest;
    if (names->by_name.n < NAMES_MAX)
        return 0;
    while (e != NULL && e->held > 0)
        e = e->newer;
    if (e == NULL)
        return -ENOSPC;
    drop(names, e);
    return 0;
}

static struct entry *add(struct names *names, const char *name)
{
    size_t len = strlen(name);
    struct entry *e = calloc(1, sizeof *e + len + 1);
    if (e == NULL)
        abort();
    (void)memcpy(e->name, name, len + 1);
    e->address = free_address(names, name);
    write_key(e->key, e->address);
    map_put(&names->by_name, e->name, e);
    map_put(&names->by_address, e->key, e);
    return e;
}

int names_give(struct names *names, const char *name, struct in_addr *ret)
{
    struct entry *e = map_get(&names->by_name, name);
    if (e != NULL)
        unlink_entry(names, e);
    else if (make_room(names) < 0)
        return -ENOSPC;
    else
        e = add(names, name);
    link_newest(names, e);
    ret->s_addr = htonl(e->address);
    return 0;
}

const char *names_find(struct names *names, struct in_addr address)
{
    struct entry *e = find(names, ntohl(address.s_addr));
    return e != NULL ? e->name : NULL;
}

void names_hold(struct names *names, struct in_addr address)
{
    struct entry *e = find(names, ntohl(address.s_addr));
    if (e != NULL)
        e->held++;
}

void names_release(struct names *names, struct in_addr address)
{
    struct entry *e = find(names, ntohl(address.s_addr));
    if (e != NULL && e->held > 0)
        e->held--;
}

bool names_is_made_up(struct in_addr address)
{
    return (ntohl(address.s_addr) & ~(COUNT - 1)) == FIRST;
}
