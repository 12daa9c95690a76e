// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "api/file-path.h"
#include "check.h"

static bool is_good(const char *path)
{
    struct err err = {0};
    int r = file_path_check(path, &err);
    assert_true(r == 0 || err.code == ERR_INVALID);
    return r == 0;
}

CHECK_CASE(test_paths)
{
    static const char *const good[] = {"/",    "/a",       "/a/b",    "/...",  "/.a", "/a..",
                                       "/a b", "/\\..\\x", "/%2e%2e", "/\xff", "/\n"};
    static const char *const bad[] = {"",    "a",    "a/b",   "//",     "/a/",  "/a//b",
                                      "/.",  "/..",  "/a/..", "/../a",  "/a/.", "/./a",
                                      "./a", "../a", "//a",   "/a/../b"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(is_good(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(is_good(bad[i]));
}

CHECK_CASE(test_lengths)
{
    char name[FILE_NAME_MAX + 3] = "/";
    char path[FILE_PATH_MAX + 2];
    char ret[FILE_PATH_MAX + 1];
    struct err err = {0};
    memset(name + 1, 'a', FILE_NAME_MAX);
    assert_true(is_good(name));
    name[FILE_NAME_MAX + 1] = 'a';
    assert_false(is_good(name));
    for (size_t i = 0; i < FILE_PATH_MAX + 1; i++)
        path[i] = i % 100 == 0 ? '/' : 'a';
    path[FILE_PATH_MAX] = '\0';
    assert_true(is_good(path));
    assert_int_equal(file_path_of_param(path + 1, ret, &err), 0);
    assert_string_equal(ret, path);
    path[FILE_PATH_MAX] = 'a';
    path[FILE_PATH_MAX + 1] = '\0';
    assert_false(is_good(path));
    assert_int_equal(file_path_of_param(path + 1, ret, &err), -1);
    assert_int_equal(file_path_of_param(NULL, ret, &err), 0);
    assert_string_equal(ret, "/");
    assert_int_equal(file_path_of_param("a/../b", ret, &err), -1);
}

CHECK_CASE(test_modes)
{
    uint32_t mode = 1;
    struct err err = {0};
    assert_int_equal(file_mode_read("0644", &mode, &err), 0);
    assert_int_equal(mode, 0644);
    assert_int_equal(file_mode_read("0", &mode, &err), 0);
    assert_int_equal(mode, 0);
    assert_int_equal(file_mode_read("777", &mode, &err), 0);
    assert_int_equal(mode, 0777);
    static const char *const bad[] = {"",      "4755", "1777", "02755", "888",
                                      "0o644", "-1",   " 644", "644 ",  "00000000644"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(file_mode_read(bad[i], &mode, &err), -1);
        assert_int_equal(mode, 0777);
    }
}

CHECK_CASE(test_types)
{
    assert_string_equal(file_media_type("/a/b.JSON"), "application/json");
    assert_string_equal(file_media_type("/a.txt/b"), "application/octet-stream");
    assert_string_equal(file_media_type("/a/.png"), "image/png");
    assert_string_equal(file_media_type("/"), "application/octet-stream");
    assert_string_equal(file_media_type("/a."), "application/octet-stream");
}

static void check_mark(const char *path, const char *mark)
{
    struct err err = {0};
    auto_buf text, back;
    buf_init(&text, 2 * FILE_PATH_MAX + 1);
    buf_init(&back, FILE_PATH_MAX);
    file_mark_write(&text, path);
    assert_string_equal(buf_str(&text), mark);
    assert_int_equal(file_mark_read(buf_str(&text), &back, &err), 0);
    assert_string_equal(buf_str(&back), path);
}

CHECK_CASE(test_marks)
{
    check_mark("a/b", "a/b");
    check_mark("\xff/b", "~ff2f62");
    check_mark("~x", "~7e78");
    static const char *const bad[] = {"~0", "~zz", "~00", "~FF", "~f"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = {0};
        auto_buf back;
        buf_init(&back, FILE_PATH_MAX);
        assert_int_equal(file_mark_read(bad[i], &back, &err), -1);
    }
}

CHECK_CASE(test_join)
{
    auto_buf buf;
    buf_init(&buf, 100);
    file_path_join(&buf, "/", "a");
    assert_string_equal(buf_str(&buf), "/a");
    buf_reset(&buf);
    file_path_join(&buf, "/a", "b/c");
    assert_string_equal(buf_str(&buf), "/a/b/c");
    buf_reset(&buf);
    file_path_join(&buf, "/a", "");
    assert_string_equal(buf_str(&buf), "/a");
    assert_string_equal(file_base_name("/a/b"), "b");
    assert_string_equal(file_base_name("b"), "b");
}

CHECK_MAIN(cmocka_unit_test(test_paths), cmocka_unit_test(test_lengths),
           cmocka_unit_test(test_modes), cmocka_unit_test(test_types), cmocka_unit_test(test_marks),
           cmocka_unit_test(test_join))
