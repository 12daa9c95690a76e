// SPDX-License-Identifier: Apache-2.0
// The messages of a box's name server, and the addresses that it makes up.
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "egress/dns.h"
#include "egress/names.h"

static size_t query(uint8_t *ret, const char *name, unsigned type)
{
    size_t n = 12;
    (void)memset(ret, 0, DNS_QUERY_MAX);
    ret[0] = 0xab;
    ret[1] = 0xcd;
    ret[2] = 1; // recursion, please
    ret[5] = 1;
    while (*name != '\0') {
        size_t len = strcspn(name, ".");
        ret[n++] = (uint8_t)len;
        (void)memcpy(ret + n, name, len);
        n += len;
        name += len + (name[len] == '.');
    }
    ret[n++] = 0;
    ret[n++] = (uint8_t)(type >> 8);
    ret[n++] = (uint8_t)type;
    ret[n++] = 0;
    ret[n++] = 1;
    return n;
}

CHECK_CASE(a_question_is_read)
{
    uint8_t data[DNS_QUERY_MAX];
    struct dns_query q;
    size_t n = query(data, "API.Example.com", DNS_A);
    assert_int_equal(dns_parse(data, n, &q), 0);
    assert_string_equal(q.name, "api.example.com");
    assert_int_equal(q.type, DNS_A);
    assert_int_equal(q.question_len, n - 12);
    // One that is cut anywhere is none.
    for (size_t i = 0; i < n; i++) {
        uint8_t *copy = malloc(i + 1);
        (void)memcpy(copy, data, i);
        int r = dns_parse(copy, i, &q);
        assert_int_equal(r, i < 12 ? -EBADMSG : DNS_MALFORMED);
        free(copy);
    }
    // With what EDNS puts behind it.
    data[11] = 1;
    (void)memcpy(data + n, "\0\0\x29\x10\0\0\0\0\0\0\0", 11);
    assert_int_equal(dns_parse(data, n + 11, &q), 0);
}

CHECK_CASE(an_answer_has_the_question_and_the_address)
{
    uint8_t data[DNS_QUERY_MAX], answer[DNS_ANSWER_MAX];
    struct dns_query q;
    struct in_addr address;
    size_t n = query(data, "a.Example", DNS_A);
    assert_int_equal(inet_pton(AF_INET, "198.18.1.2", &address), 1);
    assert_int_equal(dns_parse(data, n, &q), 0);
    size_t len = dns_answer(data, &q, DNS_FINE, &address, answer);
    assert_int_equal(len, n + 16);
    assert_memory_equal(answer, data, 2);
    assert_int_equal(answer[2], 0x81);
    assert_int_equal(answer[3], 0x80);
    assert_memory_equal(answer + 4, "\0\1\0\1\0\0\0\0", 8);
    assert_memory_equal(answer + 12, data + 12, n - 12); // its letters as they were written
    assert_memory_equal(answer + n, "\xc0\x0c\0\1\0\1\0\0\0\x1e\0\4", 12);
    assert_memory_equal(answer + n + 12, &address, 4);
    len = dns_answer(data, &q, DNS_NO_SUCH_NAME, NULL, answer);
    assert_int_equal(len, n);
    assert_int_equal(answer[3], 0x83);
    assert_memory_equal(answer + 4, "\0\1\0\0\0\0\0\0", 8);
}

CHECK_CASE(nonsense_is_not_answered_or_refused)
{
    uint8_t data[DNS_QUERY_MAX];
    struct dns_query q;
    size_t n = query(data, "a.example", DNS_A);
    data[2] |= 0x80; // an answer
    assert_int_equal(dns_parse(data, n, &q), -EBADMSG);
    n = query(data, "a.example", DNS_A);
    data[2] |= 5 << 3; // an update
    assert_int_equal(dns_parse(data, n, &q), DNS_NOT_IMPLEMENTED);
    n = query(data, "a.example", DNS_A);
    data[5] = 2; // two questions
    assert_int_equal(dns_parse(data, n, &q), DNS_MALFORMED);
    n = query(data, "a.example", DNS_A);
    data[5] = 0;
    assert_int_equal(dns_parse(data, n, &q), DNS_MALFORMED);
    n = query(data, "a.example", DNS_A);
    data[7] = 1;
    assert_int_equal(dns_parse(data, n, &q), DNS_MALFORMED);
    n = query(data, "a.example", DNS_A);
    data[n - 1] = 3; // another class
    assert_int_equal(dns_parse(data, n, &q), DNS_REFUSED);
    n = query(data, "a.example", DNS_A);
    data[12] = 0xc0; // a pointer
    assert_int_equal(dns_parse(data, n, &q), DNS_MALFORMED);
    n = query(data, "a.example", DNS_A);
    data[15] = '.'; // in a label: "a" "." "xample"
    assert_int_equal(dns_parse(data, n, &q), DNS_MALFORMED);
    n = query(data, "a.example", DNS_A);
    data[15] = '\0';
    assert_int_equal(dns_parse(data, n, &q), DNS_MALFORMED);
    n = query(data, "1.2.3.4", DNS_A);
    assert_int_equal(dns_parse(data, n, &q), DNS_NO_SUCH_NAME);
    n = query(data, "a b.example", DNS_A);
    assert_int_equal(dns_parse(data, n, &q), DNS_NO_SUCH_NAME);
    n = query(data, "", DNS_A);
    assert_int_equal(dns_parse(data, n, &q), DNS_NO_SUCH_NAME);
}

