// SPDX-License-Identifier: Apache-2.0
// Where the names of strangers lead in a directory: name by name, through directories alone, never
// up and never through a link. The way to the last one is kept open, as the next is mostly near.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct place;

struct place *place_new(int top, bool makes, struct err *err); // `top` stays the caller's
void place_free(struct place *place);
void place_own(struct place *place, uint32_t uid,
               uint32_t gid); // whose what it makes is; else root's

// The directory that `path` is in, made as needed if the place makes, and its last name; the
// descriptor stays the place's, and `ret_name` stays until the next call. "" and "." in a path are
// passed over; the path of the top itself gives the name ".".
// -1: ERR_INVALID for a path that leads out or through what is no directory.
int place_find(struct place *place, const char *path, const char **ret_name, struct err *err);
// What is at the path of a directory is another one now.
void place_forget(struct place *place);
