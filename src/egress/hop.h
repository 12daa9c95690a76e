// SPDX-License-Identifier: Apache-2.0
// A connection to a host, made safely: its name is resolved here, once, every address is checked,
// and what is connected to is one of those that were: there is no second look-up in between that
// could answer differently. The loop's thread.
#pragma once

#include <stdint.h>

#include "egress/policy.h"
#include "egress/resolve.h"

// Which addresses may be connected to.
struct hop_rules {
    const struct networks *opened;
    bool only_opened;            // nothing but what the installation has opened
    bool trusted;                // the installation's own upstream: any address but the next
    struct sockaddr_storage own; // where this daemon listens (family 0: nowhere): never
};

struct hop;
// The descriptor is connected, non-blocking and the callee's. -1 and err: ERR_DENIED where no
// address may be connected to, ERR_UNAVAILABLE for what went wrong otherwise. Exactly once, later.
typedef void (*hop_fn)(void *data, int fd, const struct err *err);

// `host` is canonical (policy_host), and was allowed.
struct hop *hop_start(uv_loop_t *loop, struct resolve_line *line, const struct hop_rules *rules,
                      const char *host, uint16_t port, hop_fn fn, void *data);
void hop_cancel(struct hop *hop); // not called back any more

// Keeps those addresses that may be connected to. How many; for none *ret_why.
unsigned hop_filter(struct addresses *addresses, const struct hop_rules *rules, uint16_t port,
                    const char **ret_why);
