// SPDX-License-Identifier: Apache-2.0
// What is asked of a program on a port, and what it answers. No state, any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { PROBE_PATH_MAX = 2048 };

// The number in an answer's first line, as far as it has come: 0 when it is none of HTTP's, -1 when
// there is more to come.
int probe_status(const char *text, size_t len);
// What is asked for: "/a?b=c", printable and without spaces.
bool probe_path_valid(const char *path);
