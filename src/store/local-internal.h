// SPDX-License-Identifier: Apache-2.0
// Objects as files: the key is the path. Content is written to a file in `.tmp`, then renamed. Its
// length and SHA-256 are an extended attribute of it. Directories are made when they are needed and
// go with their last object; whoever finds that one has gone meanwhile makes it again.
#pragma once

#include "store/store-internal.h"

#define LOCAL_TMP ".tmp"

enum { LOCAL_TRIES = 1000 }; // of what only loses races with others

struct local {
    int dir; // own descriptor
    int tmp; // with a shared lock: nobody else tidies it up
    uint64_t spare;
    struct store_tally *tally;
};

// The directory that a key's last part is in, or -errno; `ret_name` is that part. With `make` it is
// made if need be.
int local_open_parent(const struct local *local, const char *key, bool make, const char **ret_name);
int local_open_key(const struct local *local, const char *key, int flags); // fd or -errno
// Removes the directories that this key was in, from below, as far as they are empty.
void local_prune(const struct local *local, const char *key);
// What is an object's place may hold directories without any object in them, of which somebody
// died before they were removed. 0: gone, or -errno.
int local_remove_hollow(const struct local *local, const char *key);
// A file or directory of `.tmp`, with all that is in it. 0 or -errno.
int local_remove_tmp(const struct local *local, const char *name);
void local_tidy(const struct local *local); // all of `.tmp`

int local_list(void *driver, const char *prefix, const char *after, unsigned max, store_list_fn fn,
               void *data, struct err *err);
