// SPDX-License-Identifier: Apache-2.0
// What `cay code` and `cay repl` share: the place where cells run, a sandbox of their own unless
// one is named (code-place.c), and one cell on its way from being sent to its end (code-run.c).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/remote.h"
#include "cli/rich.h"

enum {
    CODE_MAX = 4 * 1024 * 1024, // of one cell, as the server has it
    CODE_ID_MAX = 132,
};

// Exit codes of a cell, beside those of cli.h.
enum {
    CODE_CELL_FAILED = 1,
    CODE_TIMEOUT = 124,
    CODE_INTERRUPTED = 130,
    CODE_KILLED = 137,
};

struct code_place {
    struct remote *remote;
    // what was asked for
    const char *image;
    const char *language; // that a new one is for; NULL: not known
    bool keep;
    bool linger; // somebody thinks between two cells: it does not sleep soon
    // where it is
    char sandbox[CODE_ID_MAX];
    bool is_ours; // made here
};

int code_place_name(struct code_place *place, const char *id, struct err *err);
// With `place->sandbox` empty, makes one.
int code_place_open(struct code_place *place, struct err *err);
// Removes what was made here, unless it shall be kept.
void code_place_close(struct code_place *place);

struct code_run {
    struct code_place *place;
    const char *language; // NULL with a context
    const char *context;  // NULL: the language's own
    int64_t timeout_ms;   // 0: the server's
    const struct pairs *env;
    struct rich rich;
    // Signals: readable when one has come, and the one that has.
    int wake_fd;
    int (*take_signal)(void);
    // of the last cell
    char cell[CODE_ID_MAX];
    char seen_context[CODE_ID_MAX]; // that it ran in
    bool interrupted;
    int ended_by;    // the signal that made us give up on it, or 0
    char reason[24]; // "done", "error", "timeout", ...
    uint64_t count;  // of cells that its interpreter has run
    bool state_lost; // its interpreter has ended, or had before it began
};

// Runs it and shows what it gives as it comes. Its exit code; -1 with err when it could not be run,
// or what came of it is not known.
int code_run(struct code_run *run, const char *code, size_t len, struct err *err);
// The whole result at once, as JSON on standard output. As above.
int code_run_json(struct code_run *run, const char *code, size_t len, struct err *err);
// "interrupt" or "restart" of the context that the last cell ran in.
int code_context_do(struct code_run *run, const char *action, struct err *err);
// Reads a file, or standard input for "-", that is code: UTF-8 of at most CODE_MAX bytes.
int code_read(const char *path, struct buf *ret, struct err *err);
