// SPDX-License-Identifier: Apache-2.0
#include <jansson.h>
#include <string.h>

#include "check.h"
#include "edge/error.h"

CHECK_CASE(test_table)
{
    for (int i = 0; i < ERROR_KIND_MAX; i++) {
        enum error_kind kind = (enum error_kind)i;
        assert_in_range(error_status(kind), 400, 599);
        assert_non_null(error_name(kind));
        assert_non_null(error_meaning(kind));
        for (int k = 0; k < i; k++)
            assert_string_not_equal(error_name(kind), error_name((enum error_kind)k));
    }
}

CHECK_CASE(test_codes)
{
    static const struct {
        enum err_code code;
        unsigned status;
        const char *name;
    } codes[] = {
        {ERR_INVALID,     400, "INVALID_REQUEST"},
        {ERR_NOT_FOUND,   404, "NOT_FOUND"      },
        {ERR_CONFLICT,    409, "CONFLICT"       },
        {ERR_EXHAUSTED,   403, "QUOTA_EXCEEDED" },
        {ERR_DENIED,      403, "FORBIDDEN"      },
        {ERR_UNSUPPORTED, 501, "NOT_IMPLEMENTED"},
        {ERR_UNAVAILABLE, 503, "UNAVAILABLE"    },
        {ERR_INTERNAL,    500, "INTERNAL_ERROR" },
        {ERR_NONE,        500, "INTERNAL_ERROR" },
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        assert_int_equal(error_status(error_of(codes[i].code)), codes[i].status);
        assert_string_equal(error_name(error_of(codes[i].code)), codes[i].name);
    }
}

CHECK_CASE(test_body)
{
    auto_buf buf;
    buf_init(&buf, 1024);
    error_write(&buf, ERROR_NOT_FOUND, "no \"such\" \xff thing", "r-1", "{\"exitCode\":3}");
    json_t *tree = json_loadb(buf.data, buf.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(tree);
    assert_string_equal(json_string_value(json_object_get(tree, "error")),
                        "no \"such\" \xef\xbf\xbd thing");
    assert_string_equal(json_string_value(json_object_get(tree, "error_code")), "NOT_FOUND");
    assert_string_equal(json_string_value(json_object_get(tree, "request_id")), "r-1");
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(tree, "details"), "exitCode")), 3);
    json_decref(tree);
    buf_reset(&buf);
    error_write(&buf, ERROR_INTERNAL, "x", NULL, NULL);
    assert_string_equal(buf_str(&buf), "{\"error\":\"x\",\"error_code\":\"INTERNAL_ERROR\"}\n");
}

CHECK_MAIN(cmocka_unit_test(test_table), cmocka_unit_test(test_codes), cmocka_unit_test(test_body))
