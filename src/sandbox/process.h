// SPDX-License-Identifier: Apache-2.0
// A background process: a job with a name, a row and a byte log. It does not end with the request
// that started it, nor with the daemon: its pipes are spliced into its log, byte for byte, and a
// new daemon goes on where the last one was killed. Ended ones are kept (PROCESS_KEPT of a
// sandbox), with their logs.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/exec.h"
#include "sandbox/log.h"

enum {
    PROCESS_KEPT = 64,         // ended ones of one sandbox; the oldest go
    PROCESS_RUNNING_MAX = 256, // at once in one sandbox
};

struct process; // counted: process_start's callback and process_find lend it for the call

struct process_request {
    const char *id;      // NULL: one is made up
    const char *command; // JSON, as the caller gave it: kept for showing
    const char *note;    // as in struct process_row; NULL: none
    struct exec_request exec;
    bool keep_stdin; // a pipe that process_stdin writes to
    bool keep_awake; // the sandbox does not fall asleep while it runs
    // The name of its terminal: what it writes is all in LOG_STDOUT then. NULL: pipes.
    const char *tty;
    uint16_t rows, cols;
};

// The row is written before `fn`. ERR_CONFLICT: the id is in use.
typedef void (*process_fn)(void *data, struct process *p, const struct err *err);
void process_start(struct sandbox *s, const struct process_request *request, process_fn fn,
                   void *data);

// Never wakes; knows those of earlier boxes too. NULL with ERR_NOT_FOUND.
struct process *process_find(struct sandbox *s, const char *id, struct err *err);
struct process *process_ref(struct process *p);
void process_unref(struct process *p);
const struct process_row *process_row(const struct process *p);
int64_t process_duration_ms(const struct process *p);
int process_each(struct sandbox *s, void (*fn)(void *data, struct process *p), void *data,
                 struct err *err); // oldest first

int process_signal(struct process *p, int signal,
                   struct err *err); // ERR_CONFLICT when it has ended
// Ends a running one; a row that has ended goes, with its log.
int process_delete(struct process *p, struct err *err);
// Ends what one that has ended has left behind in its box, however it hides.
void process_end_rest(struct process *p);
// Writes all of it in the background, in order; `end` closes standard input after it. ERR_CONFLICT:
// no standard input (any more). ERR_EXHAUSTED: it has not read what was sent before (1 MiB waits at
// most).
int process_stdin(struct process *p, const void *data, size_t len, bool end, struct err *err);
size_t process_stdin_waiting(const struct process *p); // bytes that it has not taken

// The log: never wakes.
struct bytelog *process_log(struct process *p, enum log_stream stream); // NULL when it is gone
// Called after bytes came, after all of much input was taken, and after the end (process_row tells
// which). NULL p: deleted.
struct process_watch;
typedef void (*process_watch_fn)(void *data, struct process *p);
struct process_watch *process_watch(struct process *p, process_watch_fn fn, void *data);
void process_watch_free(struct process_watch *watch);

// --- for the fleet

void processes_adopt(struct sandbox *s); // after a restart, when the box's jobs are known
// The sandbox leaves memory, or is destroyed. What runs goes on, in nobody's care. References that
// processes had to the sandbox are given back, but it is not freed by that.
void processes_forget(struct sandbox *s);
// Rows that run, of a box that is gone, and a sandbox that is not in memory (or has no jobs there).
void processes_lost(struct fleet *fleet, int64_t sandbox);
void processes_destroy(struct sandbox *s); // with rows and logs
