// SPDX-License-Identifier: Apache-2.0
// The bridge family: what OpenAI's Agents SDK and others say to Cloudflare's sandbox bridge, at
// /v1/.... Its errors are {"error": "what and what to do", "code": "invalid_request"}.
//
// A handler says what has happened by bridge_fail, with a code of theirs, or by call_error and
// call_fail (call.h), which are translated by the kind of the error, the route, and whether the
// sandbox is at work for it (error.c). Where routes go: a file has its bodies' tables (SCHEMA(...,
// .lenient = true)), its handlers and its table of BRIDGE_ROUTEs. The table is named at the end of
// this header and in bridge/routes.c, which joins them, and the file in api/meson.build.
#pragma once

#include "api/call.h"
#include "api/file-path.h"

#define BRIDGE_WORKSPACE "/workspace"

// A row of a table: BRIDGE_ROUTE(HTTP_POST, "/sandbox/{id}/exec", 200, handle, .flags = ...), with
// the status of success.
#define BRIDGE_ROUTE(http, path, success, handler, ...)                                            \
    {                                                                                              \
        .method = (http), .pattern = "/v1" path, .status = (success), .handle = (handler),         \
        __VA_ARGS__                                                                                \
    }

void bridge_fail(struct call *call, unsigned status, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void bridge_ok(struct call *call); // {"ok":true}

// A path as their clients write it, absolute or relative to /workspace, with "." and "..", as it
// is without these. 0, or -1 when it leads out of /workspace, or is too long to be a path.
int bridge_path(const char *text, char ret[FILE_PATH_MAX + 1]);

// The session that the request names in its Session-Id header; NULL: none. 0, or -1 when it was
// refused and answered. Also a route's `check`.
int bridge_session(struct call *call, const char **ret);
int bridge_check_session(struct call *call);
// The same for a name from elsewhere; NULL is fine.
int bridge_session_valid(struct call *call, const char *name);
extern const struct query bridge_session_header[]; // for `headers` of a route

// --- what answers look like, for the description (about.c)

extern const struct shape bridge_id_shape, bridge_ok_shape, bridge_running_shape;
extern const struct shape bridge_deleted_shape, bridge_pool_shape, bridge_stopped_shape;

// --- the tables: one a file, each also in routes.c

#define BRIDGE_TABLE(name)                                                                         \
    extern const struct route name[];                                                              \
    extern const size_t n_##name

BRIDGE_TABLE(bridge_sandbox);
BRIDGE_TABLE(bridge_exec);
BRIDGE_TABLE(bridge_files);
BRIDGE_TABLE(bridge_archive);
BRIDGE_TABLE(bridge_sessions);
BRIDGE_TABLE(bridge_pty);
BRIDGE_TABLE(bridge_missing);
BRIDGE_TABLE(bridge_pool);
BRIDGE_TABLE(bridge_about);
