// SPDX-License-Identifier: Apache-2.0
// The hello of real clients (OpenSSL's), whole, cut at every byte, in small records, and broken.
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "egress/hello.h"

// What a client says first.
static size_t real_hello(const char *name, uint8_t *ret, size_t size)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(ctx);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in, out);
    if (name != NULL)
        assert_int_equal(SSL_set_tlsext_host_name(ssl, name), 1);
    SSL_set_connect_state(ssl);
    (void)SSL_do_handshake(ssl);
    int n = BIO_read(out, ret, (int)size);
    assert_true(n > 0);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    return (size_t)n;
}

// The same in records of `step` bytes.
static size_t cut(const uint8_t *hello, size_t len, size_t step, uint8_t *ret)
{
    size_t n = 0;
    for (size_t at = 5; at < len; at += step) {
        size_t here = len - at < step ? len - at : step;
        (void)memcpy(ret + n, hello, 3);
        ret[n + 3] = (uint8_t)(here >> 8);
        ret[n + 4] = (uint8_t)here;
        (void)memcpy(ret + n + 5, hello + at, here);
        n += 5 + here;
    }
    return n;
}

CHECK_CASE(a_real_hello_is_read)
{
    uint8_t data[HELLO_MAX];
    struct hello hello;
    size_t n = real_hello("api.example.com", data, sizeof data);
    assert_int_equal(hello_parse(data, n, &hello), HELLO_WHOLE);
    assert_true(hello.has_name);
    assert_false(hello.encrypted);
    assert_string_equal(hello.name, "api.example.com");
    n = real_hello(NULL, data, sizeof data);
    assert_int_equal(hello_parse(data, n, &hello), HELLO_WHOLE);
    assert_false(hello.has_name);
}

CHECK_CASE(it_may_come_in_pieces)
{
    uint8_t data[HELLO_MAX];
    struct hello hello;
    size_t n = real_hello("a.example", data, sizeof data);
    for (size_t i = 0; i < n; i++) {
        uint8_t *copy = malloc(i + 1); // exactly as long, so that a read beyond shows
        (void)memcpy(copy, data, i);
        assert_int_equal(hello_parse(copy, i, &hello), HELLO_MORE);
        free(copy);
    }
    data[n] = 23; // what comes behind it is not looked at
    assert_int_equal(hello_parse(data, n + 1, &hello), HELLO_WHOLE);
}

CHECK_CASE(it_may_come_in_many_records)
{
    uint8_t data[HELLO_MAX], pieces[HELLO_MAX];
    struct hello hello;
    size_t n = real_hello("a.example", data, sizeof data);
    for (size_t step = 1; step < n; step++) {
        if (n * 6 > sizeof pieces && step == 1)
            continue;
        size_t len = cut(data, n, step, pieces);
        assert_int_equal(hello_parse(pieces, len, &hello), HELLO_WHOLE);
        assert_string_equal(hello.name, "a.example");
        assert_int_equal(hello_parse(pieces, len - 1, &hello), HELLO_MORE);
    }
}

CHECK_CASE(other_protocols_are_told_at_once)
{
    struct hello hello;
    assert_int_equal(hello_parse((const uint8_t *)"GET / HTTP/1.1\r\n", 16, &hello), HELLO_NOT_TLS);
    assert_int_equal(hello_parse((const uint8_t *)"SSH-2.0", 7, &hello), HELLO_NOT_TLS);
    assert_int_equal(hello_parse((const uint8_t *)"\x16\x02", 2, &hello), HELLO_NOT_TLS);
    assert_int_equal(hello_parse((const uint8_t *)"\x80\x2e\x01", 3, &hello), HELLO_NOT_TLS);
    assert_int_equal(hello_parse((const uint8_t *)"", 0, &hello), HELLO_MORE);
}

CHECK_CASE(records_before_the_hello_are_bad)
{
    struct hello hello;
    const uint8_t alert[] = {21, 3, 1, 0, 2, 1, 90, 22, 3, 1};
    assert_int_equal(hello_parse(alert, 1, &hello), HELLO_MORE);
    for (size_t len = 2; len <= sizeof alert; len++)
        assert_int_equal(hello_parse(alert, len, &hello), HELLO_BAD);
    assert_int_equal(hello_parse((const uint8_t *)"\x14\x03\x03", 3, &hello), HELLO_BAD);
    assert_int_equal(hello_parse((const uint8_t *)"\x17\x03\x03", 3, &hello), HELLO_BAD);
    assert_int_equal(hello_parse((const uint8_t *)"\x15\x04", 2, &hello), HELLO_NOT_TLS);
}

