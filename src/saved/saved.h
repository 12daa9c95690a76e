// SPDX-License-Identifier: Apache-2.0
// What is kept in the store: workspaces (sync.h), backups and archives (backup.h), results
// (results.c). Everything here runs on the loop; what waits for the store or for pipes is done on
// the threads of a store_pool.
//
// Keys: TENANT/workspaces/SANDBOX/PATH, TENANT/indexes/SANDBOX (what sync needs to know of them),
// TENANT/backups/ID/data.tar.zst and TENANT/backups/ID/manifest.json (written last),
// TENANT/results/REQUEST/answer.json.
#pragma once

#include <uv.h>

#include "db/db.h"
#include "sandbox/disk.h"
#include "store/pool.h"
#include "store/store.h"

struct saved;

struct saved_config {
    uv_loop_t *loop;
    struct db *db;
    struct fleet *fleet;
    struct store *store;
    int64_t run; // of this daemon
};

// The hooks of the fleet (fleet_on_recall, fleet_on_slept) are its from here on.
int saved_open(const struct saved_config *config, struct saved **ret, struct err *err);
// The fleet is ready: what daemons before this one left is taken up or removed; timers run.
void saved_start(struct saved *saved);
void saved_close(struct saved *saved);

// How the store does, for /health: looked at at the start and now and then. True: it works.
// Otherwise `ret` says what is wrong.
bool saved_store_ok(const struct saved *saved, struct err *ret);
const char *saved_store_kind(const struct saved *saved);

struct saved_stats {
    struct store_counts store;
    struct timing sync; // seconds
    uint64_t syncs, syncs_failed, backups, restores, archived, recalled, expired;
    unsigned waiting; // work for threads, not begun
};
void saved_stats(const struct saved *saved, struct saved_stats *ret);
