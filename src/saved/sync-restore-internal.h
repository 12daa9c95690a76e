// SPDX-License-Identifier: Apache-2.0
// A restore of stored files, between the loop (sync-restore.c) and its thread (sync-feed.c).
#pragma once

#include "saved/sync-internal.h"

struct restoring {
    struct place *place;
    struct sandbox *sandbox; // counted
    disk_fn fn;
    void *data;
    TAILQ_ENTRY(restoring) all; // of its place
    struct turn turn;
    bool has_begun, is_held, had_row;
    struct sync_row row; // as it was before
    uint64_t making;
    int64_t shared;
    struct disk_working *working;
    unsigned left; // parts that are not over: the process, the thread
    struct err process_err;
    // The thread's own, while it runs.
    struct store *store;
    int to, verdict;
    char *index; // of what is restored by it; of all others the store alone knows
    size_t index_len;
    bool is_marked;  // the objects may be newer than the index
    struct buf keys; // of all objects: size (8 bytes), path, NUL
    size_t n_objects;
    struct map objects; // by path: where in `keys`
    struct crew *crew;  // that fetches small files
    struct err err;
    atomic_bool stop;
};

void restoring_look(void *restoring); // what there is
void restoring_feed(void *restoring); // to cay-pack
