// SPDX-License-Identifier: Apache-2.0
#include "store/sha256.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// The library looks an algorithm up by name each time it is not handed a fetched one, which takes
// longer than hashing a small object.
static EVP_MD *fetched;

static void fetch(void)
{
    fetched = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (fetched == NULL)
        abort();
}

static const EVP_MD *algorithm(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, fetch);
    return fetched;
}

bool sha256_init(struct sha256 *sha)
{
    sha->ctx = EVP_MD_CTX_new();
    return sha->ctx != NULL && EVP_DigestInit_ex2(sha->ctx, algorithm(), NULL) == 1;
}

void sha256_add(struct sha256 *sha, const void *data, size_t len)
{
    if (EVP_DigestUpdate(sha->ctx, data, len) != 1)
        abort();
}

void sha256_end(struct sha256 *sha, uint8_t ret[32])
{
    if (EVP_DigestFinal_ex(sha->ctx, ret, NULL) != 1)
        abort();
}

void sha256_done(struct sha256 *sha)
{
    EVP_MD_CTX_free(sha->ctx);
    sha->ctx = NULL;
}

void sha256_of(const void *data, size_t len, uint8_t ret[32])
{
    if (EVP_Digest(data, len, ret, NULL, algorithm(), NULL) != 1)
        abort();
}

void sha256_hex(const uint8_t sha[32], char ret[65])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        ret[2 * i] = digits[sha[i] >> 4];
        ret[2 * i + 1] = digits[sha[i] & 15];
    }
    ret[64] = '\0';
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool sha256_from_hex(const char *hex, uint8_t ret[32])
{
    uint8_t sha[32];
    if (strnlen(hex, 65) != 64)
        return false;
    for (int i = 0; i < 32; i++) {
        int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        sha[i] = (uint8_t)(high << 4 | low);
    }
    memcpy(ret, sha, sizeof sha);
    return true;
}
