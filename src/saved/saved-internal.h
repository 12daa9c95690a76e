// SPDX-License-Identifier: Apache-2.0
// The room's own state, and what its files do for each other. All on the loop, but what says
// otherwise.
#pragma once

#include <sys/queue.h>

#include "base/map.h"
#include "saved/backup.h"
#include "saved/saved.h"
#include "saved/sync.h"

enum {
    SAVED_TICK_MS = 2000,
    SAVED_ID_MAX = 40, // of a backup, with its NUL
};

// What takes long waits for its turn, in one of two lines: nobody who wants to use a sandbox waits
// behind somebody's backups.
enum saved_lane {
    LANE_OUT, // backups, archives
    LANE_IN,  // restores, archived disks coming back
    LANE_MAX,
};
struct turn {
    void (*run)(void *data);
    void *data;
    int64_t tenant;
    enum saved_lane lane;
    bool has_it;
    TAILQ_ENTRY(turn) next;
};
TAILQ_HEAD(turn_list, turn);
struct turn_lane {
    struct turn_list waiting, running;
    unsigned waits, n_running;
    int64_t last;   // tenant who had a turn
    bool is_moving; // saved.c
};

struct saved {
    struct saved_config config;
    struct store_pool *pool;
    struct store_pool *hashing; // of imports, which are as slow as their clients
    uv_timer_t tick;
    bool started, closing;
    unsigned refs; // of those at work: it is freed with the last
    unsigned n_cores;
    struct {
        bool looking, known, ok;
        struct err err;
        int64_t next_ns;
    } health;
    struct {
        bool busy;
        int64_t after;   // seq of the last that could not be deleted in this round
        int64_t next_ns; // nothing before this
        bool failed;     // some of this round
    } doom;
    struct turn_lane lane[LANE_MAX];
    LIST_HEAD(, freight) freights; // freight.c
    LIST_HEAD(, errand) errands;   // errand.c
    unsigned n_streams;            // exports and imports
    unsigned n_archiving;          // by the timer
    struct map put_off;            // sandboxes that could not be archived (archive.c)
    struct saved_stats stats;
    struct syncs *syncs;           // sync.c
    struct result_keeper *results; // results.c
};

void saved_ref(struct saved *saved);
void saved_unref(struct saved *saved);

// Waits in line; `run` is called when it is its turn, perhaps at once, never after saved_close
// (then `run` is called all the same, with saved->closing). -1: the line is too long, or as long
// as one tenant's part of it may be.
struct turn_config {
    enum saved_lane lane;
    int64_t tenant;
    void (*run)(void *data);
    void *data;
};
int turn_take(struct saved *saved, struct turn *turn, const struct turn_config *config,
              struct err *err);
void turn_over(struct saved *saved, struct turn *turn);

// What a store's error means to whoever asked for something that must be in it: UNAVAILABLE with
// EREMOTEIO (down, full, wrong credentials), or INTERNAL with EBADMSG (it is not there, or not what
// it was). Any thread.
void saved_blame_store(struct err *err);

void saved_backup_id(char ret[SAVED_ID_MAX]);
void saved_doom_soon(struct saved *saved); // something is to go from the store

void archive_tick(struct saved *saved);
void archive_close(struct saved *saved);
void archive_recall(void *data, struct sandbox *s,
                    void (*done)(struct sandbox *s, const struct err *err));

// Of sync.c and results.c: they keep their state in saved->syncs and saved->results. *_start when
// the fleet is ready; *_tick every SAVED_TICK_MS from then on; *_stop tells what runs on threads to
// stop, which is waited for between it and *_close. Callbacks of the fleet may still come after
// that, with saved->closing: whoever waits for one holds a reference (saved_ref).
int syncs_open(struct saved *saved, struct err *err);
void syncs_start(struct saved *saved);
void syncs_tick(struct saved *saved);
void syncs_slept(void *data, struct sandbox *s); // data: the saved
void syncs_stop(struct saved *saved);
void syncs_close(struct saved *saved);
int results_open(struct saved *saved, struct err *err);
void results_start(struct saved *saved);
void results_tick(struct saved *saved);
void results_close(struct saved *saved);
