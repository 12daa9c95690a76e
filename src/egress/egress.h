// SPDX-License-Identifier: Apache-2.0
// The way out of a box. For every running sandbox whose network is not "none", or that may use
// secrets, there are listeners in its network namespace (sandbox/reach.h). What they accept is
// decided here, by policy.h, at once when a policy is changed; every name is resolved here, its
// addresses are checked, and the checked one is connected to. All on the loop's thread but for the
// moving of bytes (move/move.h) and the resolver.
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/err.h"
#include "egress/secret.h"
#include "model/keys.h"
#include "move/move.h"
#include "sandbox/sandbox.h"

struct egress;

struct egress_config {
    uv_loop_t *loop;
    struct fleet *fleet;
    struct mover *mover;
    struct secrets *secrets;
    struct model_keys *keys; // the installation's own, for models; NULL: none. Lives longer
    const char *opened;      // networks that the installation opens; "": none
    const char *ca_file;     // certificates to trust beside the machine's; "": none
    int listen_fd;           // where the daemon itself is reached: no box is let there. -1: nowhere
};

// Does not keep the texts. To be called before the fleet tells of its first sandbox: right after
// fleet_open.
int egress_open(const struct egress_config *config, struct egress **ret, struct err *err);
// From now on connections are taken: what boxes ask for has waited until it is known whose work it
// is.
void egress_serve(struct egress *egress);
// Ends all connections. Before the fleet is freed and the mover closed; the loop runs once more.
void egress_close(struct egress *egress);
// A secret was changed or removed: nothing of the old value is used from now on.
void egress_secret_changed(struct egress *egress, int64_t tenant, const char *name);

// Whether a tenant's own upstream may be connected to at this address, by TLS or without: for
// others who connect by themselves.
bool egress_may_connect(struct egress *egress, const struct sockaddr *address, bool tls);
// Whether a sandbox of this tenant may be given "anthropic": it has such a secret, or the
// installation has a key. 1, 0, -1.
int egress_has_model(struct egress *egress, int64_t tenant, struct err *err);

struct egress_stats {
    uint64_t allowed, denied, bytes;
    unsigned open;
};
void egress_stats(const struct egress *egress, struct egress_stats *ret);
// What a sandbox has moved since it was bound, and its open connections: for GET .../stats.
void egress_usage(const struct egress *egress, const struct sandbox *s, uint64_t *ret_bytes,
                  unsigned *ret_open);
