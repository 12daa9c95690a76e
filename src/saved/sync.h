// SPDX-License-Identifier: Apache-2.0
// Workspaces in the store, file by file. A sync works on a copy of the disk, so it neither wakes
// nor holds the sandbox. One at a time for each; who asks meanwhile waits for the next. One that
// fails for now is tried again later, by itself; nothing is deleted before all that is new is in
// the store.
#pragma once

#include "saved/saved.h"

struct sync_options { // NULL lists: none. Remembered for those that follow by themselves
    const char *const *include, *const *exclude;
    bool gitignore;
};
struct sync_progress {
    uint64_t seen, bytes; // looked at
    uint64_t put, put_bytes, deleted;
};
typedef void (*sync_progress_fn)(void *data, const struct sync_progress *progress);
typedef void (*sync_fn)(void *data, const struct sync_row *row, const struct err *err);
// options NULL: as the last time. progress may be NULL; it comes now and then before fn.
struct syncing; // who waits for one
struct syncing *sync_start(struct saved *saved, struct sandbox *s,
                           const struct sync_options *options, sync_progress_fn progress,
                           sync_fn fn, void *data);
void sync_leave(struct syncing *syncing); // nobody waits; it goes on

// The stored files become the workspace of a sandbox, which is held meanwhile: what `restore: true`
// does with a new one. Nothing stored: nothing is done.
void sync_restore(struct saved *saved, struct sandbox *s, disk_fn fn, void *data);
// Before one that shall be restored is made: a daemon that dies between that and sync_restore
// leaves no empty sandbox. Taken back when none was made; sync_restore does so itself.
int sync_restore_mark(struct saved *saved, int64_t tenant, const char *sandbox, struct err *err);
void sync_restore_unmark(struct saved *saved, int64_t tenant, const char *sandbox);

// Single stored files, whether there is such a sandbox or not. Paths are relative, as they are
// shown; work on the store's threads through `saved_pool`: these give keys, and keep the index
// true.
int sync_key(struct saved *saved, int64_t tenant, const char *sandbox, const char *path, char *ret,
             size_t size, struct err *err); // ERR_INVALID: not a path
// Before a stored file is written or deleted past sync: the index forgets it, and no sync says what
// is in it until sync_touched, which follows in any case. So the next sync looks at it anew, a
// restore takes what is there, and so it is if the daemon dies meanwhile. `fn` comes when it may be
// written; never at once. NULL and err: it is not to be, and nothing follows. `path` as for
// sync_key.
struct sync_file {
    int64_t tenant;
    const char *sandbox, *path;
};
struct touch;
struct touch *sync_touch(struct saved *saved, const struct sync_file *file, disk_fn fn, void *data,
                         struct err *err);
void sync_touched(struct touch *touch); // may be NULL
struct store *saved_store(struct saved *saved);
struct store_pool *saved_pool(struct saved *saved);
// Threads for bytes that come from clients or go to them, which may be slow; what works there looks
// at `ending` now and then.
struct store_pool *saved_streams(struct saved *saved);
const atomic_bool *saved_ending(const struct saved *saved);
// What is sent or received through a pipe has a thread as long as its client likes: asks for one.
// ERR_UNAVAILABLE with EPIPE: too many are. Each that began is ended.
int sync_stream_begin(struct saved *saved, int64_t tenant, struct err *err);
void sync_stream_end(struct saved *saved, int64_t tenant);
