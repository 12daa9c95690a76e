// SPDX-License-Identifier: Apache-2.0
// A connection to the upstream of a secret, as an exchange uses it (stream_ops). The credential is
// put in here, on the last step: behind the request line of each request goes the header that the
// owner has laid ready, so that the exchange and its buffers never hold it. And what comes back is
// looked through for it (scan.h). The loop's thread.
#pragma once

#include "egress/secret.h"
#include "egress/tls.h"
#include "h1/exchange.h"

struct carrier;

extern const struct stream_ops carrier_ops; // of which a carrier is the stream

// `tls` NULL: plain. Taken. `found` is called when the credential was found in an answer. It
// belongs to its stream, which closes it, and to the caller, who can still ask what went wrong.
struct carrier *carrier_new(int fd, struct tls *tls, void (*found)(void *data), void *data);
void carrier_unref(
    struct carrier *carrier); // the caller's part; takes NULL. Not called back any more
// Before each request is forwarded: what shall stand behind its first line.
void carrier_arm(struct carrier *carrier, const struct secret *secret, bool is_head);
// Whether it looks for this very credential: a connection that has carried another one does not.
bool carrier_knows(const struct carrier *carrier, const struct secret *secret);
const char *carrier_error(const struct carrier *carrier); // of TLS; "" when there was none
