// SPDX-License-Identifier: Apache-2.0
// The stage: the small read-only tree that is the root of a spawner and of every box before it has
// its own. It holds what boxes share: dev/ with the harmless device nodes, sys/ with a few made-up
// files instead of the machine's, empty/ for masks, and the mount points that src/guest/boot.c
// names.
#pragma once

#include "base/err.h"

// Makes it as a detached mount; the caller owns the descriptor.
int stage_make(struct err *err);
