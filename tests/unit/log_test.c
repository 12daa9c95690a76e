// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "check.h"

static char written[65536];
static int lines_fd = -1, real_stderr = -1;

static int start(void **state __attribute__((unused)))
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    real_stderr = dup(STDERR_FILENO);
    (void)dup2(ends[1], STDERR_FILENO);
    (void)close(ends[1]);
    lines_fd = ends[0];
    log_set_level(LOG_INFO);
    return 0;
}

static int stop(void **state __attribute__((unused)))
{
    (void)dup2(real_stderr, STDERR_FILENO);
    (void)close(real_stderr);
    (void)close(lines_fd);
    return 0;
}

// What one log_line wrote, without its time; "" when nothing.
static const char *take(void)
{
    (void)!write(STDERR_FILENO, "#", 1); // so that reading never waits
    ssize_t n = read(lines_fd, written, sizeof written - 1);
    assert_true(n > 0 && written[n - 1] == '#');
    written[n - 1] = '\0';
    if (n == 1)
        return "";
    assert_int_equal(strncmp(written, "time=", 5), 0);
    assert_int_equal(written[n - 2], '\n');
    assert_ptr_equal(strchr(written, '\n'), written + n - 2); // one line
    assert_int_equal(written[28], 'Z');
    assert_int_equal(written[29], ' ');
    return written + 30;
}

CHECK_CASE(a_line)
{
    log_line(LOG_INFO, "sandbox created", "req", "7f", "sandbox", "a b", "none", NULL, "n",
             LOG_U64(UINT64_MAX), NULL);
    assert_string_equal(take(), "level=info msg=\"sandbox created\" req=7f sandbox=\"a b\" "
                                "n=18446744073709551615\n");
    log_line(LOG_ERROR, "plain", NULL);
    assert_string_equal(take(), "level=error msg=plain\n");
}

CHECK_CASE(levels)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (unsigned set = 0; set < LOG_LEVEL_MAX; set++) {
        enum log_level level = LOG_LEVEL_MAX;
        assert_int_equal(log_parse_level(names[set], &level), 0);
        assert_int_equal(level, set);
        log_set_level(level);
        for (unsigned l = 0; l < LOG_LEVEL_MAX; l++) {
            assert_int_equal(log_is_on((enum log_level)l) != 0, l <= set);
            log_line((enum log_level)l, "x", NULL);
            assert_int_equal(take()[0] != '\0', l <= set);
        }
    }
    enum log_level level = LOG_WARN;
    assert_int_equal(log_parse_level("verbose", &level), -EINVAL);
    assert_int_equal(log_parse_level("", &level), -EINVAL);
    assert_int_equal(log_parse_level("INFO", &level), -EINVAL);
    assert_int_equal(level, LOG_WARN);
}

// Nothing that a stranger sends makes a second line, a second field, or moves the cursor.
CHECK_CASE(values_are_quoted)
{
    static const struct {
        const char *value, *want;
    } cases[] = {
        {"",                             "\"\""                                },
        {"a=b",                          "\"a=b\""                             },
        {"a\nlevel=error",               "\"a\\x0alevel=error\""               },
        {"a\r\t\x1b[2J",                 "\"a\\x0d\\x09\\x1b[2J\""             },
        {"say \"no\"",                   "\"say \\\"no\\\"\""                  },
        {"c:\\x",                        "\"c:\\\\x\""                         },
        {"\x7f",                         "\"\\x7f\""                           },
        {"caf\xc3\xa9",                  "\"caf\xc3\xa9\""                     },
        {"\xff\xc3",                     "\"\\xff\\xc3\""                      },
        {"a\xc2\x9b"
         "2J",                  "\"a\\xc2\\x9b2J\""                   }, // CSI
        {"a\xc2\x85"
         "b",                   "\"a\\xc2\\x85b\""                    }, // next line
        {"a\xe2\x80\xa8"
         "b\xe2\x80\xa9",       "\"a\\xe2\\x80\\xa8b\\xe2\\x80\\xa9\""},
        {"a\xe2\x80\xae"
         "b\xe2\x81\xa6",       "\"a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6\""}, // direction
        {"\xe2\x80\x94",                 "\"\xe2\x80\x94\""                    },
        {"\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xe2\x82\xac\xf0\x9f\x98\x80\""    },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char want[128];
        (void)snprintf(want, sizeof want, "level=warn msg=m k=%s last=1\n", cases[i].want);
        log_line(LOG_WARN, "m", "k", cases[i].value, "last", "1", NULL);
        assert_string_equal(take(), want);
    }
}

// What follows a long value is still there, and every quote is closed.
CHECK_CASE(long_values_are_cut)
{
    static char value[10000];
    for (int fill = 0; fill < 3; fill++) {
        memset(value, "a\"\x01"[fill], sizeof value - 1);
        log_line(LOG_INFO, "m", "k", value, "sandbox", "s", NULL);
        const char *line = take();
        assert_true(strlen(written) < 4096);
        assert_non_null(strstr(line, "...\" sandbox=s\n"));
    }
    // In the middle of a character: none is torn.
    for (size_t i = 0; i + 2 < sizeof value; i += 2)
        memcpy(value + i, "\xc3\xa9", 2);
    for (int shift = 0; shift < 2; shift++) {
        value[0] = 'x';
        log_line(LOG_INFO, "m", "k", value + 1 - shift, "sandbox", "s", NULL);
        assert_non_null(strstr(take(), "\xa9...\" sandbox=s\n"));
    }
}

CHECK_CASE(a_line_has_an_end)
{
    static char value[3000];
    memset(value, 'b', sizeof value - 1);
    log_line(LOG_INFO, value, "a", value, "b", value, "c", value, "d", value, "e", value, "f", "1",
             NULL);
    const char *line = take();
    size_t quotes = 0;
    for (const char *c = line; *c != '\0'; c++)
        quotes += *c == '"';
    assert_true(strlen(written) <= 4096);
    assert_int_equal(quotes % 2, 0);
    assert_non_null(strstr(line, " cut=yes\n"));
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
CHECK_MAIN(LOG_TEST(a_line), LOG_TEST(levels), LOG_TEST(values_are_quoted),
           LOG_TEST(long_values_are_cut), LOG_TEST(a_line_has_an_end))
