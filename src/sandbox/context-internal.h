// SPDX-License-Identifier: Apache-2.0
// Contexts in memory. context.c has their door and their beginnings, context-keep.c rows and what
// outlives the daemon, context-run.c the queue of cells and how they end; kernel-link.c a kernel's
// job, its pipes and frames; cell.c what was run, cell-log.c its events. Contexts are counted: the
// list has one reference, and whoever calls back into the unknown holds another meanwhile.
//
// A cell of a language without contexts has one of its own that is in no list (`is_once`).
#pragma once

#include "sandbox/cell-log.h"
#include "sandbox/context.h"
#include "sandbox/kernel-frame.h"
#include "sandbox/kernel.h"
#include "sandbox/sandbox-internal.h"

enum {
    ONCE_MAX = 8,          // cells without contexts side by side
    CELL_NUMBERS = 1000,   // taken at once: a row need not be written for each cell
    CELL_LONG_MS = 100,    // one that runs for longer is in the row
    CELL_IDLE_MAX = 65536, // of each stream, kept for the next cell
    CONTEXT_START_MS = 60000,
    CELL_WHOLE_MAX = 32768, // what surely fits into a pipe; of more, half may have been sent
    CELL_HALF_SENT = -1,    // in a row: its deadline, until all of it is in the pipe
};

// Of all cells of a sandbox.
#define CELLS_BYTES_MAX  (UINT64_C(256) * 1024 * 1024)
#define CELLS_MEMORY_MAX (UINT64_C(32) * 1024 * 1024)
#define CELLS_ASKED_MAX  (UINT64_C(64) * 1024 * 1024) // code and variables of those that wait or run
#define FRAMES_MAX       (UINT64_C(96) * 1024 * 1024) // frames that are not whole yet

// --- cells

enum cell_state {
    CELL_WAITING, // in the queue
    CELL_SENT,    // behind an `open` that is not answered yet
    CELL_RUNNING,
    CELL_ENDED,
};

enum cell_stop { STOP_NONE, STOP_INTERRUPT, STOP_CANCEL, STOP_TIMEOUT };

struct cell {
    unsigned refs;
    struct sandbox *s;       // held, and busy, until it has ended; then NULL
    struct contexts *all;    // whose memory it counts for; NULL: nobody's any more
    struct context *context; // held until it has ended
    struct cell *next;       // in the queue, or of those that have ended
    enum cell_state state;
    uint32_t number; // in its context
    const struct language *language;
    char *id, *context_id; // "": it has none
    char *code;
    size_t len;
    char **envp; // NULL: none
    int64_t timeout_ms, begun_ns;
    enum cell_stop stop;
    uint64_t shown; // representations that came
    bool signalled, interrupted, has_failed;
    bool is_signal_due; // when it is old enough
    unsigned signals;   // since `stop` was set
    bool is_stored;     // its context's row has it
    bool is_rest;       // a daemon before this one has begun it
    cell_fn fn;         // not told yet
    void *fn_data;
    struct cell_log log;
    uint64_t counted, counted_memory; // of it, in `all`
    uint64_t asked; // bytes that came with it, in its sandbox's until it has ended
    struct cell_end end;
    struct cell_follower *followers;
    unsigned telling;
};

uint64_t cell_asked(const struct cell_request *request); // bytes of it that are kept
struct cell *cell_new(struct context *c, uint32_t number, const struct cell_request *request,
                      struct err *err);
void cell_write(struct cell *cell, enum cell_event_type type, const char *bytes,
                size_t len); // what it printed
void cell_add(struct cell *cell, enum cell_event_type type, const void *bytes, size_t len);
void cell_tell(struct cell *cell); // its followers
// Its last event. The sandbox may go with it.
void cell_finish(struct cell *cell, const struct cell_end *end);
void cell_drop(struct cell *cell); // it will not run, and nobody knows it
void cells_forget(struct contexts *all, const char *context_id); // NULL: all that have ended

// --- contexts

struct context_waiter {
    context_fn fn;
    void *data;
    struct context_waiter *next;
};

struct kernel_link;

