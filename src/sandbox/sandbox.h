// SPDX-License-Identifier: Apache-2.0
// A sandbox: a durable identity with settings, a disk, and, while it runs, a box. The fleet is all
// of them. Everything here runs on the loop's thread. What has to wait takes a callback, which is
// called exactly once, perhaps before the call returns.
//
// A sandbox in memory is counted: fleet_find and the callbacks of those that make one lend it for
// the call only; whoever keeps it takes a reference. One without references and without a box is
// forgotten; its row is what lasts.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "db/db.h"
#include "wire/keeper-msg.h"

struct fleet;
struct sandbox;

struct fleet_config {
    uv_loop_t *loop;
    struct db *db;
    int keeper;           // socket
    int logs_fd;          // directory for the logs of processes
    uint64_t process_log; // bytes kept of each stream
    const char *image;    // of sandboxes that name none, and of boxes made ahead; NULL: "host"
    uint64_t memory_spare;
    int64_t sleep_after_ms;
    int64_t tenant_sandboxes, tenant_running, tenant_memory, tenant_disk; // default quotas
};

// `ready` is called when the keeper has told all it has and rows, boxes and disks agree again.
// `lost` when the keeper is gone: the daemon can only end.
int fleet_open(const struct fleet_config *config, void (*ready)(void *data),
               void (*lost)(void *data), void *data, struct fleet **ret, struct err *err);
void fleet_serving(struct fleet *fleet); // tells the keeper
// Puts every running sandbox to sleep, then calls `done`.
void fleet_stop(struct fleet *fleet, void (*done)(void *data), void *data);
void fleet_free(struct fleet *fleet);
struct db *fleet_db(struct fleet *fleet);
uv_loop_t *fleet_loop(struct fleet *fleet);
void fleet_tenant_changed(struct fleet *fleet, const struct tenant_row *row); // its quotas

struct fleet_stats {
    uint32_t boxes_max, ready, running, waiting; // boxes at most, in the pool, in use, asked for
    uint32_t pool;                               // boxes that are kept ready, as configured
    uint32_t parked_python, parked_node;         // interpreters in those of the pool
    uint64_t kernels_parked, kernels_forked, kernels_started; // how contexts got theirs
    uint64_t created, woken, slept, destroyed;                // since the daemon started
    uint64_t execs;
    uint64_t ends[END_REASON_MAX]; // execs, processes and session commands by reason
    uint64_t lost;                 // boxes that died by themselves
    uint64_t refused;              // by admission
    bool has_volume;
    uint32_t restarts; // of the daemon
};
void fleet_stats(const struct fleet *fleet, struct fleet_stats *ret);
// Ends the boxes of the pool that nobody has taken; others are made in their place. How many.
unsigned fleet_renew_pool(struct fleet *fleet);
int64_t fleet_running_of(const struct fleet *fleet, int64_t tenant); // boxes of one tenant

// Histograms of seconds, for /metrics.
enum fleet_timing { TIMING_CREATE, TIMING_WAKE, TIMING_EXEC, TIMING_CELL, TIMING_MAX };
enum { TIMING_BUCKETS = 14 };
extern const double timing_bounds[TIMING_BUCKETS]; // upper bounds, seconds
struct timing {
    uint64_t bucket[TIMING_BUCKETS]; // not cumulative
    uint64_t count;
    double sum;
};
void timing_add(struct timing *timing, int64_t ns);
const struct timing *fleet_timing(const struct fleet *fleet, enum fleet_timing which);
struct recent; // the same of the last minutes (base/recent.h)
const struct recent *fleet_recent(const struct fleet *fleet, enum fleet_timing which);
void fleet_time(struct fleet *fleet, enum fleet_timing which, int64_t ns);
void fleet_count_end(struct fleet *fleet, enum end_reason reason);

// --- settings

struct sandbox_settings {
    const char *id;           // NULL: one is made up
    const char *image;        // NULL: the default
    struct box_limits limits; // 0 in a field: the default
    int64_t sleep_after_ms;   // -1: the default
    bool keep_alive, ephemeral;
    const char *env, *labels; // JSON objects of strings; NULL: {}
    const char *user_id;      // NULL: none
    const char *network;      // as in struct sandbox_row: canonical; NULL: "none"
    const char *secrets;
    const char *languages;              // as in struct sandbox_row; NULL: none
    bool own_zygote;                    // not the shared one
    int64_t destroy_after_ms;           // 0: never
    int64_t budget_cost, budget_tokens; // as in struct sandbox_row, but 0: no limit, and
                                        // BUDGET_NOTHING
    bool sync, durable;
    int64_t archive_after_ms; // 0: never
    const char *snapshot;     // of the tenant's: a new one begins with it; NULL: with nothing
};

