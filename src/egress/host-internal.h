// SPDX-License-Identifier: Apache-2.0
// Networks of addresses, for the policy and for what the installation opens. No state, any thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "egress/policy.h"

struct network {
    int family; // AF_INET, AF_INET6
    uint8_t address[16];
    unsigned bits;
};

// An address, or one with "/bits" whose other bits are 0. 0 or -EINVAL.
int network_parse(const char *text, struct network *ret);
bool network_has(const struct network *network, int family, const uint8_t *address);
void sockaddr_bytes(const struct sockaddr *address, uint8_t ret[16]); // 4 or 16 of them
