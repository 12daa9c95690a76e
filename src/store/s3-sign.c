// SPDX-License-Identifier: Apache-2.0
#include "store/s3-sign.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/sha256.h"

void s3_encode(struct buf *to, const char *text, bool is_path)
{
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if ((c < 0x80 && isalnum(c)) || strchr("-._~", c) != NULL || (is_path && c == '/'))
            (void)buf_append_char(to, (char)c);
        else
            (void)buf_printf(to, "%%%02X", c);
    }
}

static void mac(const void *key, size_t key_len, const char *text, uint8_t ret[32])
{
    unsigned len = 32;
    if (HMAC(EVP_sha256(), key, (int)key_len, (const unsigned char *)text, strlen(text), ret,
             &len) == NULL)
        abort();
}

// Each step's result is the key of the next: day, region, service, what it is for.
static void make_key(const struct s3_signed *request, const char *day, uint8_t ret[32])
{
    const char *const steps[] = {day, request->region, "s3", "aws4_request"};
    char first[256];
    int len = snprintf(first, sizeof first, "AWS4%s", request->secret_key);
    uint8_t key[32];
    mac(first, (size_t)len < sizeof first ? (size_t)len : sizeof first - 1, steps[0], key);
    for (unsigned i = 1; i < 4; i++) {
        mac(key, sizeof key, steps[i], ret);
        memcpy(key, ret, sizeof key);
    }
    explicit_bzero(first, sizeof first);
    explicit_bzero(key, sizeof key);
}

static void append_names(struct buf *to, const struct s3_signed *request)
{
    for (unsigned i = 0; i < request->n_fields; i++)
        (void)buf_printf(to, "%s%s", i > 0 ? ";" : "", request->fields[i].name);
}

static void hash_request(const struct s3_signed *request, char ret[65])
{
    auto_buf text;
    uint8_t sha[32];
    buf_init(&text, 64 * 1024);
    (void)buf_printf(&text, "%s\n%s\n%s\n", request->method, request->path, request->query);
    for (unsigned i = 0; i < request->n_fields; i++)
        (void)buf_printf(&text, "%s:%s\n", request->fields[i].name, request->fields[i].value);
    (void)buf_append_char(&text, '\n');
    append_names(&text, request);
    (void)buf_printf(&text, "\n%s", request->payload);
    sha256_of(buf_str(&text), text.len, sha);
    sha256_hex(sha, ret);
}

void s3_sign(const struct s3_signed *request, struct buf *ret)
{
    char hashed[65], day[9], scope[128], text[512], signature[65];
    uint8_t key[32], result[32];
    hash_request(request, hashed);
    (void)snprintf(day, sizeof day, "%.8s", request->when);
    (void)snprintf(scope, sizeof scope, "%s/%.80s/s3/aws4_request", day, request->region);
    (void)snprintf(text, sizeof text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", request->when, scope, hashed);
    make_key(request, day, key);
    mac(key, sizeof key, text, result);
    explicit_bzero(key, sizeof key);
    sha256_hex(result, signature);
    (void)buf_printf(ret, "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=", request->access_key,
                     scope);
    append_names(ret, request);
    (void)buf_printf(ret, ",Signature=%s", signature);
}
