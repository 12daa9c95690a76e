// SPDX-License-Identifier: Apache-2.0
// Previews: HTTP and WebSockets from outside to a port of a sandbox's own loopback. By host
// ("3000-SLUG-TOKEN.localhost"), where the name is the permission and nothing else of the server
// answers; or by path ("/sandbox/a/proxy/3000/"), under the API's host, with its bearer token or
// the port's in ?cay_token=. The connection is taken from the server and stays with its preview
// until either end closes it, or the port, the sandbox or the token is gone. On the loop's thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/preview-host.h"

struct api;
struct call;
struct http_request;
struct previews;
struct token;

struct previews *previews_open(struct api *api, const struct preview_where *where);
void previews_close(struct previews *previews); // ends all; takes NULL
const struct preview_where *previews_where(const struct previews *previews);

bool preview_is_host(const struct previews *previews, const char *host); // also of one that is bad
bool preview_is_path(const char *target); // "/sandbox/ID/proxy/...", "/sandbox/ID/opencode/..."
// Answers a request whose Host is a preview's.
void preview_by_host(struct previews *previews, struct http_request *req);
// And one by path: the target is read here, since it is the box's from the port on.
void preview_by_path(struct call *call);

// Ends the connections that came in with a port's token; port 0: of all.
void previews_end_port(struct previews *previews, int64_t sandbox, uint16_t port);
// Those of a revoked token. NULL: the server stops; whoever waits for an answer still gets it.
void previews_end_token(struct previews *previews, const struct token *token);
