// SPDX-License-Identifier: Apache-2.0
// SHA-512, for what is compared with a sum that stands in a text of ours. `cay` is static and links
// no library of cryptography. No secrets: it does not hide what it hashes.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA512_SIZE = 64, SHA512_BLOCK = 128 };

struct sha512 {
    uint64_t state[8];
    uint64_t len; // bytes so far
    uint8_t block[SHA512_BLOCK];
};

void sha512_init(struct sha512 *sha);
void sha512_add(struct sha512 *sha, const void *data, size_t len);
void sha512_end(struct sha512 *sha, uint8_t ret[SHA512_SIZE]); // then it is used up
