// SPDX-License-Identifier: Apache-2.0
// Between the files of a task: task.c (its beginning, its phases, its end), task-box.c (the sandbox
// and the clone), task-files.c (components, and where it works), task-agent.c (the agent while it
// runs), task-answer.c (what came of it), task-keep.c (what a next daemon goes on with).
//
// A task is counted: it has one reference itself until it is over, and so has whatever was asked
// for and cannot be called back. Once `over`, whoever comes back only cleans up.
#pragma once

#include <sys/queue.h>

#include "agents/agent-file.h"
#include "agents/agent-read.h"
#include "agents/agents-internal.h"
#include "agents/failure.h"
#include "agents/task.h"
#include "base/json-in.h"
#include "git/changes.h"
#include "sandbox/hand.h"
#include "sandbox/process.h"

enum {
    TASK_EVENT_MAX = 8 * 1024 * 1024,
    TASK_WARNINGS_MAX = 32,
    TASK_WORK_MAX = 64 * 1024,
    TASK_ASKED_MAX = 64 * 1024 * 1024, // everything that may be asked for, escaped
    TASK_CHANGES_MS = 60 * 1000,       // for looking at what has changed, beyond its time
};

enum task_phase { // what it waits for
    TASK_BOX,     // the sandbox
    TASK_CLONE,   // git
    TASK_SHUT,    // the sandbox's settings: what the clone needed is taken away
    TASK_FILES,   // components, and a look at the working directory
    TASK_MOMENT,  // git: how it is before
    TASK_AGENT,   // the agent
    TASK_LEFT,    // a look at what it has left running
    TASK_CHANGES, // git: what has changed
};

enum task_stop { TASK_GOES_ON, TASK_CANCELLED, TASK_TIMED_OUT };

struct task_asked { // owned
    char *task, *agent, *sandbox, *image, *repo, *branch, *secret, *network, *working_dir;
    char *system_prompt, *permission_mode, *model;
    int64_t memory, max_turns, timeout_ms, budget_cost, budget_tokens;
    bool include_diff, keep;
    struct components *components; // a reference; NULL: none
};

struct task {
    struct agents *agents;
    struct run *run; // a reference
    unsigned refs;
    LIST_ENTRY(task) link; // of agents->tasks
    struct task_asked asked;
    const struct agent_file *file;
    enum task_phase phase;
    enum task_stop stop;
    bool over, resumed;
    bool has_run;      // its agent was started
    bool is_left;      // a next daemon goes on with it
    uv_timer_t *timer; // its deadline; later, what must not take for ever
    int64_t start_ns;  // of all of it
    int64_t agent_ns;  // when the agent was started; 0: not yet
    int64_t clone_ms, agent_ms;

    // the sandbox
    struct sandbox *s; // a reference, kept busy; NULL: none yet
    bool fresh;
    struct git_work *work;
    struct git_cloned cloned; // url "": nothing was
    char dir[GIT_PATH_MAX];   // the project
    char cwd[GIT_PATH_MAX];   // where the agent starts
    struct task_files *files; // task-files.c's
    struct git_moment *moment;
    uint32_t pids_before; // 0: nobody knows

    // the agent
    struct agent_start start;
    unsigned name;           // of its process: "agent", "agent-2"
    struct process *process; // a reference
    struct process_watch *watch;
    struct agent_reader *reader;
    uv_timer_t *slices;         // while there is more than is read at once
    struct buf said;            // text that was not told yet
    uint64_t read[LOG_STREAMS]; // of its log
    bool skips[LOG_STREAMS];    // there is too much of it
    enum end_reason reason;
    int64_t exit_code, signal, limits;
    bool is_lost; // its box is, or its process was deleted
    bool is_fed;  // it has all of its input: what it has not goes with the daemon

    char *warnings[TASK_WARNINGS_MAX];
    unsigned n_warnings;
};

// --- task.c

struct task *task_ref(struct task *t);
void task_unref(struct task *t);
void task_warn(struct task *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int64_t task_left_ms(const struct task *t); // until its deadline; at least 1
// An event: an object that is open, then its end.
struct json *task_event(struct json *j, struct buf *buf);
void task_emit(struct task *t, const char *type, struct json *j);
void task_begin(struct task *t);             // its first phase
void task_again(struct task *t, int64_t ms); // the phase goes on after so long, from the loop
// There is no result: nothing was run.
void task_fail(struct task *t, const struct failure *failure);
void task_fail_git(struct task *t, const struct git_fault *fault);
void task_fail_err(struct task *t, const struct err *err);
void task_end(struct task *t, const struct run_end *end, const struct buf *body);
struct task *task_new(struct agents *agents, struct task_asked *asked,
                      const struct agent_file *file); // takes what `asked` has

// --- task-box.c

void task_box_get(struct task *t);
void task_moment_take(struct task *t);
void task_box_hold(struct task *t, struct sandbox *s); // it is there, and awake
void task_box_leave(struct task *t);

// --- task-files.c

void task_files_put(struct task *t); // then task_moment_take
void task_files_drop(struct task *t);

// --- task-agent.c

void task_agent_start(struct task *t);
void task_agent_watch(struct task *t, struct process *p); // one that runs, or has ended
void task_agent_kill(struct task *t);
void task_agent_ended(struct task *t);         // from the loop
bool task_agent_is_read(const struct task *t); // it has ended, and what it wrote is being read
void task_agent_drop(struct task *t);

// --- task-answer.c

// Ends it with what has come of it. `changes` NULL: nobody knows.
void task_answer(struct task *t, const struct git_changes *changes);

// --- task-keep.c

void task_asked_done(struct task_asked *asked);
int task_keep_asked(struct task *t, struct err *err);
int task_keep_work(struct task *t, struct err *err); // the agent runs, or is being started
