// SPDX-License-Identifier: Apache-2.0
// The network setting and the addresses that nobody may be let at.
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "check.h"
#include "egress/policy.h"

static struct policy *parsed(const char *json)
{
    struct policy *policy = NULL;
    struct err err = {0};
    if (policy_parse(json, &policy, &err) < 0)
        fail_msg("%s: %s", json, err.msg);
    return policy;
}

static bool allows(const char *json, const char *host, uint16_t port)
{
    const char *why = NULL;
    struct policy *policy = parsed(json);
    bool yes = policy_allows_host(policy, host, port, &why);
    assert_non_null(why);
    policy_free(policy);
    return yes;
}

CHECK_CASE(settings_have_one_form)
{
    static const struct {
        const char *given, *canonical;
    } rows[] = {
        {"\"none\"",                                                                           "\"none\""                              },
        {"\"internet\"",                                                                       "\"internet\""                          },
        {"{\"mode\":\"internet\"}",                                                            "\"internet\""                          },
        {"{\"mode\":\"none\"}",                                                                "\"none\""                              },
        {"{\"mode\":\"internet\",\"maxBytes\":5}",                                             "{\"mode\":\"internet\",\"maxBytes\":5}"},
        {"{\"allow\":[]}",                                                                     "{\"allow\":[]}"                        },
        {"{\"mode\":\"allow\",\"allow\":[]}",                                                  "{\"allow\":[]}"                        },
        {"{\"bytesPerSecond\":7,\"allow\":[\"A.Example.COM.\"],\"maxBytes\":1}",
         "{\"allow\":[\"a.example.com\"],\"maxBytes\":1,\"bytesPerSecond\":7}"                                                         },
        {"{\"allow\":[\"*.Example.org:443\",\"x:*\"]}",
         "{\"allow\":[\"*.example.org:443\",\"x:*\"]}"                                                                                 },
        {"{\"allow\":[\"203.0.113.7\",\"10.1.0.0/16:5432\"]}",
         "{\"allow\":[\"203.0.113.7\",\"10.1.0.0/16:5432\"]}"                                                                          },
        {"{\"allow\":[\"2606:4700::1111\",\"[2606:4700::1111]:443\",\"[2606:4700::/32]:*\"]}",
         "{\"allow\":[\"2606:4700::1111\",\"[2606:4700::1111]:443\",\"[2606:4700::/32]:*\"]}"                                          },
        {"{\"allow\":[\"[2606:4700::1111]\",\"2606:4700::/32\"]}",
         "{\"allow\":[\"2606:4700::1111\",\"2606:4700::/32\"]}"                                                                        },
        {NULL,                                                                                 "\"none\""                              },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct policy *policy = parsed(rows[i].given);
        char *text = policy_text(policy);
        assert_string_equal(text, rows[i].canonical);
        struct policy *again = parsed(text);
        char *same = policy_text(again);
        assert_string_equal(same, text);
        free(text);
        free(same);
        policy_free(policy);
        policy_free(again);
    }
}

