// SPDX-License-Identifier: Apache-2.0
// Families of routes: protocols that are spoken side by side, told apart by where their paths
// begin.
//
//     native      everything else               routes.c     {"error", "error_code", ...}
//     container   /sandbox/{id}/container/...   container/   {"code", "message", "context", ...}
//     bridge      /v1/...                       bridge/      {"error", "code"}
//
// A family has its tables of routes, its way to write what goes wrong, and says whether a sandbox
// that is not there yet is made on first use. All else is one: who asks and how often, bodies by
// table, sandboxes, streams. So a handler of any family answers with call_error and call_fail
// (call.h), and so do the steps before it; what is sent is in the words of the call's family. No
// state, any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/route.h"
#include "base/buf.h"
#include "edge/body.h"
#include "edge/error.h"
#include "edge/http-peek.h"

// What is wrong, before it is put into a family's words.
struct refusal {
    enum error_kind kind;
    const char *message;
    const char *request_id;
    const char *details;            // a JSON object, or NULL
    const struct body_fault *fault; // of the body, if that is what is wrong; else NULL
    const struct route *route;      // NULL: it was not known yet
    const char *about;              // what the handler said of it (call_about), or NULL
    bool is_at_work;                // as the call's
};

struct route_table {
    const struct route *routes;
    const size_t *n;
};

// A row of a family's list: of `name` and its length, n_name. The list's end.
#define ROUTE_TABLE(name)                                                                          \
    {                                                                                              \
        (name), &n_##name                                                                          \
    }
#define ROUTE_TABLE_END                                                                            \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }

struct family {
    const char *name;
    const struct route_table *tables; // up to ROUTE_TABLE_END. The first that matches wins,
                                      // but for paths without a {name}: see route_find_in
    // Appends the body and answers the status.
    unsigned (*write_error)(const struct refusal *refusal, struct buf *ret);
    // Whether a body of this size is left in the socket for the handler (http_raw_fn, and raw.c).
    // `rest` is the raw target behind what begins the family's paths: "/api/write", "/sandbox/a".
    // NULL: none is.
    bool (*is_raw)(const struct http_peek *peek, const char *rest);
    // A sandbox that is not there is made, with network "internet", by the first use of one of its
    // ROUTE_SANDBOX routes that has not got ROUTE_EXISTING.
    bool creates;
    // Of somebody else's protocol: query parameters that are not known, and bodies where none is
    // taken, are passed over. (Bodies by table: struct schema has a `lenient` of its own.)
    bool lenient;
};

extern const struct family family_native, family_container, family_bridge;

// By the raw target, as it came. Never NULL. `ret_rest` may be NULL.
const struct family *family_of(const char *target, const char **ret_rest);
// In its tables; as route_find_in.
struct route_match family_find(const struct family *family, enum http_method method,
                               struct target *target);
