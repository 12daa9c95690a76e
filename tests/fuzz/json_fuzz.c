// SPDX-License-Identifier: Apache-2.0
// The JSON reader against another one, jansson: both take a text or both refuse it, and they
// understand the same. What they may differ in: nesting past our limit, and numbers past a double's
// range.
#include <assert.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-in.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(const struct json_node *ours, const json_t *theirs);

static void compare_object(const struct json_node *ours, const json_t *theirs)
{
    size_t n = 0;
    for (const struct json_node *m = json_first(ours); m != NULL; m = json_next(m), n++) {
        assert(m->key != NULL && utf8_valid(m->key, strlen(m->key)));
        const json_t *value = json_object_get(theirs, m->key);
        assert(value != NULL);
        if (json_get(ours, m->key) == m)
            compare(m, value);
    }
    assert(n == ours->n && n >= json_object_size(theirs));
}

static void compare_array(const struct json_node *ours, const json_t *theirs)
{
    size_t n = 0;
    for (const struct json_node *e = json_first(ours); e != NULL; e = json_next(e))
        compare(e, json_array_get(theirs, n++));
    assert(n == ours->n && n == json_array_size(theirs));
}

static void compare(const struct json_node *ours, const json_t *theirs)
{
    switch (ours->type) {
    case JSON_NODE_NULL:
        assert(json_is_null(theirs));
        break;
    case JSON_NODE_BOOL:
        assert(json_is_boolean(theirs) && ours->is_true == json_is_true(theirs));
        break;
    case JSON_NODE_NUMBER:
        assert(json_is_number(theirs));
        assert(json_double(ours, -1) == json_number_value(theirs));
        if (json_is_integer(theirs))
            assert(json_int(ours, -1) == json_integer_value(theirs));
        break;
    case JSON_NODE_STRING:
        assert(json_is_string(theirs) && ours->text_len == json_string_length(theirs));
        assert(memcmp(ours->text, json_string_value(theirs), ours->text_len + 1) == 0);
        break;
    case JSON_NODE_ARRAY:
        assert(json_is_array(theirs));
        compare_array(ours, theirs);
        break;
    case JSON_NODE_OBJECT:
        assert(json_is_object(theirs));
        compare_object(ours, theirs);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct json_doc *doc = NULL;
    json_error_t their_err;
    int r = json_read((const char *)data, size, &doc, &err);
    json_t *theirs =
        json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &their_err);
    if (size > 0 && memchr(data, 0, size) != NULL)
        assert(r < 0); // jansson takes one after a number for the end
    else if (r == 0 && theirs != NULL)
        compare(json_root(doc), theirs);
    else if (r == 0)
        assert(json_error_code(&their_err) == json_error_numeric_overflow);
    else if (theirs != NULL)
        assert(strstr(err.msg, "nested too deeply") != NULL);
    json_decref(theirs);
    json_doc_free(doc);
    return 0;
}
