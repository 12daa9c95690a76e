// SPDX-License-Identifier: Apache-2.0
// TLS as a client, on a descriptor that belongs to the caller (OpenSSL). The server's certificate
// must be for the name that was asked for, and lead to one that the machine trusts, or that the
// installation's own file has. The loop's thread; nothing blocks.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct tls_client; // settings: one for all connections
struct tls;        // a connection

int tls_client_open(const char *ca_file, struct tls_client **ret, struct err *err); // "": none
void tls_client_close(struct tls_client *client);

// NULL: no memory. `host` is a canonical name or address.
struct tls *tls_new(struct tls_client *client, int fd, const char *host);
void tls_free(struct tls *tls);
// As read(2) and write(2): bytes, 0 at the end, -EAGAIN, or -errno (-EPROTO: tls_error says why).
// The handshake happens in them. A stream that ends without TLS's own end is an error: -ECONNRESET.
ssize_t tls_read(struct tls *tls, void *data, size_t len);
ssize_t tls_write(struct tls *tls, const void *data, size_t len);
int tls_waits_for(const struct tls *tls);     // UV_READABLE or UV_WRITABLE, after -EAGAIN
const char *tls_error(const struct tls *tls); // "" when there was none