CHECK_CASE(names_keep_their_addresses)
{
    struct names *names = names_new();
    struct in_addr a, b, again;
    assert_int_equal(names_give(names, "a.example", &a), 0);
    assert_int_equal(names_give(names, "b.example", &b), 0);
    assert_int_equal(names_give(names, "a.example", &again), 0);
    assert_int_equal(a.s_addr, again.s_addr);
    assert_true(a.s_addr != b.s_addr);
    assert_true(names_is_made_up(a) && names_is_made_up(b));
    assert_string_equal(names_find(names, a), "a.example");
    assert_string_equal(names_find(names, b), "b.example");
    again.s_addr = htonl(0xc6120001);
    assert_null(names_find(names, again));
    names_free(names);
    // After a restart it gets the same.
    names = names_new();
    assert_int_equal(names_give(names, "a.example", &again), 0);
    assert_int_equal(a.s_addr, again.s_addr);
    names_free(names);
}

CHECK_CASE(the_made_up_range_has_its_ends)
{
    struct in_addr at = {htonl(0xc6120000)};
    assert_true(names_is_made_up(at));
    at.s_addr = htonl(0xc613ffff);
    assert_true(names_is_made_up(at));
    at.s_addr = htonl(0xc6140000);
    assert_false(names_is_made_up(at));
    at.s_addr = htonl(0xc611ffff);
    assert_false(names_is_made_up(at));
}

static void give(struct names *names, unsigned i, struct in_addr *ret)
{
    char name[32];
    (void)snprintf(name, sizeof name, "n%u.example", i);
    assert_int_equal(names_give(names, name, ret), 0);
}

CHECK_CASE(the_oldest_makes_room_unless_it_is_held)
{
    struct names *names = names_new();
    struct in_addr first, second, other;
    give(names, 0, &first);
    give(names, 1, &second);
    names_hold(names, first);
    for (unsigned i = 2; i < NAMES_MAX + 100; i++)
        give(names, i, &other);
    assert_string_equal(names_find(names, first), "n0.example");
    assert_true(names_find(names, second) == NULL ||
                strcmp(names_find(names, second), "n1.example") != 0);
    names_release(names, first);
    for (unsigned i = 0; i < NAMES_MAX; i++)
        give(names, 10000 + i, &other);
    assert_true(names_find(names, first) == NULL ||
                strcmp(names_find(names, first), "n0.example") != 0);
    names_free(names);
}

CHECK_CASE(when_all_are_held_there_is_no_room)
{
    struct names *names = names_new();
    struct in_addr address;
    for (unsigned i = 0; i < NAMES_MAX; i++) {
        give(names, i, &address);
        names_hold(names, address);
    }
    assert_int_equal(names_give(names, "one.more", &address), -ENOSPC);
    assert_int_equal(names_give(names, "n5.example", &address), 0);
    names_release(names, address);
    assert_int_equal(names_give(names, "one.more", &address), 0);
    names_free(names);
}

CHECK_MAIN(cmocka_unit_test(a_question_is_read),
           cmocka_unit_test(an_answer_has_the_question_and_the_address),
           cmocka_unit_test(nonsense_is_not_answered_or_refused),
           cmocka_unit_test(names_keep_their_addresses),
           cmocka_unit_test(the_made_up_range_has_its_ends),
           cmocka_unit_test(the_oldest_makes_room_unless_it_is_held),
           cmocka_unit_test(when_all_are_held_there_is_no_room))
