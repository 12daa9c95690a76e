// SPDX-License-Identifier: Apache-2.0
// Reads a setting out of the text of a .env file: lines of NAME=value, with "export " before it if
// need be, comments, and quotes. Nothing is run, and no variable put in: a value is what is written
// there. No state.
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

// Appends the value of the last line that sets `name`. 1; 0 when there is none; -1 when that line
// cannot be read, or the value does not fit. Other lines are nobody's business here.
int env_file_get(const char *text, size_t len, const char *name, struct buf *ret, struct err *err);
