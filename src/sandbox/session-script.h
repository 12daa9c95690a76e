// SPDX-License-Identifier: Apache-2.0
// What is said to a session's shell, and the script that it runs to understand it.
//
// To the shell, on GUEST_CONTROL_IN: "SEQ[m][x]:TEXT\0". TEXT is the command; with x it is code
// that prepares it (directory, variables, standard input, or the command itself when it is long)
// and may be followed by bytes that this code reads. bash reads a pipe byte by byte up to the NUL,
// so long texts are read by head instead. A message up to its NUL is shorter than a pipe's atomic
// write, so that a daemon that dies leaves none cut off. m: the shell notes which process number
// was given out last.
//
// From the shell, on GUEST_CONTROL_OUT, each ended by a NUL:
//   "R SEQ STATUS DIR"  the command is done; its output is in the pipes
//   "X SEQ"             `exit` was called
//   "M SEQ PID"         the shell ends in a command with m: what it noted
//   "T SEQ STATUS DIR"  the shell ends; SEQ is what it began last. Its state comes as one more text
//   "E SEQ"             NAME=value texts of exported variables follow, up to the R of the same SEQ
// All of it may be forged by the code that runs there: it is believed only about the session.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { SCRIPT_STDIN_MAX = 4 * 1024 * 1024, SCRIPT_COMMAND_MAX = 1024 * 1024 };

extern const char session_script[];

struct script_command {
    uint32_t seq;
    bool mark;
    const char *command;
    const char *cwd;   // NULL: where the shell is
    char *const *envp; // NAME=value, ends with NULL; NULL: none
    const void *stdin_data;
    size_t stdin_len;
};

// Each appends one message. ERR_INVALID for a name that is no shell variable's; ERR_EXHAUSTED when
// the buffer is full.
int script_command(struct buf *out, const struct script_command *c, struct err *err);
// The first one for a new shell: the state of one before it (may be NULL), then the directory.
int script_begin(struct buf *out, uint32_t seq, const char *cwd, const char *state,
                 struct err *err);
int script_exports(struct buf *out, uint32_t seq, struct err *err);

struct script_record {
    char type;
    uint32_t seq;
    int64_t number;   // M: the process; R, T: the status
    const char *text; // R, T: the directory
};
// 0, or -1 when it is none.
int script_parse(const char *text, struct script_record *ret);
