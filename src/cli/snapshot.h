// SPDX-License-Identifier: Apache-2.0
// Snapshots by the names that people give them: the server knows them by their ids.
#pragma once

#include "cli/remote.h"

// The id of the newest snapshot of that name; a word that is an id, or no name of any, as it is.
int snapshot_id(struct remote *remote, const char *sandbox, const char *word, struct buf *ret,
                struct err *err);
