// SPDX-License-Identifier: Apache-2.0
// What a mover's thread works on: a move (one flow) or a relay (two, back to back), with their
// rate, their cap and their patience. Made on the loop, handed to one thread, and handed back when
// it is over; whoever has it may touch it, except where a member says otherwise.
#pragma once

#include <sys/queue.h>

#include "move/flow.h"

struct mover_thread;

struct job {
    struct end ends[2];   // from and to, or a and b
    struct flow flows[2]; // the second only in a relay
    unsigned n_flows;
    uint64_t cap;              // of both directions; UINT64_MAX: none
    uint64_t rate;             // 0: any
    struct relay_share *share; // or NULL
    uint64_t paid;             // bytes that were counted against rate and share
    int64_t paid_until;        // the rate is used up until then
    int64_t patience_ns;       // 0: endless
    int64_t moved_at;
    int64_t wake_at; // while it sleeps, because its rate is used up
    bool swapped;    // which flow goes first: turn and turn about
    enum move_why why;
    int sys_errno;
    size_t first_used;
    // The thread's.
    bool queued, asleep, cancel_seen;
    TAILQ_ENTRY(job) mine; // all that the thread has
    TAILQ_ENTRY(job) turn; // either waits for its turn or sleeps
    // Under the thread's lock.
    bool posted;       // over, and in `finished`
    bool cancel_waits; // in `cancelled`
    TAILQ_ENTRY(job) started, cancelled, finished;
    // The loop's.
    struct mover *mover;
    struct mover_thread *thread;
    void (*deliver)(struct job *job); // calls whoever waits for it
    void (*stopped)(void *data);
    void *stopped_data;
    bool is_cancelled;
    TAILQ_ENTRY(job) all;
};
TAILQ_HEAD(job_queue, job);

enum job_turn {
    JOB_AGAIN,  // it could go on, but it is others' turn
    JOB_WAITS,  // for an event
    JOB_SLEEPS, // until `wake_at`
    JOB_OVER,   // `why` and `sys_errno` say how
    JOB_TURN_MAX,
};

// A thread has it now.
void job_begin(struct job *job, int64_t now);
enum job_turn job_turn(struct job *job, struct works *works, int64_t now);
// One of its ends has hung up.
void job_hung_up(struct job *job, struct end *end, struct works *works);
bool job_is_stalled(const struct job *job, int64_t now);
// Ends it where it stands.
void job_stop(struct job *job, struct works *works);
