// SPDX-License-Identifier: Apache-2.0
// Files that have more than one name: the first name under which each was seen.
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct link_entry;

struct links { // of zeros: empty
    struct link_entry *entries;
    size_t cap, n; // cap is a power of two, or 0
    char *names;
    size_t len, room;
};

void links_done(struct links *links);
// The name it was seen under before, or NULL and from now on that is `path`; -ENOMEM in *ret_errno.
const char *links_find(struct links *links, dev_t dev, ino_t ino, const char *path, int *ret_errno);