enum { BUDGET_NOTHING = -1 }; // none of it is left

enum {                      // which of them a PATCH changes
    PATCH_LIMITS = 1u << 0, // those not 0
    PATCH_SLEEP_AFTER = 1u << 1,
    PATCH_KEEP_ALIVE = 1u << 2,
    PATCH_ENV = 1u << 3,
    PATCH_LABELS = 1u << 4,
    PATCH_NETWORK = 1u << 5,
    PATCH_SECRETS = 1u << 6,
    PATCH_LANGUAGES = 1u << 7,
    PATCH_ZYGOTE = 1u << 8,
    PATCH_DESTROY_AFTER = 1u << 9,
    PATCH_BUDGET = 1u << 10,
    PATCH_SYNC = 1u << 11,
    PATCH_DURABLE = 1u << 12, // from its next box on
    PATCH_ARCHIVE_AFTER = 1u << 13,
};

bool sandbox_id_valid(const char *id);

// --- finding and making

// `created`: a new one, else one that was there with the same settings. Errors: ERR_CONFLICT (other
// settings, or being destroyed), ERR_EXHAUSTED (a quota; err->msg says which), ERR_UNAVAILABLE (the
// machine is full: try again later), ERR_NOT_FOUND (image), ERR_INVALID.
typedef void (*sandbox_fn)(void *data, struct sandbox *s, bool created, const struct err *err);
void fleet_create(struct fleet *fleet, int64_t tenant, const struct sandbox_settings *settings,
                  sandbox_fn fn, void *data);

// NULL with ERR_NOT_FOUND. Never wakes.
struct sandbox *fleet_find(struct fleet *fleet, int64_t tenant, const char *id, struct err *err);
struct sandbox *sandbox_ref(struct sandbox *s);
void sandbox_unref(struct sandbox *s);

// --- one sandbox

const struct sandbox_row *sandbox_row(const struct sandbox *s); // as it is now
uint64_t sandbox_box(const struct sandbox *s);                  // the box's number, 0 when none
bool sandbox_is_up(const struct sandbox *s);                    // it has one, which is not ending

// Makes sure that it runs, waking it if it sleeps; every use of a sandbox begins with this. Counts
// as activity.
void sandbox_wake(struct sandbox *s, sandbox_fn fn, void *data);
void sandbox_sleep(struct sandbox *s, const char *why, sandbox_fn fn, void *data); // fn may be NULL
void sandbox_destroy(struct sandbox *s, sandbox_fn fn, void *data);                // fn may be NULL
void sandbox_patch(struct sandbox *s, const struct sandbox_settings *settings, unsigned which,
                   sandbox_fn fn, void *data);

typedef void (*sandbox_usage_fn)(void *data, const struct keeper_used *used, const struct err *err);
// ERR_UNAVAILABLE when it does not run.
void sandbox_usage(struct sandbox *s, sandbox_usage_fn fn, void *data);

// What was spent on models, as db_spend_add, known at once to whoever has the sandbox in memory,
// too.
int fleet_spend(struct fleet *fleet, const struct spend_row *row, struct err *err);

// Whose work is done in it now: the id of a request, by which what its programs spend is written
// down. "" or NULL: nobody's. In memory alone.
void sandbox_set_request(struct sandbox *s, const char *id);
const char *sandbox_request(const struct sandbox *s); // never NULL

// Activity: something is at work for it until sandbox_idle. It does not fall asleep meanwhile.
void sandbox_busy(struct sandbox *s);
void sandbox_idle(struct sandbox *s);
void sandbox_touch(struct sandbox *s); // a moment of activity

// --- events

// Writes the row, then tells those who follow. `data` is a JSON object, NULL for {}.
void sandbox_event(struct sandbox *s, const char *type, const char *data);
struct follower;                                                    // of one sandbox's events
typedef void (*follow_fn)(void *data, const struct event_row *row); // row NULL: it was destroyed
struct follower *sandbox_follow(struct sandbox *s, follow_fn fn, void *data);
void follower_free(struct follower *follower); // also after the NULL
