// SPDX-License-Identifier: Apache-2.0
// The few messages of DNS (RFC 1035) that a box's stub understands: one question in, one answer
// out. Pure, no allocation, any thread.
#pragma once

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/policy.h"

enum { DNS_QUERY_MAX = 512, DNS_ANSWER_MAX = 512 };
enum { DNS_A = 1, DNS_AAAA = 28, DNS_SVCB = 64, DNS_HTTPS = 65 };

enum dns_code { // RCODE
    DNS_FINE = 0,
    DNS_MALFORMED = 1,
    DNS_NO_SUCH_NAME = 3,
    DNS_NOT_IMPLEMENTED = 4,
    DNS_REFUSED = 5,
};

struct dns_query {
    char name[POLICY_HOST_MAX]; // canonical; "" when the question is not one for a host
    uint16_t type;
    size_t question_len; // bytes of the question, which stands behind the header of 12
};

// 0: a question for `name`. > 0: the dns_code to answer with instead (then `ret` says how much of
// the question can be repeated). -EBADMSG: no answer at all.
int dns_parse(const uint8_t *data, size_t len, struct dns_query *ret);
// Writes an answer to the message that was parsed; `address` (network order) where there is one.
// Its length.
size_t dns_answer(const uint8_t *data, const struct dns_query *query, enum dns_code code,
                  const struct in_addr *address, uint8_t ret[DNS_ANSWER_MAX]);
