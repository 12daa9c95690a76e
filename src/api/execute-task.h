// SPDX-License-Identifier: Apache-2.0
// POST /execute: what its body may have, for a question (execute.c) or a task (execute-task.c).
#pragma once

#include "api/budget.h"
#include "api/call.h"

struct task_options {
    struct body_bool include_diff, keep;
    const char *permission_mode, *system_prompt, *working_dir, *model, *secret, *network, *sandbox,
        *image, *agent;
    const void *components; // FIELD_TREE
    struct body_int max_turns, timeout, memory;
    struct budget_body budget;
};
extern const struct schema task_options_schema;

struct execute_body {
    // of a question
    const char *question, *language, *model, *sandbox, *context;
    struct body_int max_tokens, timeout, retries;
    struct body_bool cache;
    // of a task
    const char *task, *repo, *branch;
    struct task_options options;
    const char *auth_token; // is for auth.c
};

// Checks all that can be checked before anything begins, and begins.
void execute_task(struct call *call, const struct execute_body *body);
