// SPDX-License-Identifier: Apache-2.0
// Open addressing with linear probing; removed entries leave a mark until the table is made anew.
#include "base/map.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct map_entry {
    const char *key; // NULL: never used
    void *value;     // NULL with a key: removed
    uint64_t hash;
};

enum { FIRST_CAP = 16 };

// SipHash would be the textbook's choice; FNV over a secret start and end is enough against keys
// that are made to collide without knowing the two.
static uint64_t hash(const char *key)
{
    static uint64_t seed[2];
    if (seed[0] == 0 && getrandom(seed, sizeof seed, 0) != sizeof seed)
        abort();
    uint64_t h = 0xcbf29ce484222325u ^ seed[0];
    for (; *key != '\0'; key++) {
        h = (h ^ (unsigned char)*key) * 0x100000001b3u;
        h ^= h >> 29;
    }
    h ^= seed[1];
    h *= 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

void map_done(struct map *map)
{
    free(map->entries);
    *map = (struct map){0};
}

// The entry of the key, or the free one where its search ended.
static struct map_entry *find(const struct map *map, const char *key, uint64_t h)
{
    struct map_entry *e = &map->entries[h & (map->cap - 1)];
    while (e->key != NULL) {
        if (e->value != NULL && e->hash == h && strcmp(e->key, key) == 0)
            return e;
        if (++e == map->entries + map->cap)
            e = map->entries;
    }
    return e;
}

static void rebuild(struct map *map)
{
    struct map old = *map;
    map->cap = FIRST_CAP;
    while (map->cap < old.n * 3)
        map->cap *= 2;
    map->used = map->n = 0;
    map->entries = calloc(map->cap, sizeof *map->entries);
    if (map->entries == NULL)
        abort();
    for (size_t i = 0; i < old.cap; i++) {
        if (old.entries[i].key == NULL || old.entries[i].value == NULL)
            continue;
        *find(map, old.entries[i].key, old.entries[i].hash) = old.entries[i];
        map->used = ++map->n;
    }
    free(old.entries);
}

void *map_get(const struct map *map, const char *key)
{
    return map->n == 0 ? NULL : find(map, key, hash(key))->value;
}

void map_put(struct map *map, const char *key, void *value)
{
    assert(value != NULL); // it would look removed
    if ((map->used + 1) * 4 > map->cap * 3)
        rebuild(map);
    uint64_t h = hash(key);
    struct map_entry *e = find(map, key, h);
    if (e->key == NULL) {
        map->used++;
        map->n++;
    }
    *e = (struct map_entry){.key = key, .value = value, .hash = h};
}

void *map_del(struct map *map, const char *key)
{
    if (map->n == 0)
        return NULL;
    struct map_entry *e = find(map, key, hash(key));
    void *value = e->value;
    if (e->key != NULL) {
        e->key = ""; // the caller may free its key now
        e->value = NULL;
        map->n--;
    }
    return value;
}

void *map_next(const struct map *map, size_t *at)
{
    while (*at < map->cap) {
        const struct map_entry *e = &map->entries[(*at)++];
        if (e->key != NULL && e->value != NULL)
            return e->value;
    }
    return NULL;
}
