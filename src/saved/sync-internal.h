// SPDX-License-Identifier: Apache-2.0
// What the files of sync share. A place is where the workspace of one id is stored; it lives as
// long as somebody works there. On the loop, but for what says otherwise.
//
// The objects of a place and its index change together as follows. A sync that has something to
// change writes the marker, puts and deletes objects, writes the index, and removes the marker: so
// whoever finds a marker knows that the objects may be newer than the index (a sync puts all of
// them again then). Without one they must be what the index says: an object that is not is damaged.
// What comes past sync (sync_touch) takes its line from the index first, and no sync gives it one
// before it is over; what has none is whatever the store has.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "saved/freight-internal.h"
#include "saved/saved-internal.h"
#include "saved/sync-index.h"

#define SYNC_DIR "/workspace"

enum { TOUCHED_MAX = 16 * 1024 * 1024 }; // bytes of paths

struct touch;

struct place {
    struct saved *saved; // counted
    unsigned refs;
    int64_t tenant;
    char *name;    // in the map of all
    char *sandbox; // its id
    char *prefix;  // of keys: "TENANT/workspaces/ID/"
    char *index;   // keys
    char *marker;
    struct sync_job *job;             // that runs
    LIST_HEAD(, syncing) next;        // who waits for the next
    struct sandbox *next_sandbox;     // counted
    char *next_options;               // NULL: as the last time
    TAILQ_HEAD(, restoring) restores; // the first of them runs unless there is a job
    TAILQ_HEAD(, touch) touches;      // that wait for those before them (sync-touch.c)
    bool is_touching;
    // Of threads: held by whoever changes the index, or works by it.
    pthread_mutex_t lock;
    // Held for a moment only. Paths that are being written past sync, or were since the job that
    // runs has read the index.
    pthread_mutex_t touched_lock;
    struct map touched;
    size_t touched_bytes;
    bool has_job;
};

// NULL and err: there is no such tenant.
struct place *place_get(struct saved *saved, int64_t tenant, const char *sandbox, struct err *err);
struct place *place_ref(struct place *place);
void place_unref(struct place *place);
void place_go_on(struct place *place); // somebody is done there: whoever waits begins
// Appends the key of a path. -1: too long for one.
int place_key(const struct place *place, const char *path, char ret[STORE_KEY_MAX + 1],
              struct err *err);
// The index, checked. Any thread. An empty one if there is none; one that is damaged is
// `ret_damaged`, and empty. The caller frees it.
int place_read_index(struct place *place, char **ret, size_t *ret_len, bool *ret_damaged,
                     struct err *err);

// Paths that are written past sync. Any thread.
int place_touch(struct place *place, const char *path, struct err *err); // UNAVAILABLE: too many
void place_touched(struct place *place, const char *path); // the end of what place_touch began
bool place_is_touched(struct place *place, const char *path);
void place_list_touched(struct place *place, struct buf *ret); // each with its NUL
void place_set_job(struct place *place, bool has_job);         // forgets what is over

// --- one sync, between the loop and its thread (sync-run.c)

struct sync_job {
    struct place *place;
    struct sandbox *sandbox; // counted
    struct sync_row row;
    struct turn turn;
    LIST_HEAD(, syncing) waiting;
    LIST_ENTRY(sync_job) all;
    int64_t start_ns;
    uint64_t making;
    struct disk_version version; // of the disk that it is a copy of
    char *last_seen;             // row.seen of the last time; NULL: unknown
    struct disk_working *working;
    unsigned left; // parts that are not over: the process, the thread
    uv_timer_t timer;
    struct err process_err;
    // The thread's own, while it runs.
    struct store *store;
    int in, out, verdict; // what cay-pack gets, what it says
    char *old, *index;    // the indexes before and after
    size_t old_len, index_len;
    bool old_damaged;
    bool was_touched;                     // the index lacks files that are there
    bool is_same;                         // as the last time: there is nothing to do
    char seen_text[2 * STORE_SHA256 + 1]; // what row.seen becomes; "": unknown
    uint64_t bytes_max;                   // of all files
    bool may_collide;   // where a directory and a file cannot be at the same place
    bool is_marked;     // by this one, or by one that was cut off
    bool is_far;        // the store: each request takes its time
    struct crew *crew;  // that puts small files
    struct buf deletes; // paths, each with its NUL
    struct index_sums sums;
    uint64_t skipped; // files whose names are too long
    struct err err;
    atomic_bool stop;
    _Atomic uint64_t seen, bytes, put, put_bytes, deleted;
};

void sync_run_prepare(void *job); // reads the index
void sync_run_work(void *job);    // all the rest

// --- restoring (sync-restore.c)

struct restoring;
void restoring_begin(struct restoring *r);
void restoring_stop(struct restoring *r);
// One that a daemon before this had not finished: the sandbox that it was for goes, since it is not
// what was asked for, and nobody was told of it.
void restoring_forget(struct saved *saved, const struct sync_row *row);
void restorings_tick(struct saved *saved);
void restorings_close(struct saved *saved);

// So many may be held up by their clients, and so many by those of one tenant; the other threads
// are for what is quick.
enum { SYNC_STREAM_THREADS = 48, SYNC_STREAMS_MAX = 40, SYNC_STREAMS_TENANT = 12 };

struct syncs {
    struct map places; // by name
    LIST_HEAD(, sync_job) jobs;
    LIST_HEAD(, left_row) left;          // sync-restore.c
    struct store_pool *streams;          // of single files, which are as slow as their clients
    int64_t streaming[SYNC_STREAMS_MAX]; // whose are under way: tenants; 0: none
    atomic_bool ending;
};
