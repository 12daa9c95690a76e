// SPDX-License-Identifier: Apache-2.0
// Routes: one table says what there is, and from it come the router, the checks before a handler,
// and the OpenAPI description. A pattern's {names} take one segment each, a {name*} at its end all
// that are left.
#pragma once

#include <stddef.h>

#include "edge/body.h"
#include "edge/http.h"
#include "edge/target.h"

struct call;

enum {
    ROUTE_PARAMS_MAX = 3,
    ROUTE_QUERY_MAX = 12,
};

enum route_flag {
    ROUTE_PUBLIC = 1u << 0,     // no token needed
    ROUTE_ADMIN = 1u << 1,      // an admin token, or the unix socket
    ROUTE_SANDBOX = 1u << 2,    // the first parameter is an id of the caller's tenant
    ROUTE_IDEMPOTENT = 1u << 3, // takes an Idempotency-Key
    ROUTE_SSE = 1u << 4,        // streams with Accept: text/event-stream
    ROUTE_RAW_BODY = 1u << 5,   // takes application/octet-stream as well: the handler looks itself
    ROUTE_ANY_QUERY = 1u << 6,
    ROUTE_STREAM_BODY = 1u << 7, // takes any body: a large one is left in the socket (raw.c), a
                                 // small one is in http_body
    ROUTE_BODY_TOKEN = 1u << 8,  // its token may be the body's `auth_token`
    ROUTE_EXISTING = 1u << 9,    // makes no sandbox, where its family does on first use (family.h)
};

// What a route is about, for families that name what is missing or in the way by it.
enum route_subject {
    SUBJECT_NONE,
    SUBJECT_FILE,
    SUBJECT_COMMAND,
    SUBJECT_PROCESS,
    SUBJECT_SESSION,
    SUBJECT_PORT,
    SUBJECT_GIT,
    SUBJECT_CODE, // contexts and what runs in them
    SUBJECT_WATCH,
    SUBJECT_BACKUP,
    SUBJECT_MAX,
};

struct query {
    const char *name;
    const char *help;
};

// What an answer looks like, for the documentation: "name:type ...", where a type is one of JSON
// Schema's, another shape's name ("Sandbox"), or an array of either ("[Sandbox]").
struct shape {
    const char *name;
    const char *fields;
};

struct route {
    enum http_method method;
    const char *pattern; // "/sandbox/{id}/exec"
    void (*handle)(struct call *call);
    unsigned flags;
    const struct schema *body; // NULL: a body is refused
    struct query query[ROUTE_QUERY_MAX];
    const char *name; // operationId
    const char *summary;
    unsigned status;             // of success
    const char *answer;          // what comes back
    const struct shape *shape;   // of it, for the documentation; may be NULL
    const char *type;            // its media type; NULL: JSON
    const struct query *headers; // of the request, that it looks at, for the documentation; ends
                                 // with one that has no name. May be NULL
    // What can be refused before the sandbox is looked for, and made where its family does that: 0,
    // or -1 when it was answered. May be NULL.
    int (*check)(struct call *call);
    enum route_subject subject;
};

extern const struct route routes[]; // the native family's
extern const size_t n_routes;
extern const struct shape *const shapes[]; // ends with NULL

struct route_match {
    const struct route *route; // NULL: none with this method
    unsigned allowed;          // enum http_method of all routes of the path; 0: no such path
    const char *param[ROUTE_PARAMS_MAX];
};

// HEAD finds the routes of GET. The parameters point into the target. (Of all tables of a family:
// family_find.)
struct route_match route_find_in(const struct route *table, size_t n_table, enum http_method method,
                                 struct target *target);
const struct route *route_of(void (*handle)(struct call *call)); // the first of that handler
bool route_takes_query(const struct route *route, const char *name);
const char *route_near_query(const struct route *route, const char *name); // a guess, or NULL
// "GET, HEAD, POST, OPTIONS" of a set of methods.
void route_allow(unsigned allowed, struct buf *ret);
