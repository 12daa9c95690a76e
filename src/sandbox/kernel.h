// SPDX-License-Identifier: Apache-2.0
// Kernels in a sandbox's box, as jobs: one that was parked in it before anybody asked, a fork of
// the image's zygote, or one that is started. Contexts (context.h) own them; the protocol is in
// kernels/PROTOCOL.md.
#pragma once

#include "kernels/kernels.h"
#include "sandbox/job.h"

enum {
    KERNEL_UID = 0, // as an exec that names no user
    KERNEL_GID = 0,
};

struct kernel_start {
    enum kernel_kind kind;
    bool ordinary; // no fork, nothing parked: a program of its own
};

struct kernel_begun {
    struct job *job;  // its streams: out, err, control_in, control_out
    bool wants_boot;  // the first frame must be `boot`
    bool is_started;  // `started` is not called: its streams are there already
    bool is_ordinary; // what was asked for, or all there is. If one that is not `failed`s, or says
                      // `unfit`, ask again with `ordinary`
};

// In a sandbox that runs. 0, or -1 and err. `failed` comes as for any job.
int kernel_start(struct sandbox *s, const struct kernel_start *start,
                 const struct job_events *events, void *data, struct kernel_begun *ret,
                 struct err *err);
