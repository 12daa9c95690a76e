// SPDX-License-Identifier: Apache-2.0
// A job: one program that a guest was asked to start, with the descriptors of its streams. Execs,
// processes and sessions are thin layers over it: they own the job, read its descriptors, and hear
// how it ended. A job's owner hears `failed`, or `started` and then `exited`, or at any time
// `lost`, each at most once. After `failed`, `exited` and `lost` it calls job_free, there or later.
// Timeouts are kept here: at its deadline every process of the job is killed.
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "box/client.h"
#include "db/db.h"
#include "sandbox/sandbox.h"

struct job;

struct job_end {
    enum end_reason reason;
    int exit_code;   // -1 unless it exited by itself
    int signal;      // 0 unless a signal ended it
    uint32_t limits; // enum guest_limit
    uint64_t cpu_usec, memory_peak;
};

struct job_events {
    void (*started)(void *data, struct job *job);
    void (*failed)(void *data, const struct err *err); // the program could not be started
    // The program has ended. What it wrote is in the pipes: read until they have no more, then
    // close.
    void (*exited)(void *data, const struct job_end *end);
    // The box is gone (or was, for a job that was taken over, when we came back).
    void (*lost)(void *data, const struct job_end *end);
};

// Starts it in a sandbox that runs (sandbox_wake). `timeout_ms` 0: none. NULL and err when it
// cannot even be asked for. spec->tag is the job's own; GUEST_EXEC_KEEP is added by it.
struct job *job_start(struct sandbox *s, const struct exec_spec *spec, int64_t timeout_ms,
                      const struct job_events *events, void *data, struct err *err);

uint32_t job_id(const struct job *job); // in its box
int job_pid(const struct job *job);     // in the box, once started
struct guest_peer job_guest(const struct job *job);

// The streams, -1 where there is none. They are the job's, non-blocking, closed by job_free; a
// taken one is the caller's.
struct job_streams {
    int out, err, in, control_in, control_out;
};
struct job_streams *job_streams(struct job *job);

// Sends a signal to the job's group, SIGKILL to all of it. After job_kill the end's reason is
// END_KILLED (or END_TIMEOUT when the deadline came first).
int job_signal(struct job *job, int signal, struct err *err);
void job_kill(struct job *job);
void job_set_deadline(struct job *job, int64_t timeout_ms); // from now; 0: none
void job_close_stdin(struct job *job); // the program reads the end of its input
void job_forget(struct job *job); // the guest need not keep it any longer (GUEST_EXEC_KEEP_EXIT)

// Lets go of it. One that still runs is nobody's then: it goes on, unread; kill it first if it
// shall not.
void job_free(struct job *job);

// --- after a restart: the guests tell which jobs they have. Processes and sessions take theirs
// over

// Called for each sandbox that runs, once its guest has told, before `ready`. Those who have rows
// look for their job by its id, set its owner, and are told `exited` later if it had ended
// meanwhile. A job that nobody takes over is drained and forgotten.
struct job *job_adopt(struct sandbox *s, uint32_t id, const struct job_events *events, void *data);
