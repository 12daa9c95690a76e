// SPDX-License-Identifier: Apache-2.0
// Text keys to pointers. The keys are the caller's and must live as long as their entries (most
// often they are a field of the value). Hashed with a random seed, since the keys come from
// strangers. Memory for an entry that cannot be had aborts: it is small, and nobody could go on.
// One thread at a time.
#pragma once

#include <stddef.h>

struct map_entry;

struct map {
    struct map_entry *entries;
    size_t cap;  // a power of two, or 0
    size_t n;    // entries
    size_t used; // and removed ones
};

void map_done(struct map *map); // a map of zeros is an empty one
void *map_get(const struct map *map, const char *key);
void map_put(struct map *map, const char *key, void *value); // replaces both; value is not NULL
void *map_del(struct map *map, const char *key);             // what was there, or NULL
// Walks all entries: start with *at = 0; NULL at the end. Entries may be removed on the way, not
// added.
void *map_next(const struct map *map, size_t *at);
