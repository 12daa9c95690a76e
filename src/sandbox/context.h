// SPDX-License-Identifier: Apache-2.0
// A context: an interpreter that stays, with its variables, imports and directory. Its cells run in
// order; contexts of one sandbox run side by side. Its kernel (kernel.h) is a job in the box: it
// ends with the box, and its state with it, which is never hidden: a context without a kernel says
// why and runs nothing until it is restarted, but for the default ones, which begin anew.
//
// A cell is one piece of code on its way through a context: a log of events that grows until its
// end, and can be read from any place while it is kept (the last CELLS_KEPT of a context). It does
// not need its client.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "db/db.h"
#include "sandbox/language.h"
#include "sandbox/sandbox.h"

enum {
    CONTEXTS_MAX = 256, // of one sandbox
    CELL_QUEUE_MAX = 64,
    CELLS_KEPT = 8,
    CELL_CODE_MAX = 4 * 1024 * 1024,
    CELL_OUTPUT_MAX = 32 * 1024 * 1024, // of one cell, streams and representations together; the
                                        // rest is read and dropped, and the end says so
    CELL_SHOWN_MAX = 10000,             // representations of one cell: they are all in one answer
    CELL_TIMEOUT_MS = 60000,
    CELL_GRACE_MS = 2000, // after an interrupt, before the kernel is killed
};

struct context; // lent: as long as the sandbox has it; look it up again by its id after waiting
struct cell;    // counted

enum context_status {
    CONTEXT_STARTING,
    CONTEXT_IDLE,
    CONTEXT_BUSY,
    CONTEXT_DEAD, // its kernel has ended: context_info.end says how
};

struct context_info {
    const char *id;
    const struct language *language;
    const char *cwd; // as it was made
    enum context_status status;
    enum end_reason end;    // with CONTEXT_DEAD
    const char *end_detail; // "sleep", "exit code 3", "protocol", ...; NULL: nothing more
    bool is_default;
    int64_t timeout_ms; // of a cell that names none
    uint64_t count;     // cells run by its kernel
    unsigned queued;    // cells that wait
    const char *cell;   // the id of the one that runs, or NULL
    int64_t created_ms, used_ms;
    int pid; // of its kernel in the box, 0: none
};

struct context_settings {
    const char *id; // NULL: made up
    const struct language *language;
    const char *cwd; // NULL: /workspace
    const char *env; // JSON object of strings; NULL: none
    int64_t timeout_ms;
};

// Exactly one of c and err.
typedef void (*context_fn)(void *data, struct context *c, const struct err *err);

// All of these but find, each and info want a sandbox that runs. ERR_EXHAUSTED: too many.
// ERR_UNSUPPORTED: the image has not got the language; err->msg says what to add. ERR_INVALID: no
// such directory; or a language of single cells, which has no contexts.
void context_create(struct sandbox *s, const struct context_settings *settings, context_fn fn,
                    void *data);
struct context *context_find(struct sandbox *s, const char *id, struct err *err);
void context_each(struct sandbox *s, void (*fn)(void *data, struct context *c), void *data);
void context_info(const struct context *c, struct context_info *ret);
int context_delete(struct context *c, struct err *err); // kills its kernel; its cells end, killed
int context_interrupt(struct context *c, struct err *err); // ERR_CONFLICT: it runs nothing
// A new kernel, with nothing of the old one. What ran or waited in it ends, killed.
void context_restart(struct context *c, context_fn fn, void *data);

// --- cells

struct cell_request {
    const char *code;
    size_t len;
    const char *context;             // id; or NULL and
    const struct language *language; // the default context of this one, made if need be
    int64_t timeout_ms;              // 0: the context's
    const char *env;                 // JSON object for this cell alone; NULL: none
};

// Puts it into its context's queue. Exactly one of cell and err: ERR_CONFLICT when the context is
// dead, ERR_EXHAUSTED when too many wait. The cell is lent for the call: whoever keeps it takes a
// reference.
typedef void (*cell_fn)(void *data, struct cell *cell, const struct err *err);
void cell_run(struct sandbox *s, const struct cell_request *request, cell_fn fn, void *data);
struct cell *cell_find(struct sandbox *s, const char *id, struct err *err);
struct cell *cell_ref(struct cell *cell);
void cell_unref(struct cell *cell); // takes NULL
const char *cell_id(const struct cell *cell);
const char *cell_context(const struct cell *cell); // its id; NULL: a language without contexts
const struct language *cell_language(const struct cell *cell);
void cell_code(const struct cell *cell, const char **ret, size_t *ret_len);
void cell_cancel(struct cell *cell); // taken out of the queue, or interrupted and then killed

enum cell_event_type {
    CELL_STDOUT, // bytes
    CELL_STDERR,
    CELL_RESULT, // JSON, as kernels/PROTOCOL.md has it; checked to be an object of known fields
    CELL_DISPLAY,
    CELL_ERROR,
    CELL_END, // the last one; cell_end tells
};

struct cell_event {
    enum cell_event_type type;
    const char *bytes; // lent until the next call into this room
    size_t len;
    size_t total; // of the whole event: more than `len` of a part
};

// The event at place `n`, from 0. 1, 0 when it has not happened yet, -1 and err.
int cell_event(struct cell *cell, uint64_t n, struct cell_event *ret, struct err *err);
// The same, but only the bytes from `at` on, and at most `max` of them.
int cell_event_part(struct cell *cell, uint64_t n, size_t at, size_t max, struct cell_event *ret,
                    struct err *err);

struct cell_end {
    bool success; // it came to its end without an error
    // "done", "error"; "timeout", "interrupted" (its context lives); "exit", "signal", "killed",
    // "oom", "box_lost", "protocol" (it is dead). A timeout that had to kill has context_died.
    const char *reason;
    bool context_died;
    bool truncated;
    uint64_t count;      // executionCount; 0: it was never begun
    int64_t duration_ns; // from its beginning, not from when it was queued
    struct err err;      // with context_died, or never begun: what happened, in words
};
bool cell_has_ended(const struct cell *cell);
// It was begun before the daemon was started again: what it wrote and showed until then is lost,
// and its events begin at 0 once more.
bool cell_is_rest(const struct cell *cell);
const struct cell_end *cell_end(const struct cell *cell);

// `fn` is called, from the loop, whenever events have been added. One that is freed is not called.
struct cell_follower;
struct cell_follower *cell_follow(struct cell *cell, void (*fn)(void *data), void *data);
void cell_follower_free(struct cell_follower *follower);

// --- for the fleet

struct contexts;                         // of one sandbox
void contexts_adopt(struct sandbox *s);  // after a restart of the daemon: rows and jobs
void contexts_forget(struct sandbox *s); // the box is gone, or the sandbox leaves memory
void contexts_lost(struct fleet *fleet,
                   int64_t sandbox); // rows with a kernel, of a box that is gone
