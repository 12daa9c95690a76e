// SPDX-License-Identifier: Apache-2.0
// A process in memory, for process.c (which ones there are, and their rows), process-run.c (the job
// behind a running one), process-io.c (its streams) and process-watch.c.
//
// Who keeps it there: references. One of them (`alive`) is its own, while it runs and until its
// pipes have ended; with the first one the sandbox is referenced too. One without references stays
// until the loop turns (whom it was lent to may still look at it) and then leaves; its row and its
// log are what lasts.
#pragma once

#include "sandbox/process.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/spool.h"

struct pump; // reads one of its pipes into its log
struct feed; // writes its standard input

struct process {
    struct sandbox *s; // NULL when it was deleted or its sandbox left
    struct process_row row;
    unsigned refs;
    bool alive;
    bool awake;      // the sandbox is busy with it
    bool swept;      // in processes->gone
    bool loss_told;  // bytes that its log could not take were reported
    bool log_failed; // it could not be made
    struct process *next_gone;
    struct job *job; // NULL: not running (or not any more)
    process_fn fn;   // not NULL: it is starting
    void *data;
    struct pump *pumps[LOG_STREAMS];
    struct feed *feed;
    struct bytelog *logs[LOG_STREAMS]; // opened when first used, made with the first byte
    struct process_watch *watches;
    unsigned telling;
    struct spool *spool; // of a terminal; NULL: none
};

struct processes {
    struct sandbox *s;
    struct map by_id;
    struct process *gone;     // deleted, lent to somebody in this turn of the loop
    unsigned running;         // starting ones too
    unsigned ended;           // rows
    bool trims;               // when the loop has turned
    struct opening *openings; // terminal.c's
    uv_timer_t sweeper;
};

// --- process.c

struct processes *processes_of(struct sandbox *s);
// Takes the row's texts.
struct process *process_new(struct sandbox *s, struct process_row *row);
// A row that was collected belongs to the list.
struct process_list {
    struct process_row *rows;
    size_t n, cap;
};
int process_list_read(struct db *db, int64_t sandbox, bool running_only, struct process_list *ret,
                      struct err *err);
void process_list_done(struct process_list *list);
// Takes it out of its sandbox: streams closed, watchers told. Its job, if any, goes on.
void process_let_go(struct process *p);
void process_erase(struct process *p);        // and its logs and row
void processes_trim(struct sandbox *s);       // to PROCESS_KEPT
void processes_trim_later(struct sandbox *s); // when those who wait for an answer have it
// Writes the end into the row. Whether it could.
bool process_row_end(struct sandbox *s, struct process_row *row, const struct job_end *end);

// --- process-run.c

void process_drop_job(struct process *p); // lets go of it; a starting process fails

int process_open_log(struct process *p, enum log_stream stream, struct err *err); // makes it

// --- process-io.c

// Begins to read a pipe into the log. Takes the descriptor; -1 is none.
void pump_open(struct process *p, enum log_stream stream, int fd);
void pump_close(struct process *p, enum log_stream stream);
// Moves what the pipe has now; what a child adds meanwhile comes later. Closed at its end.
void pump_drain(struct process *p, enum log_stream stream);

struct feed *feed_new(size_t max);
void feed_open(struct process *p, int fd); // takes the descriptor; writes what has queued up
// 0; ERR_EXHAUSTED: nothing was taken.
int feed_write(struct process *p, const void *data, size_t len, bool end, struct err *err);
void feed_close(struct process *p);

// Of its terminal. 0 or -errno.
int process_set_size(struct process *p, uint16_t rows, uint16_t cols);
int process_get_size(const struct process *p, uint16_t *ret_rows, uint16_t *ret_cols);

void process_settle(struct process *p); // gives up `alive` when there is no more reason for it

// --- process-watch.c

void process_tell(struct process *p, bool deleted);
