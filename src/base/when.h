// SPDX-License-Identifier: Apache-2.0
// Moments as people and programs write them. No state, any thread.
#pragma once

#include <stdint.h>

#include "base/err.h"

// Milliseconds since 1970: "1794787200000", "2026-11-16", "2026-11-16T10:30:00.5Z",
// "2026-11-16 10:30+02:00"; without a zone it is UTC. The whole text, from 1970 to 9999, or
// ERR_INVALID with a message that says what would do.
int when_parse(const char *text, int64_t *ret_ms, struct err *err);
