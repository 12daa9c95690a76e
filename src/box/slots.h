// SPDX-License-Identifier: Apache-2.0
// Slots: which user ids of the host a box may have. Slot s owns the SLOT_IDS ids from SLOT_ID_BASE
// + s * SLOT_IDS. A keeper takes a run of slots for itself with a lock on that range of bytes of
// one file, so that no two on the machine share an id and a dead one's are free at once. The first
// slot of a run is for the spawner's user namespace Z; boxes get the others.
#pragma once

#include <stdint.h>

#include "base/err.h"

enum {
    SLOTS_TOTAL = 4096,
    SLOT_ID_BASE = 0x70000000, // above what distributions and other container tools hand out
};

struct slots {
    int lock_fd;
    uint32_t first;
    uint32_t n;
};

// Takes `n` slots in a row. ERR_EXHAUSTED when the machine has no such run left.
int slots_take(uint32_t n, struct slots *ret, struct err *err);
void slots_done(struct slots *slots);
// Takes one more slot for a moment, of which a dead keeper may have left something. 0 if somebody
// has it.
int slots_hold(const struct slots *slots, uint32_t slot);
void slots_release(const struct slots *slots, uint32_t slot);
