// SPDX-License-Identifier: Apache-2.0
// .gitignore's patterns: a table of what they match, each row also asked of git itself.
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"
#include "pack/ignore.h"

static const struct {
    const char *lines, *path; // a path that ends with a slash is a directory's
    bool is_ignored;
} rows[] = {
    {"foo",                  "foo",       true },
    {"foo",                  "a/foo",     true },
    {"foo",                  "foo/",      true },
    {"foo",                  "foobar",    false},
    {"/foo",                 "foo",       true },
    {"/foo",                 "a/foo",     false},
    {"foo/",                 "foo/",      true },
    {"foo/",                 "foo",       false},
    {"foo/",                 "a/foo/",    true },
    {"a/foo",                "a/foo",     true },
    {"a/foo",                "b/a/foo",   false},
    {"*.o",                  "x.o",       true },
    {"*.o",                  "d/x.o",     true },
    {"*.o",                  "x.oo",      false},
    {"*.o",                  ".o",        true },
    {"d/*.o",                "d/x.o",     true },
    {"d/*.o",                "d/e/x.o",   false},
    {"*",                    "anything",  true },
    {"a*b*c",                "aXbYc",     true },
    {"a*b*c",                "abcbd",     false},
    {"a**b",                 "axxb",      true },
    {"a**b/c",               "axb/c",     true },
    {"a**b/c",               "ax/yb/c",   false},
    {"?",                    "a",         true },
    {"?",                    "ab",        false},
    {"a?c/d",                "a/c/d",     false},
    {"**/foo",               "foo",       true },
    {"**/foo",               "a/b/foo",   true },
    {"**/foo",               "a/bfoo",    false},
    {"foo/**",               "foo/",      false},
    {"foo/**",               "foo/a",     true },
    {"foo/**",               "foo/a/b",   true },
    {"foo/**",               "a/foo/b",   false},
    {"a/**/b",               "a/b",       true },
    {"a/**/b",               "a/x/b",     true },
    {"a/**/b",               "a/x/y/b",   true },
    {"a/**/b",               "a/x/bb",    false},
    {"a/**/b/**/c",          "a/b/x/b/c", true },
    {"a/**/b/**/c",          "a/x/c",     false},
    {"**",                   "a/b",       true },
    {"**/",                  "a/",        true },
    {"**/",                  "a",         false},
    {"[abc]",                "b",         true },
    {"[abc]",                "d",         false},
    {"[!abc]",               "d",         true },
    {"[^abc]",               "a",         false},
    {"[a-c]x",               "bx",        true },
    {"[a-c]x",               "dx",        false},
    {"[]]",                  "]",         true },
    {"[]-]",                 "-",         true },
    {"[a-]",                 "-",         true },
    {"[\\]]",                "]",         true },
    {"[[:digit:]]",          "7",         true },
    {"[[:digit:]]",          "x",         false},
    {"[[:upper:][:digit:]]", "Q",         true },
    {"[[:nonsense:]]",       "n",         false},
    {"[abc",                 "[abc",      false},
    {"a[b/]c",               "abc",       true },
    {"a/x[b/]c",             "a/xbc",     true },
    {"\\*",                  "*",         true },
    {"\\*",                  "x",         false},
    {"\\!x",                 "!x",        true },
    {"\\#x",                 "#x",        true },
    {"#x",                   "#x",        false},
    {"x ",                   "x",         true },
    {"x\\ ",                 "x ",        true },
    {"x\\ ",                 "x",         false},
    {"x\\",                  "x\\",       false},
    {" x",                   " x",        true },
    {" x",                   "x",         false},
    {"*.o\n!keep.o",         "keep.o",    false},
    {"*.o\n!keep.o",         "other.o",   true },
    {"!keep.o\n*.o",         "keep.o",    true },
    {"foo\n\n!foo\nfoo",     "foo",       true },
    {"foo\r\nbar\r\n",       "foo",       true },
    {"foo\r\nbar\r\n",       "bar",       true },
    {"\xef\xbb\xbf"
     "foo",             "foo",       true },
    {"/",                    "foo",       false},
    {"//foo",                "foo",       false},
    {"foo//",                "foo/",      false},
    {"a/b/",                 "a/b/",      true },
    {"a/b/",                 "a/b",       false},
    {"/*\n!/keep",           "keep",      false},
    {"/*\n!/keep",           "drop",      true },
    {"\xc3\xbc*",            "\xc3\xbcx", true },
    {"*.[oa]",               "x.a",       true },
    {"*.[oa]",               "x.c",       false},
    {"a\\b",                 "ab",        true },
    {"***",                  "x",         true },
    {"a/***",                "a/x",       true },
    {"a/***/b",              "a/x/b",     true },
    {"a/***/b",              "a/x/y/b",   true },
};

