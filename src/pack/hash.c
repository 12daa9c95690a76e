// SPDX-License-Identifier: Apache-2.0
#include "pack/hash.h"

#include <openssl/evp.h>
#include <stdlib.h>

static EVP_MD *method;

struct hash {
    EVP_MD_CTX *ctx;
};

int hash_prepare(struct err *err)
{
    if (method == NULL)
        method = EVP_MD_fetch(NULL, "SHA256", NULL);
    struct hash *hash = method != NULL ? hash_new() : NULL;
    if (hash == NULL)
        return err_set(err, ERR_UNSUPPORTED, "OpenSSL has no SHA-256");
    uint8_t sum[PACK_SHA256];
    hash_begin(hash);
    hash_end(hash, sum); // what it loads late, it loads now
    hash_free(hash);
    return 0;
}

struct hash *hash_new(void)
{
    struct hash *hash = malloc(sizeof *hash);
    if (hash == NULL)
        return NULL;
    hash->ctx = EVP_MD_CTX_new();
    if (hash->ctx == NULL) {
        free(hash);
        return NULL;
    }
    return hash;
}

void hash_free(struct hash *hash)
{
    if (hash == NULL)
        return;
    EVP_MD_CTX_free(hash->ctx);
    free(hash);
}

// These fail without memory only, and a sum that is wrong must not be given out.
static void must(int ok)
{
    if (ok != 1)
        abort();
}

void hash_begin(struct hash *hash)
{
    must(EVP_DigestInit_ex2(hash->ctx, method, NULL));
}

void hash_add(struct hash *hash, const void *data, size_t len)
{
    must(EVP_DigestUpdate(hash->ctx, data, len));
}

void hash_end(struct hash *hash, uint8_t ret[PACK_SHA256])
{
    must(EVP_DigestFinal_ex(hash->ctx, ret, NULL));
}