CHECK_CASE(what_makes_no_sense_is_refused)
{
    static const char *const rows[] = {
        "",
        "null",
        "true",
        "1",
        "\"all\"",
        "\"Internet\"",
        "\"allow\"",
        "[]",
        "{}",
        "{\"maxBytes\":1}",
        "{\"mode\":\"allow\"}",
        "{\"mode\":\"internet\",\"allow\":[]}",
        "{\"mode\":\"none\",\"allow\":[]}",
        "{\"allow\":\"a\"}",
        "{\"allow\":[1]}",
        "{\"allow\":[\"\"]}",
        "{\"allow\":[\"a\"],\"allow\":[\"b\"]}",
        "{\"allow\":[\"a\"],\"deny\":[]}",
        "{\"allow\":[\"a\"],\"maxBytes\":0}",
        "{\"allow\":[\"a\"],\"maxBytes\":-1}",
        "{\"allow\":[\"a\"],\"maxBytes\":1.5}",
        "{\"allow\":[\"a\"],\"bytesPerSecond\":\"1\"}",
        "{\"allow\":[\"*\"]}",
        "{\"allow\":[\"*:443\"]}",
        "{\"allow\":[\"a.*.com\"]}",
        "{\"allow\":[\"*a.com\"]}",
        "{\"allow\":[\"**.a.com\"]}",
        "{\"allow\":[\"*.1.2.3.4\"]}",
        "{\"allow\":[\"a:0\"]}",
        "{\"allow\":[\"a:080\"]}",
        "{\"allow\":[\"a:+80\"]}",
        "{\"allow\":[\"a: 80\"]}",
        "{\"allow\":[\"a:65536\"]}",
        "{\"allow\":[\"a:\"]}",
        "{\"allow\":[\"a:http\"]}",
        "{\"allow\":[\"http://a\"]}",
        "{\"allow\":[\"a/b\"]}",
        "{\"allow\":[\"user@a\"]}",
        "{\"allow\":[\"a b\"]}",
        "{\"allow\":[\"a\\u0000.evil.com\"]}",
        "{\"allow\":[\"b\\u00fccher.example\"]}",
        "{\"allow\":[\"a\\u3002com\"]}",
        "{\"allow\":[\"a..b\"]}",
        "{\"allow\":[\".a\"]}",
        "{\"allow\":[\"-a.com\"]}",
        "{\"allow\":[\"name.cay\"]}",
        "{\"allow\":[\"*.cay\"]}",
        "{\"allow\":[\"cay\"]}",
        "{\"allow\":[\"127.1\"]}",
        "{\"allow\":[\"0x7f.0.0.1\"]}",
        "{\"allow\":[\"017700000001\"]}",
        "{\"allow\":[\"2130706433\"]}",
        "{\"allow\":[\"1.2.3.04\"]}",
        "{\"allow\":[\"1.2.3.256\"]}",
        "{\"allow\":[\"10.0.0.1/8\"]}",
        "{\"allow\":[\"10.0.0.0/33\"]}",
        "{\"allow\":[\"10.0.0.0/08\"]}",
        "{\"allow\":[\"10.0.0.0/\"]}",
        "{\"allow\":[\"::ffff:1.2.3.4\"]}",
        "{\"allow\":[\"2001:0db8::1\"]}",
        "{\"allow\":[\"[2606::1]80\"]}",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct policy *policy = NULL;
        struct err err = {0};
        if (policy_parse(rows[i], &policy, &err) == 0)
            fail_msg("%s was taken", rows[i]);
        assert_int_equal(err.code, ERR_INVALID);
        assert_true(strlen(err.msg) > 0);
        assert_null(policy);
    }
}

