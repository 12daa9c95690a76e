// SPDX-License-Identifier: Apache-2.0
// Files that commands remember things in: below $XDG_STATE_HOME/cay, else ~/.local/state/cay, for
// their owner alone.
#pragma once

#include <stddef.h>

enum { STATE_PATH_MAX = 4096 };

// The path of the file of this name. -1 when this user has no place for such things.
int state_path(char ret[STATE_PATH_MAX], const char *name);
// Makes the directories that its path lacks. 0 or -errno.
int state_make_directories(char *path);
// Opens it with these flags, and O_CREAT if they have it; never a link, nor what is not a file of
// ours (-EPERM). The caller's descriptor, or -errno.
int state_open(const char *path, int flags);
// Puts these bytes in its place: written beside it and moved over it, so that there is always a
// whole one. 0 or -errno.
int state_write(const char *path, const void *bytes, size_t len);
