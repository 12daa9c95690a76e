// SPDX-License-Identifier: Apache-2.0
// `cay repl` in parts: the conversation (repl.c), its own commands (repl-command.c), and reading a
// cell, from a terminal (repl-prompt.c) or line by line (repl-lines.c).
#pragma once

#include <stdbool.h>

#include "cli/code.h"
#include "cli/history.h"
#include "cli/lang.h"
#include "cli/line-edit.h"

enum { REPL_SAVED_MAX = 16 * 1024 * 1024 };

struct repl {
    struct code_place place;
    struct code_run run;
    const struct lang *lang;
    struct history history;
    struct buf saved; // the cells that ran well
    bool is_tty;      // somebody is there to be told things
    bool is_over;
    int exit_code; // of the last cell
};

// Runs one cell, or a command of ours such as ":help", and says what the reader should know of it.
void repl_take(struct repl *repl, const char *text, size_t len);
void repl_cell(struct repl *repl, const char *code, size_t len);
// Whether it was a command.
bool repl_command(struct repl *repl, const char *text, size_t len);

// --- from a terminal

struct prompt {
    struct line_edit line;
    struct line_view view;
    struct buf typed; // and not looked at yet
};
void prompt_init(struct prompt *prompt, const struct history *history);
void prompt_done(struct prompt *prompt);
// LINE_ENTERED: prompt->line.text is it. LINE_CANCELLED, LINE_ENDED.
enum line_state prompt_read(struct prompt *prompt, const struct lang *lang);

// --- line by line

// Until the end of standard input, or repl->is_over.
void repl_lines(struct repl *repl);
