// SPDX-License-Identifier: Apache-2.0
// SHA-512 against the examples of FIPS 180-4, and in pieces of every size.
#include <stdio.h>
#include <string.h>

#include "base/sha512.h"
#include "check.h"

static void sum(const char *data, size_t len, size_t piece, char ret[2 * SHA512_SIZE + 1])
{
    struct sha512 sha;
    uint8_t raw[SHA512_SIZE];
    sha512_init(&sha);
    for (size_t at = 0; at < len; at += piece)
        sha512_add(&sha, data + at, len - at < piece ? len - at : piece);
    sha512_end(&sha, raw);
    for (int i = 0; i < SHA512_SIZE; i++)
        (void)snprintf(ret + (size_t)2 * i, 3, "%02x", raw[i]);
}

CHECK_CASE(examples)
{
    static const struct {
        const char *text, *sum;
    } rows[] = {
        {"",                                                                  "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
             "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e"                                                             },
        {"abc",                                                               "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
                "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"                                                       },
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
         "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu", "8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018"
         "501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909"},
    };
    char text[2 * SHA512_SIZE + 1];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sum(rows[i].text, strlen(rows[i].text), SHA512_BLOCK, text);
        assert_string_equal(text, rows[i].sum);
    }
}

CHECK_CASE(a_million)
{
    char data[1000], text[2 * SHA512_SIZE + 1];
    struct sha512 sha;
    uint8_t raw[SHA512_SIZE];
    memset(data, 'a', sizeof data);
    sha512_init(&sha);
    for (int i = 0; i < 1000; i++)
        sha512_add(&sha, data, sizeof data);
    sha512_end(&sha, raw);
    for (int i = 0; i < SHA512_SIZE; i++)
        (void)snprintf(text + (size_t)2 * i, 3, "%02x", raw[i]);
    assert_string_equal(text, "e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973eb"
                              "de0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b");
}

// Around the ends of blocks, where the padding goes into a block of its own or not.
CHECK_CASE(pieces)
{
    char data[3 * SHA512_BLOCK], whole[2 * SHA512_SIZE + 1], cut[2 * SHA512_SIZE + 1];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7 + 1);
    for (size_t len = 0; len <= sizeof data; len++) {
        sum(data, len, sizeof data, whole);
        for (size_t piece = 1; piece <= SHA512_BLOCK + 1; piece += len % 16 == 15 ? 1 : 61) {
            sum(data, len, piece, cut);
            assert_string_equal(cut, whole);
        }
    }
}

CHECK_MAIN(cmocka_unit_test(examples), cmocka_unit_test(a_million), cmocka_unit_test(pieces))
