// SPDX-License-Identifier: Apache-2.0
// Whose credential the Messages API is asked with: the tenant's own, if it has stored a secret
// named "anthropic" (its upstream, header and format say how), else the installation's.
#pragma once

#include "egress/secret.h"
#include "model/keys.h"

#define MODEL_SECRET "anthropic"

// Exactly one of access and err; ERR_NOT_FOUND: neither has one. May call back before it returns.
void model_key_get(struct secrets *secrets, struct model_keys *keys, int64_t tenant,
                   model_keys_fn fn, void *data);
// The same question without the answer's contents, for refusing early. 1, 0, -1.
int model_key_is_there(struct secrets *secrets, const struct model_keys *keys, int64_t tenant,
                       struct err *err);
// The one form as the other: what a request of a box is sent on with. secret_done it.
int model_key_secret(const struct model_access *access, struct secret *ret, struct err *err);
