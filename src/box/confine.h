// SPDX-License-Identifier: Apache-2.0
// The place where hostile archives are read: a child that sees the machine's /usr, read-only, and
// at most one directory of ours, and nothing else: no /etc, no /proc, no network, no other process.
// It may own and permit files in that directory as an archive says, but make no device node.
#pragma once

#include <stdint.h>

#include "base/err.h"

#define CONFINE_TARGET "/t"

struct confined {
    const char *const *argv;
    int fds[3];        // as in struct tool
    int target_fd;     // bound on CONFINE_TARGET; -1 for none, and then it runs as nobody
    uint64_t file_max; // bytes of the largest file it may write
};

// A pidfd (tool.h), or -1.
int confine_start(const struct confined *confined, struct err *err);
