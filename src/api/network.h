// SPDX-License-Identifier: Apache-2.0
// A sandbox's `network` and `secrets` as a client sends them. On the loop's thread.
#pragma once

#include "api/call.h"

enum {
    NETWORK_TEXT_MAX = 16 * 1024, // bytes of `network`
    NETWORK_SECRETS_MAX = 64,     // names in `secrets`
};

struct network {
    char *network; // as struct sandbox_settings has it; NULL: "none"
    char *secrets; // NULL: none
};

// Checks and makes canonical what was given (NULL and no items: not given). 0, or -1 when it was
// refused and answered.
int network_read(struct call *call, const char *network, const struct body_strings *secrets,
                 struct network *ret);
void network_done(struct network *network);
#define auto_network __attribute__((cleanup(network_done))) struct network
