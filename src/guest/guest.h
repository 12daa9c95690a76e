// SPDX-License-Identifier: Apache-2.0
// The guest: PID 1 of a box. A fork of the spawner that finds itself in fresh namespaces, stages
// the box's mounts (boot), is given a root (root), takes a uid that the box does not have, drops
// every capability, loads the filter, and then starts what it is asked to, reaps, and reports
// (exec, loop). It allocates nothing and trusts nothing it can avoid to look at. It ends when its
// socket does, and the kernel ends the box with it.
#pragma once

#include <stdint.h>

struct guest_boot {
    uint32_t slot;
    int sock;
    int userns;      // B
    int has_network; // its network namespace is up already
};

extern const uint64_t guest_kept_caps; // what root in a box may do, over its own user namespace

_Noreturn void guest_main(const struct guest_boot *boot);
