// SPDX-License-Identifier: Apache-2.0
// Terminals of a sandbox: a program on a terminal of its own, found by a name. Each is a process
// (process.h) with a byte log, which is what a viewer is shown first and what it falls behind in;
// so it is listed, killed, and taken over by the next daemon as any other. There is one of a name
// at a time; it is made when it is first asked for.
#pragma once

#include "sandbox/process.h"

enum { TERMINAL_SIDE_MAX = 4096 }; // rows or columns

struct terminal_request {
    const char *name;
    const char *shell;   // a program's name or path; NULL: bash, or sh where there is none
    const char *command; // for the shell to run; NULL: whatever is typed
    const char *cwd;     // NULL: that of the session of this name, else /workspace
    uint32_t uid, gid;
    uint16_t rows, cols;
};

// The one of this name, or a new one, in a sandbox that runs. Lent for the call, as by
// process_start. A new one has the directory and the exported variables of the session of its name,
// if there is one (session_ask).
typedef void (*terminal_fn)(void *data, struct process *p, bool created, const struct err *err);
void terminal_open(struct sandbox *s, const struct terminal_request *request, terminal_fn fn,
                   void *data);
struct process *terminal_find(struct sandbox *s, const char *name); // one that runs, or NULL
void terminal_each(struct sandbox *s, void (*fn)(void *data, struct process *p), void *data);

int terminal_set_size(struct process *p, uint16_t rows, uint16_t cols, struct err *err);
void terminal_get_size(const struct process *p, uint16_t *ret_rows,
                       uint16_t *ret_cols); // zeros when it has ended
// Why it has ended: "sleep" and "destroyed" of its sandbox, else as process_row has it.
const char *terminal_end_reason(const struct process *p);

// --- for the fleet

// What they run is told that its terminal is gone: shells do not heed SIGTERM.
void terminals_hang_up(struct sandbox *s);