CHECK_CASE(nonsense_is_bad)
{
    uint8_t data[HELLO_MAX + 1];
    struct hello hello;
    // A record of no length, one too long, another handshake message, a message too long.
    assert_int_equal(hello_parse((const uint8_t *)"\x16\x03\x01\x00\x00", 5, &hello), HELLO_BAD);
    assert_int_equal(hello_parse((const uint8_t *)"\x16\x03\x01\x40\x01", 5, &hello), HELLO_BAD);
    assert_int_equal(
        hello_parse((const uint8_t *)"\x16\x03\x01\x00\x04\x02\x00\x00\x00", 9, &hello), HELLO_BAD);
    assert_int_equal(
        hello_parse((const uint8_t *)"\x16\x03\x01\x00\x04\x01\xff\xff\xff", 9, &hello), HELLO_BAD);
    // An alert between its records.
    size_t n = real_hello("a.example", data, sizeof data);
    uint8_t pieces[HELLO_MAX];
    size_t len = cut(data, n, 100, pieces);
    pieces[105] = 21;
    assert_int_equal(hello_parse(pieces, len, &hello), HELLO_BAD);
    (void)memset(data, 0, sizeof data);
    (void)memcpy(data, "\x16\x03\x01\x40\x00\x01\x00\x3f\xff", 9);
    assert_int_equal(hello_parse(data, HELLO_MAX, &hello), HELLO_BAD);
    assert_int_equal(hello_parse(data, HELLO_MAX + 1, &hello), HELLO_BAD);
}

// Puts an extension at the end of a hello: lengths of list, message and record grow.
static size_t add_extension(uint8_t *data, size_t n, unsigned type, const char *body, size_t len)
{
    struct hello before;
    assert_int_equal(hello_parse(data, n, &before), HELLO_WHOLE);
    size_t grow = 4 + len;
    size_t at = 5 + 4 + 2 + 32;
    at += 1u + data[at];
    at += 2u + ((size_t)data[at] << 8 | data[at + 1]);
    at += 1u + data[at];
    size_t list = ((size_t)data[at] << 8 | data[at + 1]) + grow;
    data[at] = (uint8_t)(list >> 8);
    data[at + 1] = (uint8_t)list;
    size_t message = n - 9 + grow, record = n - 5 + grow;
    data[7] = (uint8_t)(message >> 8);
    data[8] = (uint8_t)message;
    data[3] = (uint8_t)(record >> 8);
    data[4] = (uint8_t)record;
    data[n] = (uint8_t)(type >> 8);
    data[n + 1] = (uint8_t)type;
    data[n + 2] = (uint8_t)(len >> 8);
    data[n + 3] = (uint8_t)len;
    (void)memcpy(data + n + 4, body, len);
    return n + grow;
}

CHECK_CASE(encrypted_hellos_are_told)
{
    uint8_t data[HELLO_MAX];
    struct hello hello;
    size_t n = real_hello("front.example", data, sizeof data);
    n = add_extension(data, n, 0xfe0d, "\0\0\1\0\1\0\0\0\0", 9);
    assert_int_equal(hello_parse(data, n, &hello), HELLO_WHOLE);
    assert_true(hello.encrypted);
    assert_string_equal(hello.name, "front.example");
}

CHECK_CASE(a_second_name_is_bad)
{
    uint8_t data[HELLO_MAX];
    struct hello hello;
    size_t n = real_hello("a.example", data, sizeof data);
    n = add_extension(data, n, 0, "\0\x04\0\0\x01z", 6);
    assert_int_equal(hello_parse(data, n, &hello), HELLO_BAD);
    n = real_hello(NULL, data, sizeof data);
    n = add_extension(data, n, 0, "\0\x08\0\0\x01y\0\0\x01z", 10); // two in one list
    assert_int_equal(hello_parse(data, n, &hello), HELLO_BAD);
    n = real_hello(NULL, data, sizeof data);
    n = add_extension(data, n, 0,
                      "\0\x06\0\0\x03"
                      "a\0b",
                      8); // a NUL
    assert_int_equal(hello_parse(data, n, &hello), HELLO_BAD);
    n = real_hello(NULL, data, sizeof data);
    n = add_extension(data, n, 0,
                      "\0\x06\0\0\x03"
                      "abc",
                      8);
    assert_int_equal(hello_parse(data, n, &hello), HELLO_WHOLE);
    assert_string_equal(hello.name, "abc");
}

CHECK_MAIN(cmocka_unit_test(a_real_hello_is_read), cmocka_unit_test(it_may_come_in_pieces),
           cmocka_unit_test(it_may_come_in_many_records),
           cmocka_unit_test(other_protocols_are_told_at_once),
           cmocka_unit_test(records_before_the_hello_are_bad), cmocka_unit_test(nonsense_is_bad),
           cmocka_unit_test(encrypted_hellos_are_told), cmocka_unit_test(a_second_name_is_bad))
