// SPDX-License-Identifier: Apache-2.0
// A line on standard error that shows that something is waited for, and for how long: only on a
// terminal, only when it takes more than a moment, and gone before anything else is written. It is
// drawn when its owner, who waits on `spinner_fd` among others, calls spinner_tick. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct spinner {
    int timer; // -1: there is nobody to show it to
    bool is_running, is_drawn, utf8;
    const char *text; // lent
    unsigned frame;
    int64_t since_ns;
};

void spinner_init(struct spinner *spinner, bool wanted);
void spinner_done(struct spinner *spinner);    // takes one that is all zero
int spinner_fd(const struct spinner *spinner); // readable when it wants to be drawn; -1: never
// `text`: what is waited for. One that runs with the same text goes on.
void spinner_start(struct spinner *spinner, const char *text);
void spinner_stop(struct spinner *spinner); // wipes it
void spinner_tick(struct spinner *spinner);
