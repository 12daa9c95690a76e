// SPDX-License-Identifier: Apache-2.0
// What a client (the daemon, `cay run`) asks of the keeper, and what it hears. The list is closed:
// a message that is not here, or not exactly as long as its struct, ends the connection.
#pragma once

#include <stdint.h>

#include "wire/wire.h"

enum keeper_type {
    KEEPER_CLAIM = 1, // keeper_claim         -> KEEPER_CLAIMED or KEEPER_ERROR
    KEEPER_TAKE,      // keeper_take, a box of KEEPER_READY -> KEEPER_OK or KEEPER_ERROR
    KEEPER_DESTROY,   // keeper_box           -> KEEPER_ENDED, later KEEPER_GONE
    KEEPER_LIMIT,     // keeper_limit         -> KEEPER_OK or KEEPER_ERROR
    KEEPER_STATUS,    // keeper_plain         -> KEEPER_STATE
    KEEPER_DISK_DROP, // keeper_disk_drop     -> KEEPER_OK or KEEPER_ERROR
    KEEPER_DISK_LIST, // keeper_disk_list     -> KEEPER_DISKS
    KEEPER_USAGE,     // keeper_box           -> KEEPER_USED or KEEPER_ERROR
    KEEPER_SERVING,   // keeper_plain, no answer: the daemon takes requests from now on
    // answers and events; events have head.id 0
    KEEPER_CLAIMED, // keeper_box + [guest socket]
    KEEPER_READY,   // keeper_box + [guest socket]: an event. Image `host`, blank disk, default
                    // limits; the client's to take at any time, and to use without waiting if the
                    // limits suit it
    KEEPER_ENDED, // keeper_ended: every process of the box is reaped (an event when it died alone)
    KEEPER_GONE,  // keeper_box: its cgroups and its unkept disk are gone too
    KEEPER_STATE, // keeper_state
    KEEPER_LIVE,  // keeper_live + [guest socket]: a box that the last daemon had
    KEEPER_WELCOME, // keeper_welcome: the first event but for KEEPER_LIVE; all of these have come
    KEEPER_DISKS,   // keeper_disks
    KEEPER_USED,    // keeper_used
    KEEPER_OK,      // keeper_plain
    KEEPER_ERROR,   // keeper_error
    // since version 2
    KEEPER_NETWORK, // keeper_box + [listener] -> KEEPER_OK or KEEPER_ERROR: every TCP connection of
                    // the box that does not go to its loopback comes to this listener of its own
    KEEPER_PLANT,   // keeper_plant -> KEEPER_OK or KEEPER_ERROR: a fork of the zygote of the box's
                    // image becomes an exec in it; its guest says GUEST_STARTED. ERR_UNAVAILABLE:
                    // there is no zygote, or not yet
    KEEPER_TYPE_MAX,
};

// Every field must be set; box/limits.h has what is possible and the defaults.
struct box_limits {
    uint64_t memory;    // bytes
    uint64_t disk;      // bytes
    uint32_t pids;      // processes and threads
    uint32_t cpu_milli; // thousandths of a core
};

enum disk_kind {
    DISK_TMPFS = 1, // in memory, gone with the box
    DISK_BLANK,     // a new subvolume, gone with the box
    DISK_KEPT,      // subvolume number keeper_claim.disk, made on first use, stays
    DISK_KIND_MAX,
};

enum { KEEPER_IMAGE_MAX = 64 };

struct keeper_plain {
    struct wire_head head;
};

struct keeper_claim {
    struct wire_head head;
    struct box_limits limits;
    uint64_t disk; // with DISK_KEPT, above 0
    uint32_t disk_kind;
    char image[KEEPER_IMAGE_MAX]; // ends with a NUL
};

struct keeper_box {
    struct wire_head head;
    uint64_t box; // never used twice by one keeper
};

struct keeper_limit {
    struct wire_head head;
    uint64_t box;
    struct box_limits limits;
};

struct keeper_take {
    struct wire_head head;
    uint64_t box;
    struct box_limits limits;
    uint64_t disk; // above 0: its blank disk becomes the kept one of this number
};

struct keeper_plant { // into a box of KEEPER_READY or a claimed one
    struct wire_head head;
    uint64_t box;
    uint32_t exec; // its id in the guest
    uint32_t uid, gid;
    uint32_t files;
};

struct keeper_live {
    struct wire_head head;
    uint64_t box;
    uint64_t disk; // with DISK_KEPT
    struct box_limits limits;
    uint32_t disk_kind;
    uint32_t guest_version; // what its guest speaks
};

struct keeper_welcome {
    struct wire_head head;
    uint64_t run;   // a random number: boxes of another run are gone
    uint32_t boxes; // at most, at once
    uint32_t has_volume;
    uint32_t pool_ready, pool_blank; // as configured
    uint32_t restarts;               // how often a daemon was started before this one
    uint32_t pad;
};

struct keeper_disk_drop {
    struct wire_head head;
    uint64_t disk;
};

enum { KEEPER_DISKS_MAX = 1024 };

struct keeper_disk_list {
    struct wire_head head;
    uint64_t above; // only numbers above this
};

struct keeper_disks { // the lowest, in order; more may follow when n is KEEPER_DISKS_MAX
    struct wire_head head;
    uint32_t n;
    uint32_t pad;
    uint64_t disk[KEEPER_DISKS_MAX];
};

struct keeper_used { // of a live box; 0 where the kernel does not tell
    struct wire_head head;
    uint64_t box;
    uint64_t cpu_usec;
    uint64_t memory, memory_peak; // bytes
    uint64_t disk;                // bytes
    uint32_t pids;
    uint32_t oom_kills;
};

struct keeper_ended {
    struct wire_head head;
    uint64_t box;
    uint64_t cpu_usec;    // of everything that ever ran in it
    uint64_t memory_peak; // bytes, 0 when the kernel does not tell
    uint32_t oom_kills;
    uint32_t asked; // 1 after KEEPER_DESTROY, 0 when it died by itself
};

struct keeper_state {
    struct wire_head head;
    uint32_t live;  // claimed
    uint32_t ready; // handed out with KEEPER_READY, not taken
    uint32_t blank; // pooled, root not yet attached
    uint32_t busy;  // being made or taken apart
};

struct keeper_error {
    struct wire_head head;
    uint32_t code; // enum err_code
    uint32_t pad;
    char msg[240];
};
