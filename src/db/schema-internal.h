// SPDX-License-Identifier: Apache-2.0
// The tables and their version.
#pragma once

#include "db/db-internal.h"

int schema_migrate(sqlite3 *sql, struct err *err); // ERR_UNSUPPORTED for a newer one
// Writes the version, which changes nothing when it is the same: the smallest write there is.
int schema_stamp(sqlite3 *sql, int64_t version, struct err *err);
// The one number that a query answers.
int schema_int(sqlite3 *sql, const char *query, int64_t *ret, struct err *err);
