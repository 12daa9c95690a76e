// SPDX-License-Identifier: Apache-2.0
// Threads beside one that goes through a long list: each does one thing that waits for a store far
// away, and what they did is taken in the order in which it was given. Of that one thread, but for
// what `run` does.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    CREW_MAX = 8,
    CREW_BYTES = 1024 * 1024, // what is larger is better moved by the thread itself, piece by piece
};

struct crew;

struct crew *crew_new(void (*run)(void *item));
bool crew_is_full(const struct crew *crew); // somebody has to be taken before the next is given
void crew_give(struct crew *crew, void *item);
// The one that was given first, when it is done; NULL: there is none.
void *crew_take(struct crew *crew);
void crew_free(struct crew *crew); // all were taken; NULL is fine
