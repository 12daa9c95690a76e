// SPDX-License-Identifier: Apache-2.0
// What fork.c leaves to fork-child.c.
#pragma once

#include "sandbox/sandbox-internal.h"
#include "sandbox/snapshot.h"

// Rows of `request->count` children, to be added: as the source is, with that environment. What was
// filled is the caller's, also when it fails: an id that is none, or that somebody has.
int fork_fill_rows(struct sandbox *s, const struct fork_request *request, const char *env,
                   struct sandbox_row *rows, struct err *err);
