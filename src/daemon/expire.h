// SPDX-License-Identifier: Apache-2.0
// Rows that have had their time. On the loop's thread.
#pragma once

#include "db/db.h"

// Removes some of what is too old: called again and again it comes to the end of it. Often enough
// is once a minute; between it does nothing.
void expire_rows(struct db *db, int64_t keep_results_ms);
