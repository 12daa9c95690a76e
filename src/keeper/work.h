// SPDX-License-Identifier: Apache-2.0
// What is done with disks and may take longer than the keeper can wait: each work is a process of
// its own, several at once. Works wait for those before them that use the same disk, and for a free
// place in their lane. When the client goes they are killed, and what they have left half done is
// removed before the next client hears anything.
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "box/disk.h"
#include "wire/keeper-msg.h"

struct keeper;
struct work;

enum work_lane {
    LANE_DISK, // moments
    LANE_PACK, // as long as it takes
    LANE_MAX,
};

enum {
    LANE_DISK_MAX = 16, // at once
    LANE_PACK_MAX = 36, // two dozen clients with a slow line each, and a dozen that wait for none
    WORK_PLACES = LANE_DISK_MAX + LANE_PACK_MAX,
    WORK_FDS_MAX = 3,
    WORKS_MAX = 4096, // those that wait, too
};

struct work_kind {
    enum work_lane lane;
    int finishes; // goes on when the client is gone
    // One of the two. `run` does it, in a fork of the keeper: what it changes there is lost, but
    // for w->result. 0, or -1 and err.
    int (*run)(struct keeper *k, struct work *w, struct err *err);
    // Or `start`, in the keeper, starts a process (box/tool.h): its pidfd, or -1 and err.
    int (*start)(struct keeper *k, struct work *w, struct err *err);
    // Tells the client; err->code is 0 when it went well. NULL: KEEPER_OK or KEEPER_ERROR. Not
    // called when nobody asks any more.
    void (*answer)(struct keeper *k, struct work *w, const struct err *err);
    // The process is reaped and the client told: lets go of what `data` and `fds` hold, both of
    // which work.c frees and closes itself. May be NULL.
    void (*over)(struct keeper *k, struct work *w);
};

struct work_result { // in memory shared with the process
    int is_done;     // it has come to an end, as said in the rest
    struct err err;
    struct volume_copied copied; // also where bytes alone were asked for
};

struct work {
    const struct work_kind *kind;
    uint32_t request;          // of the client; 0: nobody is told
    struct disk_ref reads;     // place 0: none. Nobody changes it meanwhile, but others may read
    struct disk_ref writes[2]; // nobody else has them meanwhile
    uint64_t box;              // 0, or the one that stands still until the copy is made
    int fds[WORK_FDS_MAX];     // closed at the end; -1
    void *data;                // freed at the end
    union {
        struct keeper_disk_copy copy;
        struct keeper_disk_move move;
        uint64_t blank;
        uint64_t gone; // box
    } ask;             // of those in work-disk.c
    int waits_for_all; // that came before, and all others for it
    // Once it runs:
    unsigned place; // its number among those that run
    int pidfd;      // -1: it waits
    int copied;     // an eventfd by which the process tells that `box` may go on; -1
    int cancelled;
    int exit_code;              // of a process that was started, as tool_wait's
    struct work_result *result; // of one that runs
    struct work *next;
};

struct works {                 // part of the keeper
    struct work *first, *last; // in the order in which they came
    unsigned n;
    struct work *at[WORK_PLACES]; // that run
    int has_copied;               // something may be in the making
    struct work_result *results;  // one for each place, shared
};

// NULL when memory is short.
struct work *work_new(const struct work_kind *kind, uint32_t request);
void work_free(struct work *w); // one that was not submitted
// Takes it; the answer comes by and by, or at once when there are too many.
void work_submit(struct keeper *k, struct work *w);
struct work *work_find(const struct keeper *k, const struct work_kind *kind, uint32_t request);
void work_go(struct keeper *k); // starts those that can be
// It comes to an end soon, if not well: answered as any other, with ERR_UNAVAILABLE.
void work_cancel(struct keeper *k, struct work *w);
// Whether a work has that disk, or will have it: nobody else may.
int work_writes(const struct keeper *k, struct disk_ref disk);
int work_is_busy(const struct keeper *k); // there are any
void work_event(struct keeper *k, uint32_t place);
void work_copied(struct keeper *k, uint32_t place);
// Nobody wants them any more.
void work_client_lost(struct keeper *k);

// work-disk.c: every field of these is looked at.
void work_ask_copy(struct keeper *k, const struct keeper_disk_copy *msg);
void work_ask_move(struct keeper *k, const struct keeper_disk_move *msg);
void work_ask_count(struct keeper *k, const struct keeper_disk_count *msg);
void work_ask_drop(struct keeper *k, const struct keeper_disk_drop *msg);
void work_drop_blank(struct keeper *k, uint64_t number);
// The last of a box whose mounts mean what fsync says: letting go of them writes down the whole
// volume. `number`: whose end is told then; 0: nobody's. Takes the descriptor.
void work_let_go(struct keeper *k, int mntns, uint64_t number);
void work_sweep(struct keeper *k);  // what is in PLACE_MAKING
void work_trim(struct keeper *k);   // gives room back to the host
void work_forget(struct keeper *k); // what the kernel counts for disks that are gone
// Whether it is one that can be: place and number.
int work_is_disk(struct disk_ref disk);

// pack.c. `args` are msg->args_len bytes; takes the descriptors it wants out of the set.
struct wire_fds;
void pack_ask(struct keeper *k, const struct keeper_disk_work *msg, const char *args,
              struct wire_fds *fds);
void pack_cancel(struct keeper *k, uint32_t request);
