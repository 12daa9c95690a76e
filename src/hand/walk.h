// SPDX-License-Identifier: Apache-2.0
// Through a tree in the order of its names (as bytes), each directory before what is in it. Through
// no link, and not into what the kernel makes up (/proc, /sys). What is renamed, removed or swapped
// meanwhile is passed over; what cannot be entered is remembered, and the rest is walked. One walk
// per process: its memory, at most WALK_MEMORY, is this file's.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum { WALK_MEMORY = 64 * 1024 * 1024 }; // for the names of the directories that are open

struct walk_how {
    bool recursive, hidden;
    const char *after; // a relative path: only what comes behind it. "": all
};

struct walk_entry {   // until the next call
    int dir;          // that has it
    const char *name; // in dir
    const char *path; // relative to where the walk began
    size_t path_len;
    struct stat st; // of itself, if it is a link
};

// Takes a directory that is open for reading. 0 or -errno.
int walk_begin(int take_dir, const struct walk_how *how);
// Only `n` more are needed, or hardly more: large directories then cost no more memory than that.
void walk_need(uint64_t n);
// 1, 0 at the end, or -errno: -ENOMEM for a directory with too many names.
int walk_next(struct walk_entry *ret);
void walk_pass(void); // the entry that was told last is not gone into
// What could not be walked: 0 or an errno, and where.
int walk_missed(const char **ret_path);
