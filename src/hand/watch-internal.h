// SPDX-License-Identifier: Apache-2.0
// What the files of a watch share. Functions answer 0 or -errno unless they say otherwise.
#pragma once

#include <sys/inotify.h>

#include "hand/hand-internal.h"
#include "hand/watch-table.h"

enum {
    WATCH_EVENTS = IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |
                   IN_DELETE_SELF | IN_MOVE_SELF | IN_EXCL_UNLINK,
    WATCH_PASSED = 16, // moves that are known by their beginning only; the other half is next
    WATCH_PATH_SIZE = HAND_PATH_MAX + NAME_MAX + 1,
};

struct watch {
    struct work *work;
    int fd;
    bool recursive, root_is_dir;
    char *include, *exclude; // globs, each ended by a NUL; the list by an empty one. Or NULL
    bool starting;
    bool gone;                     // what was watched
    bool lost;                     // an overflow is to be told
    bool limited;                  // some directory could not be watched
    bool freed;                    // some watch has gone since
    bool all;                      // everything is to be looked through
    bool later;                    // some are to be looked through when all events have been read
    bool loose;                    // some are detached
    bool marking;                  // everything is being looked through
    uint32_t displaced;            // the last one whose name another one got, plus 1
    uint32_t moved;                // the last one that went with a cookie
    uint32_t passed[WATCH_PASSED]; // cookies of moves away from passing names, or 0
    unsigned n_passed;
    uint32_t n_todo;
    uint32_t todo[WATCH_MAX];
    struct watch_table table;
};

bool watch_is_excluded(const struct watch *w, const char *name);
int watch_tell(struct watch *w, enum hand_change_kind kind, const struct watch_node *dir,
               const char *name, bool is_dir, uint32_t cookie);

// --- watch-own.c

// Whether an event in `dir` is only of how a file is put there, and told to nobody.
bool watch_hides(struct watch *w, const struct watch_node *dir, const struct inotify_event *ev);
// Whether it is the one that replaces a file by another one that was put.
bool watch_is_put(struct watch *w, const struct inotify_event *ev);
// A file is watched itself: whether there is another one at its path, which then is from now on.
bool watch_takes_new_file(struct watch *w);

// --- watch-scan.c

// A directory appeared in `dir`: it is watched, and what is in it is told, and so on below.
int watch_appeared(struct watch *w, struct watch_node *dir, const char *name);
// Directories in `dir` are looked for when there is nothing more to read.
void watch_look_later(struct watch *w, struct watch_node *dir);
// The first one: sets the watches below it.
int watch_first(struct watch *w);
// There is nothing more to read: makes good what could not be done while things moved.
int watch_settle(struct watch *w);
// Whether it is still what is at the path: sets w->gone.
void watch_look_at_root(struct watch *w);
// Whether there is nothing of that name in `dir`. If that cannot be said: false.
bool watch_is_missing(struct watch *w, const struct watch_node *dir, const char *name);
void watch_displace(struct watch *w, struct watch_node *dir, const char *name);
