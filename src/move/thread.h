// SPDX-License-Identifier: Apache-2.0
// A thread of a mover: an epoll set with the ends of its jobs, a queue of those that can go on,
// each for one turn after another, and clocks for those that sleep or stall. The loop tells it by
// lists under a lock and an eventfd; it tells the loop by a list under the same lock and uv_async.
//
// A job that is over is posted in one place, at its turn: between taking the commands and that
// moment nothing that a command or an event points to can go away.
#pragma once

#include <pthread.h>

#include "move/job.h"

struct mover_thread {
    pthread_t id;
    int epoll, wake;
    uv_async_t *told;
    unsigned load; // the loop's: jobs that it has
    pthread_mutex_t lock;
    // Under the lock.
    struct job_queue started, cancelled, finished;
    bool quits;
    // Its own.
    struct job_queue jobs, ready, asleep;
    int64_t now;
    int64_t next_wake, next_stall; // not later than the first of these is due
    struct works works;
};

// On the loop.
int thread_open(struct mover_thread *thread, uv_async_t *told); // 0 or -errno
void thread_close(struct mover_thread *thread);                 // waits until it has ended
void thread_start(struct mover_thread *thread, struct job *job);
void thread_cancel(struct mover_thread *thread, struct job *job);
struct job *thread_next_finished(struct mover_thread *thread); // NULL: none
