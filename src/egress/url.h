// SPDX-License-Identifier: Apache-2.0
// The beginning of an http(s) URL as somebody wrote it, in the one form that everybody reads alike.
// No state, any thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "egress/policy.h"

struct url {
    bool tls;
    bool has_user;              // "user@" stood before the host; it is not in `host`
    char host[POLICY_HOST_MAX]; // canonical; an IPv6 address without its brackets
    uint16_t port;
    const char *path; // in the text, from its first '/'; may be "", and is not looked at
};

// ERR_INVALID says what is wrong with it, for after "upstream: ".
int url_parse(const char *text, struct url *ret, struct err *err);
// "https://api.example.com:8443", without a port that goes without saying. The length.
enum { URL_ORIGIN_MAX = POLICY_HOST_MAX + 20 };
int url_origin(const struct url *url, char ret[URL_ORIGIN_MAX]);