enum { ROWS = sizeof rows / sizeof *rows };

static bool is_ignored(const char *lines, const char *path)
{
    char plain[256];
    struct ignore *ignore = ignore_new();
    assert_non_null(ignore);
    assert_int_equal(ignore_add(ignore, "", 0, lines, strlen(lines)), 0);
    size_t len = strlen(path);
    bool is_dir = path[len - 1] == '/';
    (void)snprintf(plain, sizeof plain, "%.*s", (int)(len - is_dir), path);
    // As a walk does it: what is in an excluded directory is not asked about.
    bool found = false;
    for (char *slash = strchr(plain, '/'); slash != NULL && !found;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        found = ignore_check(ignore, plain, true) == IGNORE_YES;
        *slash = '/';
    }
    found = found || ignore_check(ignore, plain, is_dir) == IGNORE_YES;
    ignore_free(ignore);
    return found;
}

CHECK_CASE(table)
{
    for (int i = 0; i < ROWS; i++) {
        if (is_ignored(rows[i].lines, rows[i].path) != rows[i].is_ignored)
            fail_msg("row %d: '%s' and '%s'", i, rows[i].lines, rows[i].path);
    }
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

// 0: git ignores it; 1: it does not.
static int ask_git(const char *top, const char *path)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)freopen("/dev/null", "w", stdout);
        (void)execlp("git", "git", "-C", top, "-c", "core.excludesFile=/dev/null", "check-ignore",
                     "-q", "--no-index", "--", path, NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void run(const char *const *argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void make_dirs(const char *top, const char *path)
{
    char whole[160];
    (void)snprintf(whole, sizeof whole, "%s/%s", top, path);
    run((const char *const[]){"mkdir", "-p", whole, NULL});
}

static void remove_dirs(const char *top)
{
    static const char *const names[] = {"foo", "a/foo", "a/b", "a"};
    char whole[160];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(whole, sizeof whole, "%s/%s", top, names[i]);
        (void)rmdir(whole);
    }
}

CHECK_CASE(git_agrees)
{
    char top[] = "/tmp/cay-ignore-XXXXXX", file[64];
    assert_non_null(mkdtemp(top));
    (void)snprintf(file, sizeof file, "%s/.gitignore", top);
    run((const char *const[]){"git", "init", "-q", top, NULL});
    int wrong = 0;
    for (int i = 0; i < ROWS; i++) {
        char path[64];
        size_t len = strlen(rows[i].path);
        write_file(file, rows[i].lines);
        (void)snprintf(path, sizeof path, "%s", rows[i].path);
        if (path[len - 1] == '/') { // git looks what it is
            path[len - 1] = '\0';
            make_dirs(top, path);
        }
        if (ask_git(top, path) != (rows[i].is_ignored ? 0 : 1)) {
            print_error("row %d: git thinks otherwise of '%s' and '%s'\n", i, rows[i].lines,
                        rows[i].path);
            wrong++;
        }
        remove_dirs(top);
    }
    run((const char *const[]){"rm", "-rf", top, NULL});
    assert_int_equal(wrong, 0);
}

CHECK_CASE(files_below_are_stronger_and_go)
{
    struct ignore *ignore = ignore_new();
    assert_int_equal(ignore_add(ignore, "", 0, "*.log\n", 6), 0);
    assert_int_equal(ignore_add(ignore, "sub", 1, "!*.log\n/only\n", 13), 0);
    assert_int_equal(ignore_check(ignore, "a.log", false), IGNORE_YES);
    assert_int_equal(ignore_check(ignore, "sub/a.log", false), IGNORE_NO);
    assert_int_equal(ignore_check(ignore, "sub/only", false), IGNORE_YES);
    assert_int_equal(ignore_check(ignore, "only", false), IGNORE_NO);
    assert_int_equal(ignore_check(ignore, "sub/x/only", false), IGNORE_NO);
    ignore_leave(ignore, 0);
    assert_int_equal(ignore_check(ignore, "sub/a.log", false), IGNORE_YES);
    assert_int_equal(ignore_check(ignore, "sub/only", false), IGNORE_NO);
    ignore_free(ignore);
}

CHECK_CASE(includes)
{
    struct ignore *ignore = ignore_new();
    assert_int_equal(ignore_add_include(ignore, "src/"), 0);
    assert_int_equal(ignore_add_include(ignore, "*.md"), 0);
    assert_int_equal(ignore_add_exclude(ignore, "secret.md"), 0);
    assert_int_equal(ignore_check(ignore, "src", true), IGNORE_NO);
    assert_int_equal(ignore_check(ignore, "src/a/b.c", false), IGNORE_NO);
    assert_int_equal(ignore_check(ignore, "docs", true), IGNORE_LOOK);
    assert_int_equal(ignore_check(ignore, "docs/x.md", false), IGNORE_NO);
    assert_int_equal(ignore_check(ignore, "docs/secret.md", false), IGNORE_YES);
    assert_int_equal(ignore_check(ignore, "docs/x.txt", false), IGNORE_YES);
    ignore_free(ignore);
}

// What would take others for ever.
CHECK_CASE(long_patterns_end)
{
    char pattern[2001], path[2001];
    for (int i = 0; i < 2000; i++)
        pattern[i] = i % 2 == 0 ? '*' : 'a';
    memset(path, 'a', sizeof path);
    pattern[2000] = path[2000] = '\0';
    path[1999] = 'b';
    assert_false(ignore_match(pattern, 2000, path));
    for (int i = 0; i < 1999; i++) {
        pattern[i] = "**/a/"[i % 5];
        path[i] = "a/"[i % 2];
    }
    assert_false(ignore_match(pattern, 1999, path));
}

// Together they have so many steps: then nothing matches, and it is known.
CHECK_CASE(bombs_are_noticed)
{
    enum { LEN = 512 * 1024 };
    char *text = malloc(LEN);
    struct ignore *ignore = ignore_new();
    assert_true(text != NULL && ignore != NULL);
    memset(text, '[', LEN);
    assert_int_equal(ignore_add(ignore, "", 0, text, LEN), 0);
    assert_false(ignore_is_spent());
    (void)ignore_check(ignore, "a", false);
    assert_true(ignore_is_spent());
    ignore_free(ignore);
    ignore = ignore_new();
    assert_int_equal(ignore_add(ignore, "", 0, "*.log\n", 6), 0);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(ignore_check(ignore, "a.log", false), IGNORE_YES);
    assert_false(ignore_is_spent());
    ignore_free(ignore);
    free(text);
}

CHECK_MAIN(cmocka_unit_test(table), cmocka_unit_test(git_agrees),
           cmocka_unit_test(files_below_are_stronger_and_go), cmocka_unit_test(includes),
           cmocka_unit_test(long_patterns_end), cmocka_unit_test(bombs_are_noticed))
