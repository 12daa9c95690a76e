// SPDX-License-Identifier: Apache-2.0
// The keeper: the one process that is root on the host. It makes boxes, keeps their descriptors,
// takes them apart, and does nothing else; it is single-threaded, forked before its client has done
// anything, and believes nothing it is asked (wire/keeper-msg.h is all it can be asked).
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct keeper_config {
    const char *data;      // data directory, NULL for the default
    uint32_t boxes;        // at most, at once
    int once;              // there will be one box ever: let go early of what makes more
    uint32_t pool_ready;   // boxes kept ready with a root of image `host` and a blank disk
    uint32_t pool_blank;   // boxes kept ready without a root
    uint64_t volume_bytes; // size of the Btrfs volume; 0: no volume, disks are tmpfs
};

struct keeper_process {
    int sock; // wire/keeper-msg.h
    pid_t pid;
};

// Forks it. It ends, with every box, when the socket is closed. What goes wrong while it starts
// comes as the first message, a KEEPER_ERROR. The child keeps no descriptor of the caller's.
int keeper_start(const struct keeper_config *config, struct keeper_process *ret, struct err *err);
// Closes the socket and waits until it has cleaned up and gone.
void keeper_stop(struct keeper_process *keeper);
