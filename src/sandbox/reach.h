// SPDX-License-Identifier: Apache-2.0
// Sockets in a sandbox's network namespace, made by its guest. The sandbox must run (sandbox_wake).
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "sandbox/sandbox.h"
#include "wire/guest-msg.h"

enum {
    REACH_PROXY_PORT = 3128, // of the egress proxy on the box's loopback
    REACH_DNS_PORT = 53,
};

// A TCP socket connected (or connecting) to 127.0.0.1:port in the box, or to [::1]:port where
// nobody listens on the former; non-blocking, the callee's. ERR_UNAVAILABLE with sys_errno
// ECONNREFUSED: nobody listens. Calls back exactly once, perhaps before it returns.
typedef void (*dial_fn)(void *data, int fd, const struct err *err);
void sandbox_dial(struct sandbox *s, uint16_t port, dial_fn fn, void *data);

// Listeners in the box: TCP on REACH_PROXY_PORT, UDP on REACH_DNS_PORT, both on all addresses of
// the box, non-blocking, the callee's. From now on the box has a route for every IPv4 address, and
// every TCP connection to one that is not loopback comes to the TCP listener too: getsockname of
// what it accepts tells where to. ERR_CONFLICT: a program in the box has one of the ports. Asked
// again, the same listeners come back.
typedef void (*listen_fn)(void *data, int tcp_fd, int udp_fd, const struct err *err);
void sandbox_listen(struct sandbox *s, listen_fn fn, void *data);

// A stream listener at REACH_MODEL_SOCKET in the box's own files, for whoever is in the box;
// non-blocking, the callee's. The guest keeps it: asked again, also by a later daemon, the same one
// comes back, with whoever has connected meanwhile. ERR_UNSUPPORTED: the box is of an older
// version, and gets it with its next wake. Calls back exactly once, perhaps before it returns.
#define REACH_MODEL_SOCKET GUEST_SOCKET_PATH
typedef void (*listen_model_fn)(void *data, int fd, const struct err *err);
void sandbox_listen_model(struct sandbox *s, listen_model_fn fn, void *data);
void sandbox_unlisten_model(struct sandbox *s); // it is gone from the box

// Called when a sandbox gets a box (also one it had before a restart), or loses it, or its network
// settings have changed: the egress side opens and closes its listeners. One for the fleet.
struct reach_events {
    void (*bound)(void *data, struct sandbox *s);
    void (*unbound)(void *data, struct sandbox *s);
    void (*changed)(void *data, struct sandbox *s);
};
void fleet_on_reach(struct fleet *fleet, const struct reach_events *events, void *data);
