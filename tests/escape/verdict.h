// SPDX-License-Identifier: Apache-2.0
// The runner's side of an attempt: where its notes go, and its directory.
#pragma once

#include <stdbool.h>

// `page` is shared memory of at least DETAIL_MAX bytes that outlives the child. Not owned.
void progress_share(char *page);

bool scratch_make(void);
void scratch_remove(void);
