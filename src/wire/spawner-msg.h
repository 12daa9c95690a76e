// SPDX-License-Identifier: Apache-2.0
// What the keeper asks of a spawner. Ids are those inside the spawner's user namespace Z: slot k
// owns [k * 65536, k * 65536 + 65535); its last id belongs to the guest and is not mapped in B.
#pragma once

#include <stdint.h>

#include "wire/guest-msg.h"
#include "wire/wire.h"

enum {
    SLOT_IDS = 65536,      // ids of one slot
    SLOT_BOX_IDS = 65535,  // of these mapped in B, from 0
    SLOT_GUEST_ID = 65535, // the guest's, outside B
    ZYGOTE_PRELOAD_MAX = 256,
};

enum spawner_type {
    SPAWNER_STAGE = 1,   // spawner_plain + [detached mount], once, before the first box; no answer
    SPAWNER_USERNS,      // spawner_slot                       -> SPAWNER_USERNS_MADE
    SPAWNER_SPAWN,       // spawner_spawn + descriptors        -> SPAWNER_SPAWNED
    SPAWNER_USERNS_MADE, // spawner_slot + [user namespace B]
    SPAWNER_SPAWNED,     // spawner_plain + [pidfd of the guest]
    SPAWNER_ERROR,       // spawner_error; with head.id 0 it is about the spawner itself
    SPAWNER_ZYGOTE,      // spawner_zygote + descriptors       -> SPAWNER_SPAWNED
    SPAWNER_TYPE_MAX,
};

struct spawner_slot {
    struct wire_head head;
    uint32_t slot;
    uint32_t pad;
};

// Descriptors, in this order: the guest's end of its socket, B if has_userns (else it is the one
// made for that slot just before).
struct spawner_spawn {
    struct wire_head head;
    uint32_t slot;
    uint32_t has_userns;
};

// A zygote (zygote-msg.h). Descriptors: its end of the keeper's socket, the detached root mount,
// n_binds detached mounts.
struct spawner_zygote {
    struct wire_head head; // the id is not a box's
    uint32_t slot;         // whose first id is its user
    uint32_t n_binds;
    char target[GUEST_BINDS_MAX][GUEST_TARGET_MAX]; // below the root
    char preload[ZYGOTE_PRELOAD_MAX];               // names of modules, with commas between
};

struct spawner_plain {
    struct wire_head head;
};

struct spawner_error {
    struct wire_head head;
    int32_t sys_errno;
    char step[60];
};
