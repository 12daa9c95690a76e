// SPDX-License-Identifier: Apache-2.0
// Text for people: tables whose columns are as wide as they must be, and words from elsewhere made
// safe to show. What a server says may come from a stranger, so control characters, and those that
// turn the direction of writing, never reach a terminal from here: they are written out as \x1b or
// \u202e. One thread at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

enum {
    TABLE_COLUMNS_MAX = 12,
    TABLE_BYTES_MAX = 64 * 1024 * 1024, // of all cells; what is more is left out and said
};

struct table_column {
    const char *head;
    bool right; // numbers
};

struct table {
    const struct table_column *columns;
    unsigned n_columns;
    unsigned at;      // the next cell's column
    struct buf cells; // each ended by a NUL, row after row
    size_t width[TABLE_COLUMNS_MAX];
};

void cli_table_init(struct table *table, const struct table_column *columns, unsigned n_columns);
void cli_table_done(struct table *table);

// The next cell, from left to right and then in the next row. NULL or "" is shown as "-".
void cli_table_cell(struct table *table, const char *text);
void cli_table_cellf(struct table *table, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
// -1 when a row is missing, because it did not fit.
int cli_table_print(const struct table *table, FILE *out, bool colour);

// Whether colours may be used there: a terminal, and no NO_COLOR.
bool text_colour(FILE *out);

// Appends it with all that could move a cursor written out. Not UTF-8: \x and the byte.
int text_plain(struct buf *buf, const char *text, size_t len); // 0 or -errno
// The same for a text of lines, which it keeps, and tabs; a CR ends a line, too. `after_cr` lets
// the LF of a CRLF come with the next piece; NULL: there is none.
int text_plain_lines(struct buf *buf, const char *text, size_t len, bool *after_cr);
// The same for a JSON text: written as \u inside its strings, where alone such characters can be.
int text_plain_json(struct buf *buf, const char *text, size_t len);
// How many columns of a terminal it takes.
size_t text_width(const char *text);

// "1.5 GiB", "12s ago", "3m", for at least 24 bytes.
const char *text_size(char *ret, size_t size, uint64_t bytes);
const char *text_ago(char *ret, size_t size, int64_t seconds);
