// SPDX-License-Identifier: Apache-2.0
// Who asks. Tokens are 32 random bytes written as "cay_" and base64url; only their hash (BLAKE2b)
// is stored. A token that was seen is kept in memory, with how much of its rate it has used, until
// it is revoked or others need the place. Counted, because streams outlast a revocation by a
// moment.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/api-internal.h"
#include "api/rate.h"

enum {
    TOKENS_CACHED = 4096,
    TOKEN_BYTES = 32,
    TOKEN_TEXT = 4 + 43 + 1, // "cay_", base64url, NUL
};

// What a client offers as subprotocols of a WebSocket: browsers cannot send other headers with one.
#define AUTH_PROTOCOL        "cay"
#define AUTH_PROTOCOL_BEARER "cay.bearer." // and the token

// Where the token may be in the body (ROUTE_BODY_TOKEN).
#define AUTH_WITHIN_TARGET "/execute"

struct token {
    char key[2 * DB_TOKEN_HASH + 1]; // the hash, hexadecimal: the cache's key
    char id[DB_TOKEN_ID];
    unsigned refs;
    int64_t tenant;
    bool admin;
    bool revoked;    // and counted still: by requests that it had begun
    int64_t sandbox; // an address's: the number of the only one that it is for (capability.h)
    int64_t limit;   // requests a minute; 0: none
    struct rate rate;
    size_t held;         // bytes of its answers that wait for their readers (hold.c)
    struct token *payer; // counted; an address's: the token whose requests its are; NULL: its own
};

void token_unref(struct token *token); // takes NULL
void token_make(char text[TOKEN_TEXT]);
void token_hash(const char *text, uint8_t hash[DB_TOKEN_HASH]);
void token_make_id(char id[DB_TOKEN_ID]);
bool auth_knows(struct api *api, const char *text); // whether it is a token of ours
// By its id, which is no secret. NULL with ERR_NONE: there is none.
struct token *auth_of_id(struct api *api, const char *id, struct err *err);
