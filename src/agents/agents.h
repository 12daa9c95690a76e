// SPDX-License-Identifier: Apache-2.0
// What is done with a model: questions answered by code that it writes (answer.h), conversations
// with tools (talk.h). Each is a run (run.h). All on the loop's thread.
#pragma once

#include <uv.h>

#include "base/err.h"
#include "db/db.h"
#include "egress/model-key.h"
#include "model/model.h"
#include "sandbox/sandbox.h"

struct agent_files;
struct agents;

struct agents_config {
    uv_loop_t *loop;
    struct db *db;
    struct fleet *fleet;
    struct secrets *secrets;
    struct model *model;
    struct model_keys *keys;
    const char *default_model; // "sonnet"
    int64_t run;               // this run of the daemon
    // Of tasks:
    const struct agent_files *agent_files; // lent: what is known of command-line agents
    int components_fd;                     // lent: the folder of components; -1: there is none
    int64_t task_timeout_ms;               // what a task has that says nothing, and the most
};
int agents_open(const struct agents_config *config, struct agents **ret, struct err *err);
// No more are begun, and all that run end as cancelled, while their clients can still be told.
void agents_stop(struct agents *agents);
void agents_close(struct agents *agents); // takes NULL; runs end as cancelled

const struct agents_config *agents_config(const struct agents *agents);

struct agents_stats {
    uint64_t runs, failed, calls, call_errors; // since the daemon started
    uint64_t cached;
    uint64_t tasks, tasks_failed; // of the runs
    unsigned open, tasks_open;
    struct model_usage usage;
    int64_t cost;
};
void agents_stats(const struct agents *agents, struct agents_stats *ret);

// One call to the model for a run, with the credential of its tenant. What it uses, also by
// attempts that break and until it is cancelled, is written down (for the sandbox, which may be
// NULL/0) and counted in the run and the stats. As model_ask otherwise; a credential that was
// refused and can be renewed is, and the call is made once more.
struct run;
struct agents_call;
struct agents_ask {
    struct run *run;    // a reference is taken
    const char *source; // "execute", "sdk"
    const char *sandbox;
    int64_t sandbox_number;
    const char *model;             // the id that is asked
    struct model_request request_; // without access
};
struct agents_call *agents_ask(struct agents *agents, const struct agents_ask *ask,
                               model_event_fn event, model_done_fn done, void *data);
void agents_cancel(struct agents_call *call); // takes NULL; nobody is called any more
