// SPDX-License-Identifier: Apache-2.0
// Addresses that have their permission within, for clients that cannot send a header:
// "/container/CAPABILITY/api/..." is "/sandbox/{id}/container/api/..." of one sandbox and nothing
// else, for whoever has it. A capability is made as a token is, and only its hash is stored
// (db_url_*). One that was seen is kept in memory as a struct token of its own; its requests count
// as those of the token that made it. It dies when it is revoked, when its time is over, with its
// sandbox (another one of the same id is not it), and with the token that made it; one that was
// made where none was asked for with the first start that asks for tokens. It is never logged nor
// told again. On the loop's thread.
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct api;
struct call;
struct token;

// Of a raw target that is such a path (path_of_capability); when in doubt, yes. *ret_token: lent,
// or NULL.
bool capability_is_known(struct api *api, const char *target, const struct token **ret_token);
// Finds out who asks by the call's target (call->token and tenant), and writes what its beginning
// stands for, "/sandbox/a/container". 0, or -1 when it was answered.
int capability_enter(struct call *call, struct buf *ret_target);
// Whether the call may have its sandbox (call->sandbox), if it came by an address. 0, or -1 when it
// was answered.
int capability_check(struct call *call);

void capability_revoked(struct api *api, const char *id);    // ends its streams
void capabilities_of_token(struct api *api, const char *id); // those that it made, of a revoked one
void capabilities_tick(struct api *api);                     // of those whose time is over
void capabilities_close(struct api *api);
