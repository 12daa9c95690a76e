// SPDX-License-Identifier: Apache-2.0
// Which texts are the beginning of something longer.
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cli/lang.h"

static const struct {
    enum lang_rule rule;
    const char *text;
    bool incomplete;
} rows[] = {
    {LANG_PLAIN,  "{",                                     false},
    {LANG_PYTHON, "",                                      false},
    {LANG_PYTHON, "x = 1",                                 false},
    {LANG_PYTHON, "f(",                                    true },
    {LANG_PYTHON, "f(\n1,\n)",                             false},
    {LANG_PYTHON, "x = [1,\n 2",                           true },
    {LANG_PYTHON, "f)",                                    false},
    {LANG_PYTHON, "if x:",                                 true },
    {LANG_PYTHON, "if x:  # why",                          true },
    {LANG_PYTHON, "if x: y",                               false},
    {LANG_PYTHON, "if x:\n    y",                          true },
    {LANG_PYTHON, "if x:\n    y\n",                        false},
    {LANG_PYTHON, "if x:\n    y\n    ",                    false},
    {LANG_PYTHON, "if x:\n\n",                             true },
    {LANG_PYTHON, "def f():\n    x = 1\n    # more",       true },
    {LANG_PYTHON, "# only:",                               false},
    {LANG_PYTHON, "x[1:\n2]",                              false},
    {LANG_PYTHON, "d = {1:",                               true },
    {LANG_PYTHON, "@d",                                    true },
    {LANG_PYTHON, "a @ b",                                 false},
    {LANG_PYTHON, "'''a\n",                                true },
    {LANG_PYTHON, "'''a\n(b'''",                           false},
    {LANG_PYTHON, "\"\"\"a'''\n",                          true },
    {LANG_PYTHON, "'(",                                    false},
    {LANG_PYTHON, "'\\'('",                                false},
    {LANG_PYTHON, "'a:'",                                  false},
    {LANG_PYTHON, "x = 1 + \\",                            true },
    {LANG_PYTHON, "x = 1 + \\\n2",                         false},
    {LANG_PYTHON, "x = '#' + (",                           true },
    {LANG_SCRIPT, "1",                                     false},
    {LANG_SCRIPT, "function f() {",                        true },
    {LANG_SCRIPT, "function f() {\n}",                     false},
    {LANG_SCRIPT, "f(`a",                                  true },
    {LANG_SCRIPT, "`a ${f({",                              true },
    {LANG_SCRIPT, "`a ${f({})} b",                         true },
    {LANG_SCRIPT, "`a ${f({})} b`",                        false},
    {LANG_SCRIPT, "`a ${`b ${c}`}`",                       false},
    {LANG_SCRIPT, "`{`",                                   false},
    {LANG_SCRIPT, "'{'",                                   false},
    {LANG_SCRIPT, "// {",                                  false},
    {LANG_SCRIPT, "/* {",                                  true },
    {LANG_SCRIPT, "/* { */",                               false},
    {LANG_SCRIPT, "x = /[/(]/",                            false},
    {LANG_SCRIPT, "a / b / (",                             true },
    {LANG_SHELL,  "echo a",                                false},
    {LANG_SHELL,  "if true; then",                         true },
    {LANG_SHELL,  "if true; then\necho\nfi",               false},
    {LANG_SHELL,  "echo if",                               false},
    {LANG_SHELL,  "for i in 1 2",                          true },
    {LANG_SHELL,  "for i in 1 2\ndo echo $i\ndone",        false},
    {LANG_SHELL,  "until false",                           true },
    {LANG_SHELL,  "echo for while",                        false},
    {LANG_SHELL,  "for i in 1 2; do",                      true },
    {LANG_SHELL,  "while true; do if x; then y; fi; done", false},
    {LANG_SHELL,  "case $x in\na) echo;;",                 true },
    {LANG_SHELL,  "case $x in\na) echo $(b);;\nesac",      false},
    {LANG_SHELL,  "f() {",                                 true },
    {LANG_SHELL,  "f() {\necho ${a#b} $#\n}",              false},
    {LANG_SHELL,  "echo 'a",                               true },
    {LANG_SHELL,  "echo \"a\\\"",                          true },
    {LANG_SHELL,  "echo \"a'\"",                           false},
    {LANG_SHELL,  "echo $((1 + 2)",                        true },
    {LANG_SHELL,  "cat <<EOF\nfi (",                       true },
    {LANG_SHELL,  "cat <<EOF\nfi (\nEOF",                  false},
    {LANG_SHELL,  "cat <<-'EOF'\nx\n\tEOF",                false},
    {LANG_SHELL,  "cat <<< 'x'",                           false},
    {LANG_SHELL,  "a |",                                   true },
    {LANG_SHELL,  "a &&",                                  true },
    {LANG_SHELL,  "a &",                                   false},
    {LANG_SHELL,  "&",                                     false},
    {LANG_SHELL,  "a \\",                                  true },
    {LANG_SHELL,  "# if (",                                false},
};

static void test_incomplete(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t len = strlen(rows[i].text);
        // A copy of its own size, so that reading past it is seen.
        char *copy = malloc(len + (len == 0));
        assert_non_null(copy);
        memcpy(copy, rows[i].text, len);
        if (lang_incomplete(rows[i].rule, copy, len) != rows[i].incomplete)
            fail_msg("'%s' should be %s", rows[i].text,
                     rows[i].incomplete ? "incomplete" : "complete");
        free(copy);
    }
}

static bool anew(const char *text, const char *line)
{
    return lang_begins_anew(LANG_PYTHON, text, strlen(text), line);
}

static void test_begins_anew(void **state)
{
    (void)state;
    assert_true(anew("if x:\n  y\n", "z"));
    assert_true(anew("if x:\n  y\n", "elsewhere = 1"));
    assert_false(anew("if x:\n  y\n", "else:"));
    assert_false(anew("if x:\n  y\n", "  z"));
    assert_false(anew("if x:\n  y\n", ""));
    assert_false(anew("if x:\n  y\n", "# z"));
    assert_false(anew("if x:\n", "z")); // the language's to complain about
    assert_false(anew("@d\n", "def f(): pass"));
    assert_true(anew("@d\ndef f(): pass\n", "f()"));
    assert_false(anew("x = '''\n", "y"));
    assert_false(lang_begins_anew(LANG_SHELL, "if x; then\n y\n", 14, "z"));
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(lang_find("PY")->name, "python");
    assert_string_equal(lang_find("c++")->name, "cpp");
    assert_true(lang_find("go")->is_single);
    assert_null(lang_find("klingon"));
    assert_string_equal(lang_of_file("/a.b/c.TS")->name, "typescript");
    assert_null(lang_of_file("/a.py/c"));
    assert_null(lang_of_file(".py"));
    assert_null(lang_of_file("c."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_begins_anew),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
