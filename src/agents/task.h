// SPDX-License-Identifier: Apache-2.0
// A task: a sandbox, a repository in it, an agent at work on it, and what has changed. The agent is
// a program in the box; it has the model by a socket and a placeholder for a key, and what was
// needed for the clone (the network, a secret) is taken away before it starts.
//
// It goes on when its client leaves, and when the daemon is killed: the agent runs in the box, its
// output is in its process's log, and what a new daemon needs to go on is in the run's row.
#pragma once

#include "agents/components.h"
#include "agents/run.h"

enum {
    TASK_MAX = 1024 * 1024, // bytes
    TASK_TIMEOUT_MS = 300000,
    TASK_TIMEOUT_MAX_MS = 24 * 60 * 60 * 1000,
    TASK_TURNS_MAX = 1000,
};

struct task_request { // texts are copied
    int64_t tenant;
    const char *id; // as in struct run_start
    const char *task;
    const char *agent;   // NULL: "claude"
    const char *sandbox; // id; NULL: a fresh one, which is destroyed at the end unless `keep`
    const char *image;   // of a fresh one; NULL: the agent's
    uint64_t memory;     // bytes, of a fresh one; 0: the agent's
    const char *repo, *branch, *secret; // NULL: none
    const char *network;                // canonical, as in struct sandbox_settings; NULL: "none"
    const char *working_dir;            // below the repository, or absolute; NULL: its top
    const char *system_prompt, *permission_mode, *model;
    int64_t max_turns;                  // 0: not given
    int64_t timeout_ms;                 // of everything
    int64_t budget_cost, budget_tokens; // of a fresh sandbox; 0: none
    bool include_diff, keep;
    const struct components *components; // lent for the call; NULL: none
};
// NULL: it was not begun. ERR_NOT_FOUND: the sandbox, or the agent; ERR_INVALID; ERR_UNAVAILABLE.
struct run *task_start(struct agents *agents, const struct task_request *request, struct err *err);
// Those that an earlier daemon was at work on, after the fleet knows its sandboxes again.
void tasks_resume(struct agents *agents);
