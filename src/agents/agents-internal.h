// SPDX-License-Identifier: Apache-2.0
// The room's own state.
#pragma once

#include <sys/queue.h>

#include "agents/agents.h"
#include "agents/run.h"
#include "base/map.h"

enum { RUN_BODY_MAX = 8 * 1024 * 1024 };

struct agents {
    struct agents_config config;
    bool closing;
    struct map runs;         // by id: all that are in memory
    struct run *kept;        // that have ended, newest first; a reference each
    struct run *unsynced;    // that will, once their answers are on the disk
    struct syncing *syncing; // the thread that sees to it
    size_t log_bytes;
    struct fresh *fresh;
    LIST_HEAD(task_list, task) tasks; // at work
    unsigned n_reading;               // of these, whose agents write more than is read at once
    struct opencode *opencode;
    struct agents_stats stats;
};

void tasks_stop(struct agents *agents);  // all end, now
void tasks_leave(struct agents *agents); // as they are, for a next daemon
void runs_cancel(struct agents *agents);
void runs_close(struct agents *agents);
