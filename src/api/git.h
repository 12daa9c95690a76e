// SPDX-License-Identifier: Apache-2.0
// Routes that have git at work in a sandbox (src/git), for the files of this room.
#pragma once

#include "api/call.h"
#include "git/clone.h"

// Of a call that works with git: its `state`.
struct git_call {
    struct git_work *work; // NULL: nothing is going on
    int64_t start_ns;
};

// Wakes the sandbox, then has `begin` start what is to be done with git, for which the call is
// `data`. What begin starts is cancelled when the client goes, unless a key can ask for it again.
// Whoever is told the outcome answers and calls git_call_done.
void git_call_begin(struct call *call, struct git_work *(*begin)(struct call *call));
void git_call_done(struct call *call);
void git_call_fault(struct call *call, const struct git_fault *fault);

// Members of what a clone is told with; `fault` may be NULL.
void git_clone_show(struct json *j, const struct call *call, const struct git_cloned *cloned,
                    const struct git_fault *fault);