CHECK_CASE(a_list_has_an_end)
{
    auto_buf json;
    struct policy *policy = NULL;
    struct err err = {0};
    buf_init(&json, 64 * 1024);
    (void)buf_append_str(&json, "{\"allow\":[\"h0\"");
    for (int i = 1; i < 256; i++)
        (void)buf_printf(&json, ",\"h%d\"", i);
    size_t len = json.len;
    (void)buf_append_str(&json, "]}");
    policy_free(parsed(buf_str(&json)));
    json.len = len;
    (void)buf_append_str(&json, ",\"one.more\"]}");
    assert_int_equal(policy_parse(buf_str(&json), &policy, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
}

CHECK_CASE(hosts_are_matched)
{
    static const char list[] =
        "{\"allow\":[\"api.example.com\",\"*.example.org\",\"db.internal:5432\",\"any.example:*\","
        "\"198.41.0.4\",\"192.33.4.0/24:53\",\"2001:500:2::/48\"]}";
    static const struct {
        const char *host;
        unsigned port;
        bool yes;
    } rows[] = {
        {"api.example.com",          443,   true },
        {"api.example.com",          80,    true },
        {"api.example.com",          8080,  false},
        {"api.example.com",          0,     false},
        {"example.com",              443,   false},
        {"xapi.example.com",         443,   false},
        {"api.example.com.evil.org", 443,   false},
        {"a.example.org",            443,   true },
        {"a.b.example.org",          443,   true },
        {"example.org",              443,   false},
        {"evilexample.org",          443,   false},
        {".example.org",             443,   false},
        {"db.internal",              5432,  true },
        {"db.internal",              443,   false},
        {"any.example",              1,     true },
        {"any.example",              65535, true },
        {"198.41.0.4",               443,   true },
        {"198.41.0.5",               443,   false},
        {"192.33.4.77",              53,    true },
        {"192.33.4.77",              443,   false},
        {"192.33.5.1",               53,    false},
        {"2001:500:2::c",            443,   true },
        {"2001:500:3::c",            443,   false},
        {"::ffff:198.41.0.4",        443,   false},
        {"name.cay",                 80,    false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (allows(list, rows[i].host, (uint16_t)rows[i].port) != rows[i].yes)
            fail_msg("%s:%u", rows[i].host, rows[i].port);
        assert_false(allows("\"none\"", rows[i].host, (uint16_t)rows[i].port));
        assert_false(allows("{\"allow\":[]}", rows[i].host, (uint16_t)rows[i].port));
    }
    assert_true(allows("\"internet\"", "anything.example", 12345));
    assert_false(allows("\"internet\"", "name.cay", 80));
}

CHECK_CASE(names_are_known_by_any_port)
{
    const char *why;
    struct policy *policy = parsed("{\"allow\":[\"db.internal:5432\"]}");
    assert_true(policy_allows_name(policy, "db.internal", &why));
    assert_false(policy_allows_name(policy, "other", &why));
    assert_false(policy_allows_name(policy, "x.cay", &why));
    policy_free(policy);
}

CHECK_CASE(hosts_become_canonical)
{
    static const struct {
        const char *given, *canonical; // NULL: refused
    } rows[] = {
        {"Example.COM",           "example.com"          },
        {"example.com.",          "example.com"          },
        {"example.com..",         NULL                   },
        {".",                     NULL                   },
        {"",                      NULL                   },
        {"a",                     "a"                    },
        {"_dmarc.example.com",    "_dmarc.example.com"   },
        {"xn--bcher-kva.example", "xn--bcher-kva.example"},
        {"b\xc3\xbc"
         "cher.example", NULL                   },
        {"example\xe3\x80\x82"
         "com",          NULL                   },
        {"a b",                   NULL                   },
        {"a\tb",                  NULL                   },
        {"a%2eb",                 NULL                   },
        {"user@host",             NULL                   },
        {"host/path",             NULL                   },
        {"1.2.3.4",               "1.2.3.4"              },
        {"1.2.3.4.",              NULL                   },
        {"01.2.3.4",              NULL                   },
        {"1.2.3",                 NULL                   },
        {"127.1",                 NULL                   },
        {"2130706433",            NULL                   },
        {"0x7f000001",            NULL                   },
        {"0x7f.1",                NULL                   },
        {"0x",                    NULL                   },
        {"0177.0.0.1",            NULL                   },
        {"1.2.3.4.5",             NULL                   },
        {"999.1.1.1",             NULL                   },
        {"a.1",                   NULL                   },
        {"a.0x1",                 NULL                   },
        {"1.a",                   "1.a"                  },
        {"1e100.net",             "1e100.net"            },
        {"::1",                   "::1"                  },
        {"[::1]",                 "::1"                  },
        {"[::1",                  NULL                   },
        {"2001:DB8::1",           "2001:db8::1"          },
        {"2001:0db8::1",          NULL                   },
        {"2001:db8:0:0:0:0:0:1",  NULL                   },
        {"fe80::1%eth0",          NULL                   },
        {"::ffff:127.0.0.1",      "::ffff:127.0.0.1"     },
        {"[1.2.3.4]",             NULL                   },
        {"[a]",                   NULL                   },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char host[POLICY_HOST_MAX] = "untouched";
        struct err err = {0};
        int r = policy_host(rows[i].given, strlen(rows[i].given), host, &err);
        if ((r == 0) != (rows[i].canonical != NULL))
            fail_msg("'%s': %d %s", rows[i].given, r, host);
        assert_string_equal(host, r == 0 ? rows[i].canonical : "untouched");
    }
}

CHECK_CASE(hosts_have_a_length_and_no_nul)
{
    char host[POLICY_HOST_MAX], longest[300];
    struct err err = {0};
    assert_int_equal(policy_host("a\0.com", 6, host, &err), -1);
    assert_int_equal(policy_host("a\0", 2, host, &err), -1);
    for (size_t i = 0; i < sizeof longest; i++)
        longest[i] = i % 50 == 49 ? '.' : 'a';
    assert_int_equal(policy_host(longest, 253, host, &err), 0);
    assert_int_equal(strlen(host), 253);
    assert_int_equal(policy_host(longest, 254, host, &err), -1);
    (void)memset(longest, 'a', sizeof longest);
    assert_int_equal(policy_host(longest, 63, host, &err), 0);
    assert_int_equal(policy_host(longest, 64, host, &err), -1);
}

static bool is_open(const struct networks *opened, const char *text)
{
    struct sockaddr_storage address;
    const char *why = NULL;
    if (policy_address(text, &address) != 1)
        fail_msg("%s is no address", text);
    bool open = policy_address_is_open(opened, (const struct sockaddr *)&address, &why);
    assert_true(open || why != NULL);
    return open;
}

CHECK_CASE(special_addresses_are_closed)
{
    // Both ends of each range.
    static const char *const closed[] = {
        "0.0.0.0",
        "0.255.255.255",
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "127.0.0.0",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.0.0",
        "169.254.169.254",
        "169.254.255.255",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.0",
        "192.0.0.255",
        "192.0.2.0",
        "192.0.2.255",
        "192.31.196.1",
        "192.52.193.1",
        "192.175.48.1",
        "192.88.99.0",
        "192.88.99.255",
        "192.168.0.0",
        "192.168.255.255",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.0",
        "198.51.100.255",
        "203.0.113.0",
        "203.0.113.255",
        "224.0.0.0",
        "239.255.255.255",
        "240.0.0.0",
        "255.255.255.254",
        "255.255.255.255",
        "::",
        "::1",
        "::2",
        "::7f00:1",
        "::127.0.0.1",
        "::8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0.0.0.0",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "64:ff9b:1:ffff::808:808",
        "100::1",
        "100:0:0:1::1",
        "2001::1",
        "2001:0:53aa:64c::1",
        "2001:1ff:ffff::1",
        "2001:10::1",
        "2001:20::1",
        "2001:db8::1",
        "2001:db8:ffff:ffff::1",
        "2002:7f00:1::1",
        "2002:a00:1::",
        "2002:c0a8:101::1",
        "2002:a9fe:a9fe::1",
        "2620:4f:8000::1",
        "3fff::1",
        "3fff:fff:ffff::1",
        "4000::1",
        "5f00::1",
        "8000::1",
        "fc00::1",
        "fd00:ec2::254",
        "fdff:ffff::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "feff::1",
        "ff00::1",
        "ff02::1",
        "ff0e::1",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    };
    static const char *const open[] = {
        "1.0.0.0",         "1.1.1.1",          "8.8.8.8",
        "9.255.255.255",   "11.0.0.0",         "100.63.255.255",
        "100.128.0.0",     "126.255.255.255",  "128.0.0.0",
        "169.253.255.255", "169.255.0.0",      "172.15.255.255",
        "172.32.0.0",      "191.255.255.255",  "192.0.1.0",
        "192.0.3.0",       "192.88.98.255",    "192.88.100.0",
        "192.167.255.255", "192.169.0.0",      "198.17.255.255",
        "198.20.0.0",      "198.51.99.255",    "198.51.101.0",
        "203.0.112.255",   "203.0.114.0",      "223.255.255.255",
        "2000::1",         "2001:200::1",      "2001:4860:4860::8888",
        "2001:db7::1",     "2001:db9::1",      "2606:4700::1111",
        "2a00::1",         "3ffe::1",          "3fff:1000::1",
        "2002:808:808::1", "64:ff9b::808:808", "::ffff:8.8.8.8",
    };
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
        if (is_open(NULL, closed[i]))
            fail_msg("%s is open", closed[i]);
    }
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        if (!is_open(NULL, open[i]))
            fail_msg("%s is closed", open[i]);
    }
}

CHECK_CASE(the_installation_opens_some)
{
    struct networks *opened = NULL;
    struct err err = {0};
    assert_int_equal(
        networks_parse("127.0.0.0/8, 10.1.0.0/16,fd00::/8,0.0.0.0/0,ff00::/8", &opened, &err), 0);
    assert_true(is_open(opened, "127.0.0.1"));
    assert_true(is_open(opened, "10.1.2.3"));
    assert_true(is_open(opened, "::ffff:10.1.2.3"));
    assert_true(is_open(opened, "fd12::1"));
    assert_false(is_open(opened, "fe80::1"));
    // Not even by 0.0.0.0/0: they are nobody's.
    assert_false(is_open(opened, "0.0.0.0"));
    assert_false(is_open(opened, "224.0.0.1"));
    assert_false(is_open(opened, "255.255.255.255"));
    assert_false(is_open(opened, "ff02::1"));
    assert_false(is_open(opened, "::"));
    networks_free(opened);
    assert_int_equal(networks_parse("", &opened, &err), 0);
    assert_false(is_open(opened, "127.0.0.1"));
    networks_free(opened);
}

CHECK_CASE(networks_that_make_no_sense)
{
    static const char *const rows[] = {"a",    "10.0.0.0/8;", "10.0.0.1/8", "10.0.0.0/-1", "/8",
                                       "10/8", ",10.0.0.0/8", "::/129",     "10.0.0.0/8 x"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct networks *opened = NULL;
        struct err err = {0};
        if (networks_parse(rows[i], &opened, &err) == 0)
            fail_msg("'%s' was taken", rows[i]);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

CHECK_CASE(other_families_are_closed)
{
    const struct sockaddr unix_address = {.sa_family = AF_UNIX};
    const char *why = NULL;
    assert_false(policy_address_is_open(NULL, &unix_address, &why));
    assert_non_null(why);
}

CHECK_CASE(limits_are_told)
{
    struct policy *policy =
        parsed("{\"mode\":\"internet\",\"maxBytes\":1000,\"bytesPerSecond\":10}");
    assert_int_equal(policy_mode(policy), POLICY_INTERNET);
    assert_int_equal(policy_max_bytes(policy), 1000);
    assert_int_equal(policy_rate(policy), 10);
    policy_free(policy);
}

CHECK_MAIN(cmocka_unit_test(settings_have_one_form),
           cmocka_unit_test(what_makes_no_sense_is_refused), cmocka_unit_test(a_list_has_an_end),
           cmocka_unit_test(hosts_are_matched), cmocka_unit_test(names_are_known_by_any_port),
           cmocka_unit_test(hosts_become_canonical),
           cmocka_unit_test(hosts_have_a_length_and_no_nul),
           cmocka_unit_test(special_addresses_are_closed),
           cmocka_unit_test(the_installation_opens_some),
           cmocka_unit_test(networks_that_make_no_sense),
           cmocka_unit_test(other_families_are_closed), cmocka_unit_test(limits_are_told))
