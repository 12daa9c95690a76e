// SPDX-License-Identifier: Apache-2.0
// Bytes into a zstd stream with a checksum, compressed by threads of its own, into a descriptor.
#pragma once

#include <stddef.h>

#include "base/err.h"

struct squeeze;

struct squeeze *squeeze_new(int fd, unsigned threads, struct err *err); // the caller's descriptor
void squeeze_free(struct squeeze *s);
// 0 or -errno: of the descriptor; -EIO of the library.
int squeeze_add(struct squeeze *s, const void *data, size_t len);
int squeeze_end(struct squeeze *s);
