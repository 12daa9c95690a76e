// SPDX-License-Identifier: Apache-2.0
// Bytes out of a descriptor, read ahead by a thread of its own, which undoes zstd on the way if
// that is what they are.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct source;

// At most `max` bytes come out of it. The descriptor stays the caller's.
struct source *source_new(int fd, uint64_t max, struct err *err);
void source_free(struct source *source);
// 1 and bytes that stay until the next call, 0 at the end, or -1.
int source_next(struct source *source, const void **ret, size_t *ret_len, struct err *err);