struct context {
    struct sandbox *s;
    struct context *next;
    unsigned refs;
    bool is_gone;    // not in the list any more
    bool is_once;    // for one cell
    bool is_new;     // has no row yet
    bool is_unsaved; // its row does not say how it is
    bool is_opened;  // its kernel is ready for cells
    bool is_half;    // its row says CELL_HALF_SENT
    const struct language *language;
    struct context_row row;
    struct kernel_link *link; // NULL: it is dead, or not begun
    bool ordinary;            // its kernel is, or was, started so
    bool starting_busy;       // it keeps the sandbox awake while it starts
    uint32_t number;          // of the cell queued last
    uint64_t count;
    struct cell *current; // sent or running
    struct cell *queue;
    unsigned n_queue;
    struct context_waiter *waiters;
    struct buf idle_out, idle_err; // written while no cell ran
};

struct contexts {
    struct context *first; // oldest first
    unsigned n;
    struct context *once; // those of single cells, running or waiting
    unsigned n_once;
    struct cell *ended; // oldest first
    uint64_t bytes, memory, asked, frames;
};

// --- context.c

struct context *context_new(struct sandbox *s, const struct context_row *row, bool is_once);
void context_ref(struct context *c);
void context_unref(struct context *c);
void context_unlist(struct context *c);                               // nobody finds it any more
int context_begin(struct context *c, bool ordinary, struct err *err); // a kernel for it
// Its kernel could not be started, or has ended before it was open.
void context_failed(struct context *c, const struct err *err);
void context_on_opened(struct context *c);
// Its kernel is gone, or goes now: what runs and waits ends, the row says why.
struct context_death {
    enum end_reason end;
    char detail[64];    // as it is stored
    const char *reason; // of the cell that runs
    struct err err;     // in words
};
void context_die(struct context *c, const struct context_death *death);
struct context_death context_death_of(const struct context *c, const struct job_end *end);

// --- context-keep.c

struct contexts *contexts_of(struct sandbox *s);       // made and read from rows if need be
int context_store(struct context *c, struct err *err); // the row
void context_store_or_log(struct context *c);
void context_set_end(struct context *c, const char *end);
struct context_row context_row_of(struct sandbox *s, const struct context_settings *settings,
                                  bool is_default);
enum end_reason context_end_of(const char *detail);

// --- context-run.c

void context_pump(struct context *c);        // sends the next cell, if there is one and it can be
void context_send_first(struct context *c);  // behind `open`
void context_unsend(struct context *c);      // to a kernel that is not there any more
void context_begin_first(struct context *c); // it has been opened
void cell_on_deadline(struct context *c);
void cell_on_long(struct context *c);
void cell_on_sent(struct context *c); // all of it, into the pipe
// Of the rest that a daemon before us has left: the kernel runs nothing any more.
void cell_on_rest_over(struct context *c);
uint32_t context_ping(const struct context *c); // what our question is numbered with
// A frame of the cell that runs. -1: it breaks the protocol.
int cell_on_frame(struct context *c, struct frame *frame);
void context_fail_cells(struct context *c, const struct err *err);
// How the one that runs ends with its kernel, and those that wait.
void context_end_cells(struct context *c, const struct context_death *death);

// --- cell-run.c

void once_ended(struct contexts *all); // another one may begin

// --- kernel-link.c

int kernel_link_start(struct context *c, bool ordinary, struct err *err);
struct kernel_link *kernel_link_adopt(struct context *c, uint32_t exec); // NULL: it is gone
uint32_t kernel_link_exec(const struct kernel_link *link);
int kernel_link_pid(const struct kernel_link *link);
struct buf *kernel_link_outgoing(struct kernel_link *link);
void kernel_link_flush(struct kernel_link *link);
void kernel_link_settle(struct kernel_link *link); // before a cell; the context may die of it
void kernel_link_drain(struct kernel_link *link);  // what its streams have
void kernel_link_set_deadline(struct kernel_link *link, int64_t ms); // 0: none
void kernel_link_interrupt(struct kernel_link *link);
void kernel_link_watch_long(struct kernel_link *link, bool on); // cell_on_long comes
void kernel_link_hold(struct kernel_link *link, int64_t ms);    // no cell until then
bool kernel_link_is_free(const struct kernel_link *link);       // it may be given a cell
// Lets go of it, killed or as it is. Nothing is told any more. Both take NULL.
void kernel_link_end(struct kernel_link *link);
void kernel_link_release(struct kernel_link *link);
