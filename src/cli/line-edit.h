// SPDX-License-Identifier: Apache-2.0
// Editing a text of one or more lines, without a terminal: bytes go in as keys send them, and what
// they did comes out; line_draw says what a terminal must be sent to show it. The text is always
// well-formed UTF-8 of at most LINE_TEXT_MAX bytes and the cursor stands between two characters,
// whatever comes in. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "cli/history.h"

enum {
    LINE_TEXT_MAX = 4 * 1024 * 1024,
    LINE_QUERY_MAX = 256,
    LINE_SEQUENCE_MAX = 16,
};

enum line_state {
    LINE_EDITING,
    LINE_ENTERED,   // it is complete
    LINE_CANCELLED, // Ctrl-C
    LINE_ENDED,     // Ctrl-D where there is nothing
    LINE_CLEARED,   // Ctrl-L: the screen shall be empty but for it
    LINE_STOPPED,   // Ctrl-Z
};

struct line_edit {
    struct buf text;
    size_t at; // the cursor
    struct buf killed;
    enum line_state state;
    // of a key or character that has not come in whole
    char sequence[LINE_SEQUENCE_MAX];
    size_t n_sequence;
    bool pasting;
    // what was typed before, and the place in it: 0 is our own text, 1 the newest
    const struct history *history;
    size_t nth;
    struct buf own;
    // looking for something in it
    bool searching;
    struct buf query;
    size_t found; // 0: nothing
    // Whether Enter begins another line.
    bool (*is_incomplete)(void *data, const char *text, size_t len);
    void *data;
};

void line_init(struct line_edit *line, const struct history *history);
void line_done(struct line_edit *line);
void line_restart(struct line_edit *line); // empty
// One more byte. What it has come to; the next call goes on editing.
enum line_state line_feed(struct line_edit *line, char byte);

// --- showing it (line-draw.c)

struct line_view {
    const char *prompt, *more; // before the first line, and the others
    unsigned cols, rows;       // of the terminal
    size_t cursor_row;         // where the last drawing has left the cursor, below its top
};
// Appends what draws the text over the last drawing; with `whole` all of it, however long, with the
// cursor behind it.
void line_draw(const struct line_edit *line, struct line_view *view, bool whole, struct buf *out);
