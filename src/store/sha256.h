// SPDX-License-Identifier: Apache-2.0
// SHA-256 as it comes along. OpenSSL's: it has the processor do it.
#pragma once

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sha256 {
    EVP_MD_CTX *ctx;
};

bool sha256_init(struct sha256 *sha); // false: no memory
void sha256_add(struct sha256 *sha, const void *data, size_t len);
void sha256_end(struct sha256 *sha, uint8_t ret[32]); // once
void sha256_done(struct sha256 *sha);                 // also of what is all zeros

#define auto_sha256 __attribute__((cleanup(sha256_done))) struct sha256

void sha256_of(const void *data, size_t len, uint8_t ret[32]);
void sha256_hex(const uint8_t sha[32], char ret[65]);
bool sha256_from_hex(const char *hex, uint8_t ret[32]); // 64 digits and nothing else
