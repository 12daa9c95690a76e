// SPDX-License-Identifier: Apache-2.0
// Questions to a box's name server: what is understood is a canonical host, and every answer fits
// and repeats the question.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "egress/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const char *name)
{
    char again[POLICY_HOST_MAX];
    struct err err = {0};
    struct sockaddr_storage address;
    assert(policy_host(name, strlen(name), again, &err) == 0 && strcmp(name, again) == 0);
    assert(policy_address(name, &address) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct in_addr address = {0x01020304};
    struct dns_query query;
    uint8_t answer[DNS_ANSWER_MAX];
    int r = dns_parse(data, size, &query);
    if (r < 0)
        return 0;
    if (r == 0)
        check_name(query.name);
    assert(12 + query.question_len <= size);
    size_t n = dns_answer(data, &query, (enum dns_code)r, r == 0 ? &address : NULL, answer);
    assert(n <= sizeof answer && memcmp(answer, data, 2) == 0);
    assert(memcmp(answer + 12, data + 12, query.question_len) == 0);
    return 0;
}
