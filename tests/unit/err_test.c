// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "check.h"

CHECK_CASE(set_fills_and_returns_minus_one)
{
    struct err err = {.sys_errno = 7};
    assert_int_equal(err_set(&err, ERR_CONFLICT, "box %d is %s", 3, "busy"), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_int_equal(err.sys_errno, 0);
    assert_string_equal(err.msg, "box 3 is busy");
}

CHECK_CASE(sys_says_what_the_errno_means)
{
    struct err err;
    assert_int_equal(err_sys(&err, ENOENT, "open '%s'", "/nowhere"), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_string_equal(err.msg, "open '/nowhere': No such file or directory");
    (void)err_sys(&err, 99999, "odd");
    assert_string_equal(err.msg, "odd: unknown error");
    assert_int_equal(err.code, ERR_INTERNAL);
}

CHECK_CASE(codes_follow_from_errno)
{
    static const struct {
        int sys_errno;
        enum err_code code;
    } table[] = {
        {EEXIST,       ERR_CONFLICT   },
        {EBUSY,        ERR_CONFLICT   },
        {ENOSPC,       ERR_EXHAUSTED  },
        {EDQUOT,       ERR_EXHAUSTED  },
        {EMFILE,       ERR_EXHAUSTED  },
        {EPERM,        ERR_DENIED     },
        {EROFS,        ERR_DENIED     },
        {ENOSYS,       ERR_UNSUPPORTED},
        {EOPNOTSUPP,   ERR_UNSUPPORTED},
        {ENODEV,       ERR_UNSUPPORTED},
        {EINVAL,       ERR_INTERNAL   },
        {EAFNOSUPPORT, ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct err err;
        (void)err_sys(&err, table[i].sys_errno, "x");
        assert_int_equal(err.code, table[i].code);
    }
}

CHECK_CASE(wrap_keeps_code_and_adds_in_front)
{
    struct err err;
    (void)err_sys(&err, EACCES, "mkdir 'a'");
    assert_int_equal(err_wrap(&err, "create %s", "b"), -1);
    assert_string_equal(err.msg, "create b: mkdir 'a': Permission denied");
    assert_int_equal(err.code, ERR_DENIED);
    assert_int_equal(err.sys_errno, EACCES);
}

// Every length around the size of the message: cut, ended, never past the end.
CHECK_CASE(long_messages_are_cut)
{
    char text[600];
    for (size_t len = 200; len < sizeof text; len++) {
        (void)memset(text, 'm', len);
        text[len] = '\0';
        struct err err;
        size_t want = len < sizeof err.msg ? len : sizeof err.msg - 1;
        (void)err_set(&err, ERR_INVALID, "%s", text);
        assert_int_equal(strlen(err.msg), want);
        (void)err_sys(&err, EIO, "%s", text);
        assert_true(strlen(err.msg) < sizeof err.msg);
        assert_memory_equal(err.msg, text, want);
        (void)err_wrap(&err, "%s", text);
        assert_true(strlen(err.msg) < sizeof err.msg);
    }
}

CHECK_CASE(a_message_may_quote_itself)
{
    struct err err;
    (void)err_set(&err, ERR_INVALID, "inner");
    (void)err_set(&err, ERR_INTERNAL, "<%s>", err.msg);
    assert_string_equal(err.msg, "<inner>");
    (void)err_wrap(&err, "again %s", err.msg);
    assert_string_equal(err.msg, "again <inner>: <inner>");
}

CHECK_MAIN(cmocka_unit_test(set_fills_and_returns_minus_one),
           cmocka_unit_test(sys_says_what_the_errno_means),
           cmocka_unit_test(codes_follow_from_errno),
           cmocka_unit_test(wrap_keeps_code_and_adds_in_front),
           cmocka_unit_test(long_messages_are_cut), cmocka_unit_test(a_message_may_quote_itself))
