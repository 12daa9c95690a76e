// SPDX-License-Identifier: Apache-2.0
#include "egress/dns.h"

#include <errno.h>
#include <string.h>

enum {
    HEADER = 12,
    FLAG_ANSWER = 0x80,
    FLAG_RECURSE = 0x01,         // of the first flag byte
    FLAG_RECURSION_THERE = 0x80, // of the second
    CLASS_IN = 1,
    LABEL_MAX = 63,
    NAME_MAX_BYTES = 255,
    TTL_S = 30, // programs ask again soon: an address is given to another name some time
};

static unsigned get16(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

// The name's bytes, with lengths before its labels, as text with dots. Its length in the message,
// or 0. A label with a dot or a NUL in it would be another name as text.
static size_t read_name(const uint8_t *data, size_t len, char text[NAME_MAX_BYTES + 1],
                        size_t *ret_text)
{
    size_t at = 0, n = 0;
    for (;;) {
        if (at >= len || data[at] > LABEL_MAX) // pointers have the upper bits set
            return 0;
        size_t label = data[at++];
        if (label == 0)
            break;
        if (at + label >= len || at + label >= NAME_MAX_BYTES)
            return 0;
        if (memchr(data + at, '.', label) != NULL || memchr(data + at, '\0', label) != NULL)
            return 0;
        if (n > 0)
            text[n++] = '.';
        (void)memcpy(text + n, data + at, label);
        n += label;
        at += label;
    }
    text[n] = '\0';
    *ret_text = n;
    return at;
}

int dns_parse(const uint8_t *data, size_t len, struct dns_query *ret)
{
    char text[NAME_MAX_BYTES + 1];
    struct err err = {0};
    struct sockaddr_storage address;
    size_t text_len = 0;
    *ret = (struct dns_query){0};
    if (len < HEADER || len > DNS_QUERY_MAX || (data[2] & FLAG_ANSWER) != 0)
        return -EBADMSG;
    if ((data[2] & 0x78) != 0) // opcode
        return DNS_NOT_IMPLEMENTED;
    if (get16(data + 4) != 1 || get16(data + 6) != 0 || get16(data + 8) != 0 ||
        get16(data + 10) > 1)
        return DNS_MALFORMED;
    size_t name = read_name(data + HEADER, len - HEADER, text, &text_len);
    if (name == 0 || HEADER + name + 4 > len)
        return DNS_MALFORMED;
    ret->question_len = name + 4;
    ret->type = (uint16_t)get16(data + HEADER + name);
    if (get16(data + HEADER + name + 2) != CLASS_IN)
        return DNS_REFUSED;
    if (policy_host(text, text_len, ret->name, &err) < 0)
        ret->name[0] = '\0';
    if (ret->name[0] == '\0' || policy_address(ret->name, &address) == 1)
        return DNS_NO_SUCH_NAME;
    return 0;
}

static void put16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

size_t dns_answer(const uint8_t *data, const struct dns_query *query, enum dns_code code,
                  const struct in_addr *address, uint8_t ret[DNS_ANSWER_MAX])
{
    size_t n = HEADER;
    (void)memset(ret, 0, HEADER);
    (void)memcpy(ret, data, 2);
    ret[2] = (uint8_t)(FLAG_ANSWER | (data[2] & (0x78 | FLAG_RECURSE)));
    ret[3] = (uint8_t)(FLAG_RECURSION_THERE | (unsigned)code);
    if (query->question_len > 0) {
        put16(ret + 4, 1);
        (void)memcpy(ret + n, data + HEADER, query->question_len);
        n += query->question_len;
    }
    if (address == NULL)
        return n;
    put16(ret + 6, 1);
    put16(ret + n, 0xc000 | HEADER); // the name of the question
    put16(ret + n + 2, DNS_A);
    put16(ret + n + 4, CLASS_IN);
    put16(ret + n + 6, 0);
    put16(ret + n + 8, TTL_S);
    put16(ret + n + 10, 4);
    (void)memcpy(ret + n + 12, address, 4);
    return n + 16;
}
