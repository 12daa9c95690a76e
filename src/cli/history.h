// SPDX-License-Identifier: Apache-2.0
// What was typed, newest first, and the file that keeps it: ~/.local/state/cay/history, for its
// owner alone. An entry may have several lines. Bounded. One thread; several programs may add to
// the file at once.
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "cli/state.h"

enum {
    HISTORY_MAX = 1000,             // entries
    HISTORY_ENTRY_MAX = 64 * 1024,  // longer ones are not kept
    HISTORY_FILE_MAX = 1024 * 1024, // what is read of it, from its end
};

struct history {
    char *entries[HISTORY_MAX]; // oldest first
    size_t n;
    char path[STATE_PATH_MAX]; // "": none
};

void history_init(struct history *history);
void history_done(struct history *history);
// The user's own file, if there can be one. Trouble with it is told, and no reason to stop.
int history_open(struct history *history, struct err *err);
// Adds it, here and to the file, unless it is empty, begins with a space or is the newest already.
void history_add(struct history *history, const char *text, size_t len);
const char *history_get(const struct history *history, size_t nth); // from 1, the newest; or NULL
