// SPDX-License-Identifier: Apache-2.0
// The data directory: everything that Cay keeps on this machine lies below it. It is 0711, so that
// the unprivileged daemon reaches its own part by name; what only root may see is closed one level
// down (images/ is 0700).
#pragma once

#include "base/err.h"

#define DATA_DEFAULT "/var/lib/cay"

// The path that counts: `path` when not NULL, else the variable CAY_DATA, else DATA_DEFAULT.
const char *data_path(const char *path);

// Opens the directory, and makes it when only its last component is missing. The caller owns the
// descriptor. Refuses a directory that somebody else owns or may write to: who can swap names in it
// can swap the roots that boxes run on.
int data_open(const char *path, struct err *err);
