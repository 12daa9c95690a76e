// SPDX-License-Identifier: Apache-2.0
// The names in a directory, in order, in memory that is given: those after a certain one, and as
// many of them as fit. A directory with more is read again, from where it stopped.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct tar_names {
    char **name; // n of them; they and their texts are in the memory that was given
    size_t n;
    size_t used; // of that memory, a multiple of a pointer's size
    bool more;
};

// `after`: "" for all. -ENOMEM when not even a few fit.
int tar_names_read(int dirfd, const char *after, char *memory, size_t size, struct tar_names *ret);
