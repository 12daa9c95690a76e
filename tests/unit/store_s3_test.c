// SPDX-License-Identifier: Apache-2.0
// The parts of the S3 store that need no server: signatures, as AWS has published them, and what is
// read of answers.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "check.h"
#include "store/s3-list.h"
#include "store/s3-sign.h"
#include "store/s3-xml.h"
#include "store/sha256.h"

// --- signatures ---

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// "Authenticating requests: using the Authorization header", of the S3 API's reference.
static const struct example {
    const char *method, *path, *query, *payload, *signature;
    struct s3_field fields[6];
} examples[] = {
    {
     .method = "GET",
     .path = "/test.txt",
     .query = "",
     .payload = EMPTY,
     .signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
     .fields = {{"host", "examplebucket.s3.amazonaws.com"},
                   {"range", "bytes=0-9"},
                   {"x-amz-content-sha256", EMPTY},
                   {"x-amz-date", "20130524T000000Z"}},
     },
    {
     .method = "PUT",
     .path = "/test%24file.text",
     .query = "",
     .payload = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
     .signature = "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
     .fields = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                   {"host", "examplebucket.s3.amazonaws.com"},
                   {"x-amz-content-sha256",
                    "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"},
                   {"x-amz-date", "20130524T000000Z"},
                   {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
     },
    {
     .method = "GET",
     .path = "/",
     .query = "lifecycle=",
     .payload = EMPTY,
     .signature = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
     .fields = {{"host", "examplebucket.s3.amazonaws.com"},
                   {"x-amz-content-sha256", EMPTY},
                   {"x-amz-date", "20130524T000000Z"}},
     },
    {
     .method = "GET",
     .path = "/",
     .query = "max-keys=2&prefix=J",
     .payload = EMPTY,
     .signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
     .fields = {{"host", "examplebucket.s3.amazonaws.com"},
                   {"x-amz-content-sha256", EMPTY},
                   {"x-amz-date", "20130524T000000Z"}},
     },
};

CHECK_CASE(published_signatures)
{
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const struct example *e = &examples[i];
        struct s3_signed request = {.method = e->method,
                                    .path = e->path,
                                    .query = e->query,
                                    .fields = e->fields,
                                    .payload = e->payload,
                                    .region = "us-east-1",
                                    .access_key = "AKIAIOSFODNN7EXAMPLE",
                                    .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                    .when = "20130524T000000Z"};
        while (e->fields[request.n_fields].name != NULL)
            request.n_fields++;
        auto_buf said;
        buf_init(&said, 4096);
        s3_sign(&request, &said);
        const char *signature = strstr(buf_str(&said), "Signature=");
        assert_non_null(signature);
        assert_string_equal(signature + strlen("Signature="), e->signature);
    }
}

CHECK_CASE(encoding)
{
    auto_buf path, query;
    buf_init(&path, 256);
    buf_init(&query, 256);
    s3_encode(&path, "a/b c+\xc3\xa4~-._$", true);
    s3_encode(&query, "a/b=&%", false);
    assert_string_equal(buf_str(&path), "a/b%20c%2B%C3%A4~-._%24");
    assert_string_equal(buf_str(&query), "a%2Fb%3D%26%25");
}

CHECK_CASE(sums_in_hexadecimal)
{
    uint8_t sha[32], back[32] = {0};
    char hex[66];
    sha256_of("", 0, sha);
    sha256_hex(sha, hex);
    assert_string_equal(hex, EMPTY);
    assert_true(sha256_from_hex(hex, back));
    assert_memory_equal(sha, back, 32);
    hex[63] = 'A';
    assert_false(sha256_from_hex(hex, back));
    assert_false(sha256_from_hex("", back));
    assert_false(sha256_from_hex(EMPTY "0", back));
}

// --- XML ---

static int tell(void *data, const char *path, const char *text)
{
    struct buf *told = data;
    return buf_printf(told, "%s=%s|", path, text);
}

static void assert_xml(const char *text, const char *expected)
{
    auto_buf told;
    buf_init(&told, 4096);
    assert_int_equal(xml_read(text, strlen(text), tell, &told), 0);
    assert_string_equal(buf_str(&told), expected);
}

CHECK_CASE(xml_that_is_read)
{
    assert_xml("<a/>", "a=|");
    assert_xml("<?xml version=\"1.0\"?>\n<a x='1' y = \"<&>\"><b>c</b ><!-- <d> --><b/></a>\n",
               "a/b=c|a/b=|a=|");
    assert_xml("<a>&lt;&amp;&gt;&quot;&apos;&#65;&#x42;&#228;&#x20ac;&#x1D11E;</a>",
               "a=<&>\"'AB\xc3\xa4\xe2\x82\xac\xf0\x9d\x84\x9e|");
    assert_xml("<s:a xmlns:s='x'> t </s:a>", "s:a= t |");
}

CHECK_CASE(xml_that_is_refused)
{
    static const char *const bad[] = {
        "",
        "a",
        "<a>",
        "<a></b>",
        "</a>",
        "<a/><b/>",
        "<a>&x;",
        "<a>&</a>",
        "<a>&#0;</a>",
        "<a b></a>",
        "<a b=c/>",
        "<a b='/>",
        "<!DOCTYPE a><a/>",
        "<a>&#x110000;</a>",
        "<a>&#;</a>",
        "<a/>x",
        "<>",
        "< a/>",
        "<a><![CDATA[x]]></a>",
        "<?xml",
        "<!--",
        "&amp;<a/>",
    };
    auto_buf told;
    buf_init(&told, 4096);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_true(xml_read(bad[i], strlen(bad[i]), tell, &told) < 0);
    static const char deep[] = "<a><a><a><a><a><a><a><a><a></a></a></a></a></a></a></a></a></a>";
    assert_int_equal(xml_read(deep, strlen(deep), tell, &told), -E2BIG);
}

// Wherever an answer is cut, it is not taken for one.
CHECK_CASE(pages_that_are_cut)
{
    static const char text[] =
        "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>a%2Fb+c</Key>"
        "<LastModified>2026-11-16T10:00:00.000Z</LastModified><Size>7</Size></Contents>"
        "<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>"
        "</ListBucketResult>";
    for (size_t len = 0; len <= strlen(text); len++) {
        struct s3_page page = {0};
        char *cut = strndup(text, len); // so that the sanitizer sees who reads on
        int r = s3_page_read(&page, cut, len);
        assert_int_equal(r == 0, len == strlen(text));
        if (r == 0) {
            assert_int_equal(page.n, 1);
            assert_string_equal(page.items[0].key, "a/b c");
            assert_int_equal(page.items[0].size, 7);
            assert_string_equal(page.token, "x");
            assert_true(page.has_more);
        }
        s3_page_done(&page);
        free(cut);
    }
}

CHECK_MAIN(cmocka_unit_test(published_signatures), cmocka_unit_test(encoding),
           cmocka_unit_test(sums_in_hexadecimal), cmocka_unit_test(xml_that_is_read),
           cmocka_unit_test(xml_that_is_refused), cmocka_unit_test(pages_that_are_cut))
