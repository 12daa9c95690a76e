// SPDX-License-Identifier: Apache-2.0
// A sandbox in memory, for the files of this room.
#pragma once

#include "base/map.h"
#include "sandbox/job.h"
#include "sandbox/sandbox.h"

struct box_link;  // box-link.c: the guest's socket and the jobs behind it
struct processes; // process.c's, made when it needs it, freed by processes_forget
struct sessions;  // session.c's, freed by sessions_forget

struct sandbox {
    struct fleet *fleet;
    struct sandbox_row row;
    char *key; // "tenant/id", in fleet->sandboxes
    unsigned refs;
    unsigned busy;        // how much is at work: it does not fall asleep
    int64_t active_ns;    // clock_ns() of the last activity
    struct box_link *box; // NULL when it does not run
    struct processes *processes;
    struct sessions *sessions;
    struct waiter *waiters; // for what it is doing now
    struct follower *followers;
    int doing; // enum doing, sandbox.c's
};

// The directory of the logs, and how much of a stream is kept.
int fleet_logs_fd(const struct fleet *fleet);
uint64_t fleet_process_log(const struct fleet *fleet);
