// SPDX-License-Identifier: Apache-2.0
// The API's own state, for the files of this room.
#pragma once

#include <sys/queue.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/map.h"

enum {
    API_METHODS = 8, // bits of enum http_method
    API_CLASSES = 5, // 1xx to 5xx
};

struct token;

struct api {
    uv_loop_t *loop;
    struct db *db;
    struct fleet *fleet;
    struct mover *mover;
    struct secrets *secrets;
    struct egress *egress;
    struct agents *agents;
    struct saved *saved;
    struct previews *previews;
    char *cors;
    int64_t rate;
    int64_t run;
    bool draining;
    struct stats *stats;
    uint64_t requests; // also what the next request id ends with
    uint64_t requests_by[API_METHODS][API_CLASSES];
    char id_prefix[9];
    struct map tokens;          // by hash, hexadecimal
    struct map urls;            // the tokens of addresses (capability.h), in the same way
    struct token *local;        // of the unix socket
    struct token *anyone;       // of those who send no token; NULL: they are refused
    uint16_t port;              // that is listened on
    char admin_id[DB_TOKEN_ID]; // of the configured token's row
    struct call *streams;
    unsigned strangers; // whose large bodies are being read (auth.c)
    size_t held;        // bytes of answers that wait for their readers (hold.c)
    size_t spooled;     // bytes of large bodies that wait to be read (container/write-large.c)
    LIST_HEAD(transfer_list, transfer) transfers; // transfer.c
    uv_timer_t tick;
    struct buf openapi;
};

int auth_open(struct api *api, const struct api_config *config, struct err *err);
void auth_close(struct api *api);
void auth_arrived(struct api *api, struct http_request *req); // its body is here
void auth_revoked(struct api *api, const char *id);  // forgets the token and ends its streams
void auth_cut(struct api *api, struct token *token); // marks it and ends what it has begun
