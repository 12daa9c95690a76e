// SPDX-License-Identifier: Apache-2.0
// The place where hostile archives are read: a child that sees the machine's /usr, read-only, and
// at most one directory of ours, and nothing else: no /etc, no /proc, no network, no other process.
// It may own and permit files in that directory as an archive says, but make no device node; or
// what struct confine_how says instead.
#pragma once

#include <stdint.h>

#include "base/err.h"

#define CONFINE_TARGET "/t"

struct confined {
    const char *const *argv;
    int fds[3];        // as in struct tool
    int target_fd;     // bound on CONFINE_TARGET; -1 for none, and then it runs as nobody
    uint64_t file_max; // bytes of the largest file it may write
    const struct confine_how *how; // NULL: as above
};

struct confine_how {
    int program;        // a descriptor of what is executed; argv[0] is only a name then
    int is_mount;       // target_fd is a detached mount: attached as it is
    int is_read_only;   // target_fd is a directory that is only looked at
    uint64_t caps;      // bits: the capabilities that it has
    uint64_t files_max; // descriptors
    uint64_t data_max;  // bytes of memory that it may write to
};

// A pidfd (tool.h), or -1.
int confine_start(const struct confined *confined, struct err *err);
