// SPDX-License-Identifier: Apache-2.0
// Names to addresses by the machine's own resolver, on a few threads. Whoever asks for many waits
// in a line of its own, so that one sandbox whose names take long does not stop the others'. Asked,
// cancelled and answered on the loop's thread.
#pragma once

#include <sys/socket.h>
#include <uv.h>

#include "base/err.h"

enum { RESOLVE_ADDRESSES_MAX = 16 };

struct resolver;
struct resolve_line; // of one sandbox
struct resolve;      // one question

struct addresses {
    unsigned n;
    struct sockaddr_storage list[RESOLVE_ADDRESSES_MAX]; // port 0
};
// `addresses` NULL: err. Exactly once, later, unless cancelled.
typedef void (*resolve_fn)(void *data, const struct addresses *addresses, const struct err *err);

int resolver_open(uv_loop_t *loop, struct resolver **ret, struct err *err);
void resolver_close(struct resolver *resolver); // nothing is answered any more

struct resolve_line *resolve_line_new(struct resolver *resolver);
void resolve_line_free(
    struct resolve_line *line); // all of its questions were answered or cancelled
// NULL: too many wait in this line.
struct resolve *resolve_start(struct resolve_line *line, const char *name, resolve_fn fn,
                              void *data);
void resolve_cancel(struct resolve *resolve);
