// SPDX-License-Identifier: Apache-2.0
// A long string of an object, read apart from the rest: together both must mean what the object
// means, and be refused where it is.
#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/container/long-json.h"

enum { SIZE_MAX_TRIED = 256 * 1024, FLAGS = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int add(void *data, const char *bytes, size_t len)
{
    assert(len > 0);
    return buf_append(data, bytes, len);
}

// What base64 stands for, all at once, without line ends.
static void check_base64(const struct long_text *text, const struct buf *plain)
{
    auto_buf joined, bytes;
    buf_init(&joined, plain->len + 1);
    buf_init(&bytes, plain->len + 1);
    for (size_t i = 0; i < plain->len; i++) {
        if (plain->data[i] != '\r' && plain->data[i] != '\n')
            (void)buf_append_char(&joined, plain->data[i]);
    }
    size_t n = 0, max = joined.len + 1;
    char *want = malloc(max);
    assert(want != NULL);
    int r = sodium_base642bin((unsigned char *)want, max, buf_str(&joined), joined.len, NULL, &n,
                              NULL, sodium_base64_VARIANT_ORIGINAL);
    int got = long_json_decode(text, /*is_base64=*/true, add, &bytes);
    assert(got == (r == 0 ? 0 : -EINVAL));
    assert(r != 0 || (n == bytes.len && memcmp(want, buf_str(&bytes), n) == 0));
    free(want);
}

static void check(const char *json, size_t len)
{
    struct long_text text = {0};
    auto_buf rest, plain;
    buf_init(&rest, len + 1);
    buf_init(&plain, len + 1);
    json_auto_t *whole = json_loadb(json, len, FLAGS, NULL);
    int split = long_json_split(json, len, "content", &text, &rest);
    json_auto_t *left = split == 0 ? json_loadb(buf_str(&rest), rest.len, FLAGS, NULL) : NULL;
    int r = text.at != NULL ? long_json_decode(&text, /*is_base64=*/false, add, &plain) : 0;
    assert(split == 0 || split == -EILSEQ);
    assert(r == 0 || r == -EILSEQ);
    assert((whole != NULL) == (left != NULL && r == 0));
    if (whole == NULL)
        return;
    const json_t *content = json_object_get(whole, "content");
    if (text.at == NULL) {
        assert(json_equal(whole, left));
        return;
    }
    assert(json_is_string(content) && json_string_length(content) == plain.len);
    assert(memcmp(json_string_value(content), buf_str(&plain), plain.len) == 0);
    (void)json_object_set_new(left, "content", json_stringn(buf_str(&plain), plain.len));
    assert(json_equal(whole, left));
    check_base64(&text, &plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && size <= SIZE_MAX_TRIED)
        check((const char *)data, size);
    return 0;
}
