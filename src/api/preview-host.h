// SPDX-License-Identifier: Apache-2.0
// Names of previews: "3000-SLUG-TOKEN.localhost:8787" is port 3000 of the sandbox with that slug,
// for whoever has that token. Read in one form only: a port without zeros before it, a token of
// lower-case letters and digits. No state, any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    PREVIEW_SLUG_MAX = 40,
    PREVIEW_TOKEN_MIN = 8,
    PREVIEW_TOKEN_MAX = 16,
    PREVIEW_DOMAIN_MAX = 60, // a whole name fits into what is seen of a request before it is read
};

struct preview_name {
    uint16_t port;
    char slug[PREVIEW_SLUG_MAX + 1];
    char token[PREVIEW_TOKEN_MAX + 1];
};

enum preview_host {
    PREVIEW_NONE, // not of our domain, or the domain itself: the API answers
    PREVIEW_BAD,  // looks like a preview, and is none: nobody does
    PREVIEW_GOOD,
};

// `host`: a Host header, with its port or without. `domain`: without one, lower case.
enum preview_host preview_read_host(const char *host, const char *domain, struct preview_name *ret);
bool preview_read_port(const char *text, size_t len, uint16_t *ret); // "80"; not "080", "+80"
bool preview_token_valid(const char *token);
bool preview_token_same(const char *a, const char *b); // takes as long, wherever they differ
void preview_token_make(char ret[PREVIEW_TOKEN_MAX + 1]);

// Where previews are, as others see it.
struct preview_where {
    char domain[PREVIEW_DOMAIN_MAX + 1]; // lower case
    char port[8];                        // ":8787", or "" where it goes without saying
    bool tls;                            // something in front does that
};

// `domain`: the setting, "HOST" or "HOST:PORT". `port`: where the server listens.
int preview_where_read(struct preview_where *ret, const char *domain, uint16_t port, bool proxied,
                       struct err *err);
void preview_write_url(const struct preview_where *where, uint16_t port, const char *slug,
                       const char *token, struct buf *ret);
