// SPDX-License-Identifier: Apache-2.0
// The installation's own credential for the Messages API: a key, a token, or a token that is
// renewed (OAuth's refresh_token grant) when it is about to expire or was refused. It is here, in
// the daemon, and never in a box.
#pragma once

#include "model/model.h"

struct model_keys;

struct model_keys_config {
    struct model *model; // whose connections renewing uses
    const char *base_url;
    const char *api_key;                               // sent as x-api-key; "": none, then
    const char *auth_token;                            // sent as a bearer; "": none
    const char *refresh_token, *token_url, *client_id; // to renew it; "": it is not
    // A renewed token, to be stored (JSON, see keys.c); what was stored last, or NULL.
    void (*save)(void *data, const char *state);
    const char *state;
    void *data;
};
int model_keys_open(const struct model_keys_config *config, struct model_keys **ret,
                    struct err *err);
void model_keys_close(struct model_keys *keys);         // takes NULL
bool model_keys_has_any(const struct model_keys *keys); // takes NULL

// Exactly one of access and err: ERR_NOT_FOUND: there is none. Calls back at once unless the token
// has to be renewed first.
typedef void (*model_keys_fn)(void *data, const struct model_access *access, const struct err *err);
void model_keys_get(struct model_keys *keys, model_keys_fn fn, void *data);
// The API has answered 401 to this one: if it can be renewed the next _get does so first. Whether
// it can: then asking again is worth it.
bool model_keys_refused(struct model_keys *keys, const struct model_access *access);
