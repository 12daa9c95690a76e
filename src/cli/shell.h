// SPDX-License-Identifier: Apache-2.0
// The terminal that `cay shell` stands in (shell-tty.c): raw mode, its size, signals, and the keys
// that are for us. One in a program; it is put back as it was on every way out, also by signals.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

int tty_open(struct err *err); // catches signals; still in its own mode
void tty_raw(bool on);
// Readable when a signal came. tty_signal says which one: SIGWINCH, SIGTSTP (it is seen to here,
// and told as SIGWINCH afterwards), or one that ends us. 0: none.
int tty_wake_fd(void);
int tty_signal(void);
void tty_size(unsigned *ret_cols, unsigned *ret_rows);

// Reads keys and appends what is for the program. Ctrl-] and then d: detach; Ctrl-] twice is one.
enum tty_keys { TTY_KEYS, TTY_DETACH, TTY_GONE };
enum tty_keys tty_read(struct buf *ret);
// What a program shows goes to it. -1: it is gone.
int tty_show(const char *bytes, size_t len);
// Takes back what a program has set and would have reset at its end.
void tty_calm(void);
