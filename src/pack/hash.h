// SPDX-License-Identifier: Apache-2.0
// SHA-256 of contents, by the library, which knows this processor.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/pack-msg.h"

struct hash;

int hash_prepare(struct err *err); // once, while files may still be looked for
struct hash *hash_new(void);       // NULL: no memory
void hash_free(struct hash *hash);
void hash_begin(struct hash *hash); // anew
void hash_add(struct hash *hash, const void *data, size_t len);
void hash_end(struct hash *hash, uint8_t ret[PACK_SHA256]);
