// SPDX-License-Identifier: Apache-2.0
// The directories that are watched. Each knows its name and the one that it is in, so that a rename
// is one change however much lies below. Bounded; begins as zeros, with watch_table_init.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WATCH_MAX = 65536, // directories: as many watches as a box may have
    WATCH_SLOTS = 65536,
};

enum watch_scan { // what is to be done about what is in it, from less to more
    WATCH_SCAN_NONE,
    WATCH_SCAN_QUIET, // before it begins: directories are watched
    WATCH_SCAN_DIRS,  // directories that are new are watched, and all in them is told
    WATCH_SCAN_ALL,   // all is told
};

struct watch_node {
    int wd; // 0: free; -1: there is no such watch any more, but some may be known to be below it
    uint32_t parent;
    uint32_t cookie;         // of the move that took it away
    bool detached;           // it is not where it was; if it does not turn up elsewhere it goes
    bool seen;               // by the scan of everything that is going on
    bool doomed;             // used while they are removed
    uint8_t scan;            // enum watch_scan
    uint32_t by_wd, by_name; // the next in the slot, plus 1
    char name[NAME_MAX + 1];
};

struct watch_table {
    uint32_t n;    // in use
    uint32_t used; // all at this or above have never been
    uint32_t free; // of those that have been: chained by by_wd, plus 1
    uint32_t wd_slot[WATCH_SLOTS], name_slot[WATCH_SLOTS]; // plus 1
    struct watch_node node[WATCH_MAX];                     // the first is what is watched itself
};

void watch_table_init(struct watch_table *t, int wd);
struct watch_node *watch_by_wd(struct watch_table *t, int wd); // or NULL
// The one that is attached there, or NULL.
struct watch_node *watch_child(struct watch_table *t, const struct watch_node *dir,
                               const char *name);
struct watch_node *watch_add(struct watch_table *t, int wd, const struct watch_node *dir,
                             const char *name); // NULL: it is full
// Whether `node` is `dir` or above it.
bool watch_is_above(const struct watch_table *t, const struct watch_node *node,
                    const struct watch_node *dir);
void watch_detach(struct watch_table *t, struct watch_node *node, uint32_t cookie);
// It is there now. Whatever else has the name there must have been detached, and it must not be
// above.
void watch_attach(struct watch_table *t, struct watch_node *node, const struct watch_node *dir,
                  const char *name);
// The watch has gone. Its place here is kept until watch_remove.
void watch_bury(struct watch_table *t, struct watch_node *node);
// Another watch in the place of the one that it has, or had.
void watch_rebind(struct watch_table *t, struct watch_node *node, int wd);
void watch_remove(struct watch_table *t, struct watch_node *node);
// Relative to the first: "" for itself. Its length, or -ENAMETOOLONG.
int watch_path(const struct watch_table *t, const struct watch_node *node, char *ret, size_t size);
