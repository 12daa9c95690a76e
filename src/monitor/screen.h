// SPDX-License-Identifier: Apache-2.0
// The terminal: opened, drawn on and given back as it was, whatever ends the program. Texts go
// through screen_put alone, which lets nothing through but characters that have a width. One for
// the whole program, on its first thread.
#pragma once

#include <stdbool.h>

#include "base/err.h"

enum screen_style {
    STYLE_PLAIN,
    STYLE_DIM,
    STYLE_BOLD,
    STYLE_TITLE, // the line at the top
    STYLE_HEAD,  // of a table
    STYLE_CHOSEN,
    STYLE_GOOD,
    STYLE_WARN,
    STYLE_BAD,
    STYLE_ALARM, // the line at the top, in trouble
    STYLE_MAX,
};

int screen_open(struct err *err);
void screen_close(void); // may be called twice
void screen_resized(void);
int screen_rows(void);
int screen_cols(void);

void screen_begin(void); // an empty one
void screen_end(void);   // shows what was drawn since
// UTF-8, cut to `width` columns and padded to them.
void screen_put(int row, int col, int width, enum screen_style style, const char *text);
void screen_putf(int row, int col, int width, enum screen_style style, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
void screen_right(int row, int col, int width, enum screen_style style, const char *text);
// A bar that is full at a share of 1; less than 0: not known.
void screen_bar(int row, int col, int width, double share);
void screen_cursor(int row, int col); // shown there until the next screen_begin

// The next key that was pressed (ncurses' KEY_ codes), SCREEN_NO_KEY when there is none.
enum { SCREEN_NO_KEY = -1 };
int screen_key(void);

// How many columns a text takes, as screen_put draws it.
int screen_width(const char *text);
