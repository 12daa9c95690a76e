// SPDX-License-Identifier: Apache-2.0
// What a sandbox may reach: its `network` setting.
//
//     "none"                       nothing
//     "internet"                   everything but private, link-local, metadata and other special
//     ranges
//     {"allow": ["api.example.com", "*.example.org:443", "203.0.113.7", "10.1.0.0/16:5432"],
//      "maxBytes": 1073741824, "bytesPerSecond": 1048576}
//     {"mode": "internet", "maxBytes": ...}
//
// A host is a name, or a name with leading "*." (any depth below it), in lower case ASCII (IDNs in
// their xn-- form), or an address or a network. Without ports 80 and 443 are meant; ":*" is any. An
// entry that names a special range does not open it: only the installation's own setting
// (egress-private) does. No state, any thread.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

struct policy; // opaque

enum policy_mode { POLICY_NONE, POLICY_ALLOW, POLICY_INTERNET };

// `json` is one JSON value; NULL: "none". ERR_INVALID names the entry and what would do.
int policy_parse(const char *json, struct policy **ret, struct err *err);
void policy_free(struct policy *policy);
char *policy_text(const struct policy *policy); // canonical JSON, malloc'ed
enum policy_mode policy_mode(const struct policy *policy);
uint64_t policy_max_bytes(const struct policy *policy); // 0: any
uint64_t policy_rate(const struct policy *policy);      // bytes a second; 0: any

// A host name as a client wrote it becomes canonical: lower case, no trailing dot, checked
// (letters, digits, hyphens, dots, underscores; 253 bytes). An address in any other form than
// dotted decimal or RFC 5952 is refused ("0x7f.1", "2130706433", "127.1"), so that nobody reads it
// differently.
enum { POLICY_HOST_MAX = 254 };
int policy_host(const char *text, size_t len, char ret[POLICY_HOST_MAX], struct err *err);
// 1 with an address, 0 when it is a name.
int policy_address(const char *host, struct sockaddr_storage *ret);

// Whether a host may be asked for at all, before it is resolved. *ret_why: a constant text that
// names the setting.
bool policy_allows_host(const struct policy *policy, const char *host, uint16_t port,
                        const char **ret_why);
// As above with any port: whether its name may be known.
bool policy_allows_name(const struct policy *policy, const char *host, const char **ret_why);
// Networks that the installation opens ("127.0.0.0/8,10.0.0.0/8").
struct networks;
int networks_parse(const char *text, struct networks **ret, struct err *err);
void networks_free(struct networks *networks);
bool networks_have(const struct networks *networks, const struct sockaddr *address); // takes NULL
// Whether an address that a name was resolved to (or that was asked for) may be connected to:
// nothing private, loopback, link-local, multicast, reserved, mapped or translated to these.
bool policy_address_is_open(const struct networks *opened, const struct sockaddr *address,
                            const char **ret_why);
