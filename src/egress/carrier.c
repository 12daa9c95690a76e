// SPDX-License-Identifier: Apache-2.0
#include "egress/carrier.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egress/scan.h"

enum { READ_SIZE = 16 * 1024 };

struct carrier {
    unsigned refs;
    char error[160];
    int fd;
    struct tls *tls;
    void (*found)(void *data);
    void *data;
    int waits_for;
    struct scan *scan;
    bool has_patterns;
    uint8_t known[crypto_generichash_BYTES_MIN]; // a hash of the credential that is looked for
    bool eof;
    int failed; // -errno, for ever
    // The header line, and, once the request line has come, that with it: on its way out.
    char *line;
    size_t line_len;
    char *out;
    size_t out_len, out_at;
};

struct carrier *carrier_new(int fd, struct tls *tls, void (*found)(void *data), void *data)
{
    struct carrier *c = calloc(1, sizeof *c);
    if (c == NULL)
        abort();
    *c = (struct carrier){
        .refs = 2, .fd = fd, .tls = tls, .found = found, .data = data, .scan = scan_new()};
    return c;
}

static void wipe(char **text, size_t *len)
{
    if (*text != NULL)
        sodium_memzero(*text, *len);
    free(*text);
    *text = NULL;
    *len = 0;
}

static void unref(struct carrier *c)
{
    if (--c->refs == 0)
        free(c);
}

static void carrier_close(void *stream)
{
    struct carrier *c = stream;
    if (c->tls != NULL)
        (void)snprintf(c->error, sizeof c->error, "%s", tls_error(c->tls));
    tls_free(c->tls);
    c->tls = NULL;
    scan_free(c->scan);
    c->scan = NULL;
    wipe(&c->line, &c->line_len);
    wipe(&c->out, &c->out_len);
    unref(c);
}

void carrier_unref(struct carrier *c)
{
    if (c == NULL)
        return;
    c->found = NULL;
    unref(c);
}

// A pair of user and password may come back decoded, and the password alone.
static void look_for_basic(struct scan *scan, const char *text, size_t len)
{
    size_t size = len, n = 0;
    unsigned char *plain = malloc(size);
    if (plain == NULL)
        abort();
    if (sodium_base642bin(plain, size, text, len, NULL, &n, NULL, sodium_base64_VARIANT_ORIGINAL) ==
        0) {
        const unsigned char *colon = memchr(plain, ':', n);
        scan_add(scan, plain, n);
        if (colon != NULL)
            scan_add(scan, colon + 1, n - (size_t)(colon + 1 - plain));
    }
    sodium_memzero(plain, size);
    free(plain);
}

static void hash_of(const struct secret *secret, uint8_t ret[crypto_generichash_BYTES_MIN])
{
    (void)crypto_generichash(ret, crypto_generichash_BYTES_MIN, (const uint8_t *)secret->value,
                             secret->value_len, NULL, 0);
}

bool carrier_knows(const struct carrier *c, const struct secret *secret)
{
    uint8_t hash[crypto_generichash_BYTES_MIN];
    hash_of(secret, hash);
    return c->has_patterns && sodium_memcmp(hash, c->known, sizeof hash) == 0;
}

static void look_for(struct carrier *c, const struct secret *secret)
{
    const char *text = secret->value;
    size_t len = secret->value_len;
    if (c->has_patterns)
        return;
    c->has_patterns = true;
    hash_of(secret, c->known);
    if (secret->credential_len > 0) {
        text += secret->credential_at;
        len = secret->credential_len;
    }
    scan_add(c->scan, text, len);
    if (secret->basic)
        look_for_basic(c->scan, text, len);
}

void carrier_arm(struct carrier *c, const struct secret *secret, bool is_head)
{
    size_t name = strlen(secret->header);
    look_for(c, secret);
    scan_request(c->scan, is_head);
    wipe(&c->line, &c->line_len);
    c->line_len = name + 2 + secret->value_len + 2;
    c->line = malloc(c->line_len);
    if (c->line == NULL)
        abort();
    (void)memcpy(c->line, secret->header, name);
    (void)memcpy(c->line + name, ": ", 2);
    (void)memcpy(c->line + name + 2, secret->value, secret->value_len);
    (void)memcpy(c->line + c->line_len - 2, "\r\n", 2);
}

