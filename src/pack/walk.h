// SPDX-License-Identifier: Apache-2.0
// Through a tree, each directory before what is in it; through no link. One descriptor for each
// level is open, and the names of these directories are in memory. What cannot be read is an error:
// nobody else is at work in the tree.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/err.h"

struct walk;

struct walk_entry { // until the next call
    int dir;        // that has it
    const char *name;
    const char *path; // relative to where the walk began
    size_t path_len;
    unsigned depth; // 1 for what is in the top
    int fd;         // of a directory, open for reading; else -1
    struct stat st; // of itself, if it is a link
};

// `dir` is open for reading, and stays the caller's.
struct walk *walk_new(int dir, struct err *err);
void walk_free(struct walk *walk);
// 1, 0 at the end, or -1.
int walk_next(struct walk *walk, struct walk_entry *ret, struct err *err);
void walk_skip(struct walk *walk); // does not go into the directory that came last
