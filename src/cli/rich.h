// SPDX-License-Identifier: Apache-2.0
// Shows what a cell gives, as well as a terminal or a file can: output as its bytes are, results as
// text, pictures as files (and in place, where the terminal can draw them), errors with their
// traceback on standard error. One conversation has one; it owns nothing. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json-in.h"

enum { RICH_CELL_MAX = 132 };

struct rich {
    const char *dir;          // where files go
    char cell[RICH_CELL_MAX]; // the cell that runs, for their names
    unsigned files;           // written for it
    char last[2];             // byte written to standard output and error: 0 or '\n' ends a line
    bool is_unread;           // whoever read has gone, as in `| head`: nothing more is wanted
    // Of code that nobody here has written: nothing that it gives moves the cursor of a terminal.
    bool plain[2]; // standard output, error
    bool after_cr[2];
    bool no_files;    // none are made
    struct buf *held; // standard output is kept here while there is room; NULL: it is not
};

// Another cell begins; `id` may be NULL.
void rich_begin(struct rich *rich, const char *id);
// The event of a stream: its text, as it is.
int rich_output(struct rich *rich, bool is_error, const struct json_node *event, struct err *err);
int rich_text(struct rich *rich, bool is_error, const char *text, size_t len, struct err *err);
// A representation (kernels/PROTOCOL.md): its best form for a reader of text.
int rich_show(struct rich *rich, const struct json_node *representation, struct err *err);
// {"name", "message", "traceback"}
int rich_error(struct rich *rich, const struct json_node *error, struct err *err);
// Ends a line that the cell has left open, where a prompt would follow it.
int rich_end_line(struct rich *rich, struct err *err);

// Writes what was held, and holds no more.
int rich_release(struct rich *rich, struct err *err);

// SIGPIPE must be ignored: what was made for the cell would stay behind.
int rich_write(struct rich *rich, int fd, const void *bytes, size_t len, struct err *err);

// --- pictures (rich-picture.c)

enum picture_way { PICTURE_NONE, PICTURE_KITTY, PICTURE_ITERM };
// What the terminal at standard output can draw, by what it says of itself.
enum picture_way picture_way(void);
// Writes the sequence that draws it. `base64` is known to be well formed.
int picture_draw(struct rich *rich, enum picture_way way, const char *base64, size_t len,
                 struct err *err);
// A file for the cell with this ending, made anew under a free name, and told on standard error.
int picture_save(struct rich *rich, const char *ending, const void *bytes, size_t len,
                 struct err *err);