const char *carrier_error(const struct carrier *c)
{
    return c->tls != NULL ? tls_error(c->tls) : c->error;
}

// --- the bytes below

static ssize_t raw_write(struct carrier *c, const void *data, size_t len)
{
    ssize_t n;
    if (c->tls != NULL) {
        n = tls_write(c->tls, data, len);
        if (n == -EAGAIN)
            c->waits_for = tls_waits_for(c->tls);
        return n;
    }
    n = sendto(c->fd, data, len, MSG_NOSIGNAL, NULL, 0);
    if (n >= 0)
        return n;
    c->waits_for = UV_WRITABLE;
    return errno == EINTR ? -EAGAIN : -errno;
}

static ssize_t raw_read(struct carrier *c, void *data, size_t len)
{
    ssize_t n;
    if (c->tls != NULL) {
        n = tls_read(c->tls, data, len);
        if (n == -EAGAIN)
            c->waits_for = tls_waits_for(c->tls);
        return n;
    }
    n = read(c->fd, data, len);
    if (n >= 0)
        return n;
    c->waits_for = UV_READABLE;
    return errno == EINTR ? -EAGAIN : -errno;
}

// --- out

static int flush(struct carrier *c)
{
    while (c->out != NULL && c->out_at < c->out_len) {
        ssize_t n = raw_write(c, c->out + c->out_at, c->out_len - c->out_at);
        if (n < 0)
            return (int)n;
        c->out_at += (size_t)n;
    }
    wipe(&c->out, &c->out_len);
    c->out_at = 0;
    return 0;
}

// The request line and the header that goes behind it. What follows pushes them out.
static size_t take_line(struct carrier *c, const char *data, size_t len)
{
    const char *end = memchr(data, '\n', len);
    size_t first = end != NULL ? (size_t)(end + 1 - data) : len;
    c->out_len = first + (end != NULL ? c->line_len : 0);
    c->out = malloc(c->out_len);
    if (c->out == NULL)
        abort();
    (void)memcpy(c->out, data, first);
    if (end != NULL) {
        (void)memcpy(c->out + first, c->line, c->line_len);
        wipe(&c->line, &c->line_len);
    }
    return first;
}

static ssize_t carrier_write(void *stream, const void *data, size_t len)
{
    struct carrier *c = stream;
    const char *at = data;
    size_t done = 0;
    ssize_t n = c->failed;
    while (n >= 0 && done < len) {
        n = flush(c);
        if (n == 0 && c->line != NULL)
            n = (ssize_t)take_line(c, at + done, len - done);
        else if (n == 0)
            n = raw_write(c, at + done, len - done);
        if (n > 0)
            done += (size_t)n;
    }
    return done > 0 && (n > 0 || n == -EAGAIN) ? (ssize_t)done : n;
}

// --- in

static ssize_t carrier_read(void *stream, void *data, size_t len)
{
    struct carrier *c = stream;
    char fresh[READ_SIZE];
    while (c->failed == 0 && !c->eof && scan_is_empty(c->scan)) {
        ssize_t n = raw_read(c, fresh, sizeof fresh);
        if (n == -EAGAIN)
            return n;
        if (n == 0) {
            c->eof = true;
            scan_end(c->scan);
        } else {
            c->failed = n < 0 ? (int)n : scan_put(c->scan, fresh, (size_t)n);
        }
        if (c->failed == -EPERM && c->found != NULL)
            c->found(c->data);
    }
    sodium_memzero(fresh, sizeof fresh);
    size_t n = c->failed == -EPERM ? 0 : scan_take(c->scan, data, len);
    if (n > 0)
        return (ssize_t)n;
    return c->failed;
}

static int carrier_waits_for(void *stream)
{
    struct carrier *c = stream;
    return c->waits_for;
}

const struct stream_ops carrier_ops = {
    .read = carrier_read,
    .write = carrier_write,
    .waits_for = carrier_waits_for,
    .close = carrier_close,
};
