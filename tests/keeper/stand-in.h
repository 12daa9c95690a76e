// SPDX-License-Identifier: Apache-2.0
// A stand-in for the daemon: it is started like one, tells whoever connects to its first listener
// what it was given, and hands over its socket to the keeper, so that the test is the daemon.
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct stand_in_hello { // with it comes the keeper's socket
    pid_t pid;
    uid_t uid;
    gid_t gid;
    uint64_t caps[4]; // permitted, effective, bounding, inheritable
    uint32_t no_new_privs;
    uint32_t n_groups;
    uint32_t n_fds;
    uint32_t n_env;
    uint32_t n_listeners;
    char conf[64];
};

enum stand_in_order { // what it is told then
    STAND_IN_EXIT_0 = '0',
    STAND_IN_EXIT_7 = '7',
    STAND_IN_IGNORE_TERM = 'i',
};
