// SPDX-License-Identifier: Apache-2.0
// Starts the program that the variable CAY names, and looks at what it prints and how it ends.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static char out[8192], errors[8192];

static void read_pipe(int fd, char *text, size_t size)
{
    size_t len = 0;
    ssize_t n;
    while (len < size - 1 && (n = read(fd, text + len, size - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    (void)close(fd);
}

// Exit code; what it printed is in out and errors (both small enough for a pipe).
static int cay(const char *a, const char *b)
{
    int outs[2], errs[2], status;
    assert_int_equal(pipe2(outs, O_CLOEXEC), 0);
    assert_int_equal(pipe2(errs, O_CLOEXEC), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(outs[1], STDOUT_FILENO);
        (void)dup2(errs[1], STDERR_FILENO);
        (void)execl(getenv("CAY"), "cay", a, b, (char *)NULL);
        _exit(99);
    }
    (void)close(outs[1]);
    (void)close(errs[1]);
    read_pipe(outs[0], out, sizeof out);
    read_pipe(errs[0], errors, sizeof errors);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

CHECK_CASE(version)
{
    assert_int_equal(cay("--version", NULL), 0);
    assert_string_equal(out, "cay " CAY_VERSION "\n");
    assert_string_equal(errors, "");
}

CHECK_CASE(help_lists_commands)
{
    static const char *const ways[] = {"--help", "-h", "help"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(cay(ways[i], NULL), 0);
        assert_non_null(strstr(out, "\n  run "));
        assert_non_null(strstr(out, "\n  image "));
        assert_non_null(strstr(out, "\n  doctor "));
        assert_string_equal(errors, "");
    }
}

CHECK_CASE(nothing_is_a_usage_error)
{
    assert_int_equal(cay(NULL, NULL), 2);
    assert_string_equal(out, "");
    assert_non_null(strstr(errors, "usage: cay COMMAND"));
}

CHECK_CASE(unknown_commands)
{
    assert_int_equal(cay("rnu", NULL), 2);
    assert_string_equal(errors, "cay: unknown command 'rnu', did you mean 'run'?\n");
    assert_int_equal(cay("help", "imgae"), 2);
    assert_string_equal(errors, "cay: unknown command 'imgae', did you mean 'image'?\n");
    assert_int_equal(cay("frobnicate", NULL), 2);
    assert_string_equal(errors, "cay: unknown command 'frobnicate' ('cay --help' lists them)\n");
    assert_int_equal(cay("", NULL), 2);
    assert_int_equal(cay("--frob", NULL), 2);
    assert_string_equal(out, "");
}

CHECK_MAIN(cmocka_unit_test(version), cmocka_unit_test(help_lists_commands),
           cmocka_unit_test(nothing_is_a_usage_error), cmocka_unit_test(unknown_commands))
