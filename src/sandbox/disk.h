// SPDX-License-Identifier: Apache-2.0
// What can be done with the disk of a sandbox, beside giving it a box. Copies are of one instant,
// and cost the same whatever their size. All callbacks come exactly once.
//
// What others had written before (a snapshot's, a fork's source's) does not count for a disk in the
// kernel: row.shared is how much that was, and the disk's quota is row.disk less that. So a chain
// of forks cannot hold more than each one's limit.
#pragma once

#include "sandbox/sandbox.h"

// ERR_UNSUPPORTED with the reason: it is ephemeral, or this machine has no volume.
int sandbox_has_disk(const struct sandbox *s, struct err *err);

// A copy of the disk as it is now, in PLACE_MAKING under a new number, to be read from or made into
// another; whoever asked drops it. A running sandbox is frozen for the moment. ERR_CONFLICT for one
// that is archived.
struct disk_made {
    uint64_t making;
    int64_t shared; // what it counts as row.shared of a sandbox that gets it
    struct disk_version version;
};
typedef void (*disk_copy_fn)(void *data, const struct disk_made *made, const struct err *err);
void sandbox_copy_disk(struct sandbox *s, disk_copy_fn fn, void *data);
// An empty one that so many bytes may be written to.
void fleet_make_disk(struct fleet *fleet, uint64_t bytes, disk_copy_fn fn, void *data);
void fleet_drop_making(struct fleet *fleet, uint64_t making);

// Holds it: its box ends as for sleep, and nobody gets another until it is let go; whoever wants to
// use it waits. One holder at a time: others wait, too. Destroying waits. `s` of the callback is
// held; err when it was destroyed.
void sandbox_hold(struct sandbox *s, const char *why, sandbox_fn fn, void *data);
void sandbox_let_go(struct sandbox *s);

// Of one that is held: a disk in PLACE_MAKING becomes its disk, in one step; the one before goes.
// The row gets `shared`, and `archive` becomes NULL. The sandbox keeps its sessions' rows.
typedef void (*disk_fn)(void *data, const struct err *err);
void sandbox_replace_disk(struct sandbox *s, uint64_t making, int64_t shared, disk_fn fn,
                          void *data);
// Of one that is held: its disk is in that backup now, and goes. The row first.
void sandbox_archive_disk(struct sandbox *s, const char *backup, disk_fn fn, void *data);

// Whoever brings back disks that are archived: called with a sandbox that somebody wants to wake,
// which is held for it. It replaces the disk and calls `done`; an err is told to those who wait.
typedef void (*recall_fn)(void *data, struct sandbox *s,
                          void (*done)(struct sandbox *s, const struct err *err));
void fleet_on_recall(struct fleet *fleet, recall_fn fn, void *data);
// Whenever one has fallen asleep: its box is gone, its disk at rest.
void fleet_on_slept(struct fleet *fleet, void (*fn)(void *data, struct sandbox *s), void *data);

// cay-pack at work on a disk in PLACE_MAKING (wire/pack-msg.h). The descriptors are the caller's,
// and may be closed when this has returned: 0 what goes in, 1 what comes out, 2 the verdict; -1:
// nothing. fn is called when the process has ended.
struct disk_job {
    uint64_t making;
    enum disk_work work;
    const char *image;       // below the disk, where a tree is meant
    const char *const *args; // ends with NULL
    int fds[3];
};
struct disk_working; // one that is at work
// NULL: fn has been called already.
struct disk_working *fleet_disk_work(struct fleet *fleet, const struct disk_job *job, disk_fn fn,
                                     void *data);
void disk_working_stop(struct disk_working *working); // fn is still called

typedef void (*space_fn)(void *data, const struct keeper_spaced *space, const struct err *err);
void fleet_space(struct fleet *fleet, space_fn fn, void *data);
// What disks of sandboxes hold, by the numbers of their rows: at most KEEPER_USED_MAX.
typedef void (*disks_used_fn)(void *data, const struct keeper_disks_used *used,
                              const struct err *err);
void fleet_disks_used(struct fleet *fleet, const uint64_t *numbers, unsigned n, disks_used_fn fn,
                      void *data);
