// SPDX-License-Identifier: Apache-2.0
// What the keeper asks of a zygote: an interpreter of an image, in Z, with libraries loaded,
// that forks itself into boxes (kernels/python/zygote.py, which knows these layouts too). It runs
// an image's code, so nothing it says is believed: the keeper looks at the process it is handed.
#pragma once

#include <stdint.h>

#include "wire/wire.h"

enum zygote_type {
    ZYGOTE_READY = 1, // zygote_plain: its libraries are loaded
    ZYGOTE_PLANT,     // zygote_plant + descriptors -> ZYGOTE_PLANTED or ZYGOTE_FAILED
    ZYGOTE_PLANTED,   // zygote_planted + [pidfd]
    ZYGOTE_FAILED,    // zygote_failed
    ZYGOTE_GO, // zygote_plain, on the seat, before anything else comes that way: the fork is in the
               // box's cgroups, and enters the rest
};

// Descriptors: the box's namespaces (pid, mnt, net, ipc, uts, cgroup), B, the fork's end of its
// seat (guest-msg.h, guest_adopt).
enum { ZYGOTE_PLANT_FDS = 8 };

struct zygote_plain {
    struct wire_head head;
};

struct zygote_plant {
    struct wire_head head;
    uint32_t uid, gid; // in the box
    uint32_t files;    // RLIMIT_NOFILE
    uint32_t pad;
};

struct zygote_planted {
    struct wire_head head;
    int32_t pid; // in the box
    uint32_t pad;
};

struct zygote_failed {
    struct wire_head head;
    int32_t sys_errno;
    char step[60];
};

union zygote_answer {
    struct wire_head head;
    struct zygote_planted planted;
    struct zygote_failed failed;
};

// What a zygote finds on descriptor 61 when it starts: this, then n_filter instructions of the
// system call filter.
struct zygote_setup {
    uint64_t kept_caps; // of root in a box
    uint32_t n_filter;
    uint32_t pad;
    char preload[256];
};
