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
    KEEPER_DISK_DROP, // keeper_disk_drop     -> KEEPER_OK or KEEPER_ERROR, of one that is not there
                      // too: OK
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
    // disks: each done by a process of its own, several at once, so that nobody waits behind them.
    // Those that are under way when the client goes are ended, and leave nothing
    KEEPER_DISK_COPY,   // keeper_disk_copy     -> KEEPER_DISK_DONE or KEEPER_ERROR
    KEEPER_DISK_MOVE,   // keeper_disk_move     -> KEEPER_OK or KEEPER_ERROR
    KEEPER_DISK_WORK,   // keeper_disk_work, arguments + [in, out, verdict] -> KEEPER_OK or
                        // KEEPER_ERROR: cay-pack, confined, works on a disk
    KEEPER_DISK_CANCEL, // keeper_plain with the id of a KEEPER_DISK_WORK: no answer but that one's
    KEEPER_SPACE,       // keeper_plain         -> KEEPER_SPACED
    KEEPER_DISK_DONE,   // keeper_disk_done
    KEEPER_SPACED,      // keeper_spaced
    KEEPER_DISK_USED,   // keeper_disk_used     -> KEEPER_DISKS_USED
    KEEPER_DISKS_USED,  // keeper_disks_used
    KEEPER_DISK_COUNT,  // keeper_disk_count    -> KEEPER_DISK_DONE or KEEPER_ERROR
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

enum disk_place {   // where on the volume a disk with a number is
    PLACE_KEPT = 1, // those of sandboxes
    PLACE_SNAPSHOT, // never written to
    PLACE_MAKING,   // being made, or looked at for a while: gone when the client is
    PLACE_MAX,
};

struct disk_ref {
    uint32_t place; // enum disk_place
    uint32_t pad;
    uint64_t number; // above 0
};

struct keeper_plain {
    struct wire_head head;
};

struct keeper_claim {
    struct wire_head head;
    struct box_limits limits;
    uint64_t disk; // with DISK_KEPT, above 0
    uint32_t disk_kind;
    uint32_t durable; // 1: fsync in the box reaches the volume's own disk
    uint32_t pad;
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
    struct disk_ref disk;
};

// `to` becomes a copy of `from`, of the same instant throughout, whatever its size; it must not be
// there yet, nor be in PLACE_KEPT's use. Of a sandbox that has never had a box there is no disk
// yet: then `to` is an empty one. ERR_EXHAUSTED when there is no room: KEEPER_SPACE.
struct keeper_disk_copy {
    struct wire_head head;
    struct disk_ref from, to;
    uint64_t bytes; // what may be written to the copy; 0: nothing, of a snapshot
    uint64_t box;   // not 0: the live one that `from` belongs to, frozen meanwhile
};

// What a disk was when it was copied to PLACE_MAKING: of two copies with the same one the disk was
// not changed in between. Zeros: nobody knows.
struct disk_version {
    uint64_t change;  // the transaction of the volume that changed it last
    uint8_t disk[16]; // which one it was: the volume's own name for it
};

struct keeper_disk_done {
    struct wire_head head;
    uint64_t bytes; // what `from` has written by itself and not freed: what a copy shares with it
    struct disk_version version; // of `from`, copied to PLACE_MAKING
};

// How many bytes the disk holds, whoever wrote them; KEEPER_DISK_DONE has them. A copy that nobody
// has written to yet shares exactly that with others: what is to count for its limit from the
// start. Of one that was written to it is an upper bound of what it shares, as that never grows:
// the lower of this and what was counted before. So after many snapshots and ways back, when the
// sum of what was ever shared leaves too little, the caller asks this of the copy in PLACE_MAKING
// (or of a disk at rest) and goes by it; not every time, since it takes milliseconds for thousands
// of files, and seconds for millions.
struct keeper_disk_count {
    struct wire_head head;
    struct disk_ref disk;
};

// `from` takes the place of `to`, which goes, in one step. Neither is in use, nor a snapshot. What
// was written to `from` is on the machine's disk before that.
struct keeper_disk_move {
    struct wire_head head;
    struct disk_ref from, to;
};

enum disk_work { // what cay-pack does; pack-msg.h has its arguments and what goes through its pipes
    WORK_PACK_DISK = 1, // what the sandbox has written, as it is stored, as an archive
    WORK_PACK_TREE,     // a directory as a box would see it, as an archive
    WORK_UNPACK_DISK,   // the reverse; of a disk in PLACE_MAKING alone
    WORK_UNPACK_TREE,   // likewise
    WORK_SYNC,          // what of a directory has changed
    WORK_UNSYNC,        // the reverse; of a disk in PLACE_MAKING alone
    WORK_MAX,
};

enum { KEEPER_ARGS_MAX = 32 * 1024 };

struct keeper_disk_work { // followed by args_len bytes: n_args texts, each with its NUL
    struct wire_head head;
    struct disk_ref disk;
    uint32_t work; // enum disk_work
    uint32_t n_args;
    uint32_t args_len;
    uint32_t pad;
    char image[KEEPER_IMAGE_MAX]; // below the disk, where a tree is meant
};

struct keeper_spaced { // bytes
    struct wire_head head;
    uint64_t volume, used; // of the volume: its size, what disks hold
    uint64_t host_free;    // of the file system that the volume lies on
    uint64_t writable;     // what all boxes together may still write before they get EDQUOT
};

enum { KEEPER_USED_MAX = 64 }; // each takes the keeper tens of microseconds

struct keeper_disk_used { // what do these hold?
    struct wire_head head;
    uint32_t place; // enum disk_place
    uint32_t n;
    uint64_t disk[KEEPER_USED_MAX]; // their numbers; 0 behind the last
};

struct keeper_disks_used { // bytes that they have written themselves; 0 of one that is not there
    struct wire_head head;
    uint32_t n;
    uint32_t pad;
    uint64_t bytes[KEEPER_USED_MAX];
};

enum { KEEPER_DISKS_MAX = 1024 };

struct keeper_disk_list {
    struct wire_head head;
    uint32_t place; // enum disk_place
    uint32_t pad;
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
