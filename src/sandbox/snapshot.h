// SPDX-License-Identifier: Apache-2.0
// Snapshots of a sandbox, going back to one, and forks. None of it depends on how much is on the
// disk. Errors beside the usual: ERR_UNSUPPORTED (sandbox_has_disk), ERR_EXHAUSTED (quotas; too
// many snapshots; a disk too full for its limit), ERR_CONFLICT (it is archived: wake it first).
#pragma once

#include "sandbox/disk.h"

enum {
    SNAPSHOTS_MAX = 100, // of one sandbox
    FORKS_MAX = 1000,    // by one request
};

typedef void (*snapshot_fn)(void *data, const struct snapshot_row *row, const struct err *err);
// `name` may be NULL. Never wakes; a running one is frozen for the moment, its shells are asked for
// directory and variables before.
void snapshot_make(struct sandbox *s, const char *name, snapshot_fn fn, void *data);
int snapshot_each(struct sandbox *s, db_snapshot_fn fn, void *data, struct err *err);
void snapshot_delete(struct sandbox *s, const char *id, disk_fn fn, void *data);
// Its box ends; files, environment and sessions are the snapshot's from the next use on.
void snapshot_roll_back(struct sandbox *s, const char *id, disk_fn fn, void *data);

struct fork_request {
    const char *id;       // of the child, where there is one; NULL: made up
    const char *snapshot; // NULL: as it is now
    unsigned count;       // 1 to FORKS_MAX
};
// All children, or none. They have its settings (not its ports, tokens, processes or memory),
// files, environment and sessions, an identity of their own, and sleep until they are used. fn is
// lent them in an array.
typedef void (*fork_fn)(void *data, struct sandbox *const *children, unsigned n,
                        const struct err *err);
void fleet_fork(struct sandbox *s, const struct fork_request *request, fork_fn fn, void *data);
