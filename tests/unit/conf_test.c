// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/opt.h"
#include "check.h"
#include "conf/conf.h"

static struct conf conf;
static struct err err;

static int setup(void **state)
{
    (void)state;
    err = (struct err){0};
    return conf_init(&conf, &err);
}

static int teardown(void **state)
{
    (void)state;
    conf_done(&conf);
    return 0;
}

// A file with this text; its name is good until the next.
static const char *file_with(const char *text)
{
    static char path[32];
    (void)snprintf(path, sizeof path, "/tmp/conf-test.XXXXXX");
    auto_fd fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    return path;
}

// Reads it with these flags, at most three, and a file of that text.
static int read_with(const char *text, const char *a, const char *b, const char *c)
{
    const char *path = file_with(text);
    const char *argv[] = {"serve", "--config", path, a, b, c, NULL};
    int argc = 3 + (a != NULL) + (b != NULL) + (c != NULL);
    int r = conf_read(&conf, argc, (char **)(uintptr_t)argv, &err);
    (void)unlink(path);
    return r;
}

#define ASSERT_SAYS(words) assert_non_null(strstr(err.msg, words))

CHECK_CASE(defaults)
{
    assert_string_equal(conf.listen, "127.0.0.1:8787");
    assert_string_equal(conf.data, "/var/lib/cay");
    assert_string_equal(conf.token, "");
    assert_false(conf.behind_proxy);
    assert_string_equal(conf.auth, "token");
    assert_int_equal(conf.boxes, 1024);
    assert_int_equal(conf.volume, 64ull << 30);
    assert_int_equal(conf.sleep_after_ms, 600000);
    assert_int_equal(conf.drain_ms, 10000);
}

CHECK_CASE(later_wins)
{
    assert_int_equal(read_with("boxes = 1\npool = 1\nrate = 1\n", NULL, NULL, NULL), OPT_END);
    assert_int_equal(conf.boxes, 1);
    assert_int_equal(setenv("CAY_POOL", "2", 1), 0);
    assert_int_equal(setenv("CAY_RATE", "2", 1), 0);
    assert_int_equal(setenv("CAY_BOXES", "", 1), 0); // not set, as scripts put it
    int r = read_with("boxes = 1\npool = 1\nrate = 1\n", "--rate", "3", "--behind-proxy");
    assert_int_equal(unsetenv("CAY_POOL") | unsetenv("CAY_RATE") | unsetenv("CAY_BOXES"), 0);
    assert_int_equal(r, OPT_END);
    assert_int_equal(conf.boxes, 1);
    assert_int_equal(conf.pool, 2);
    assert_int_equal(conf.rate, 3);
    assert_true(conf.behind_proxy);
}

CHECK_CASE(lines_as_people_write_them)
{
    const char *text = "# a comment\n\n  listen=[::1]:80  \n\tcors =  https://a.b,https://c#d \r\n"
                       "behind-proxy = YES\nvolume = 1.5g\nsleep-after = 90s\nsocket =\n";
    assert_int_equal(conf_parse_text(&conf, text, &err), 0);
    assert_string_equal(conf.listen, "[::1]:80");
    assert_string_equal(conf.cors, "https://a.b,https://c#d");
    assert_true(conf.behind_proxy);
    assert_int_equal(conf.volume, 3ull << 29);
    assert_int_equal(conf.sleep_after_ms, 90000);
    assert_string_equal(conf.socket, "");
}

CHECK_CASE(errors_say_what_and_where)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"pool = 3\nbox = 3\n",      "line 2: unknown setting 'box', did you mean 'boxes'?"},
        {"zzzzzzzzzz = 1",           "--print-example"                                     },
        {"just words",               "name = value"                                        },
        {"boxes = many",             "line 1: boxes: "                                     },
        {"boxes = 0",                "1 to 4095"                                           },
        {"boxes = 4096",             "boxes"                                               },
        {"volume = big",             "volume"                                              },
        {"drain = soon",             "drain"                                               },
        {"behind-proxy = perhaps",   "neither yes nor no"                                  },
        {"log-level = loud",         "error, warn, info, debug"                            },
        {"auth = maybe",             "neither token nor none"                              },
        {"listen = 1\x01",           "listen"                                              },
        {"= x",                      "unknown setting ''"                                  },
        {"max-execution-time = 0",   "max-execution-time: must be from 1 to 86400000"      },
        {"max-execution-time = 25h", "max-execution-time"                                  },
        {"max-execution-time = x",   "max-execution-time"                                  },
        {"max-execution-time =",     "max-execution-time"                                  },
    };
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        err = (struct err){0};
        assert_int_equal(conf_parse_text(&conf, bad[i].text, &err), -1);
        ASSERT_SAYS(bad[i].words);
    }
    assert_int_equal(conf.boxes, 1024); // what is refused changes nothing
}

CHECK_CASE(errors_name_their_source)
{
    assert_int_equal(read_with("boxes = x\n", NULL, NULL, NULL), OPT_FAILED);
    ASSERT_SAYS("/tmp/conf-test.");
    ASSERT_SAYS("line 1");
    assert_int_equal(read_with("", "--boxes", "x", NULL), OPT_FAILED);
    ASSERT_SAYS("--boxes");
    assert_int_equal(read_with("", "--boxen", "x", NULL), OPT_FAILED);
    ASSERT_SAYS("did you mean --boxes?");
    assert_int_equal(read_with("", "word", NULL, NULL), OPT_FAILED);
    ASSERT_SAYS("word");
    assert_int_equal(setenv("CAY_MEMORY_SPARE", "x", 1), 0);
    assert_int_equal(read_with("", NULL, NULL, NULL), OPT_FAILED);
    assert_int_equal(unsetenv("CAY_MEMORY_SPARE"), 0);
    ASSERT_SAYS("CAY_MEMORY_SPARE");
    assert_int_equal(read_with("", "--config", "/nonexistent/file", NULL), OPT_FAILED);
    ASSERT_SAYS("/nonexistent/file");
}

CHECK_CASE(token_is_no_flag)
{
    assert_int_equal(read_with("", "--token", "secret", NULL), OPT_FAILED);
    ASSERT_SAYS("unknown flag");
    assert_null(strstr(err.msg, "secret"));
    assert_int_equal(setenv("CAY_TOKEN", "from the environment", 1), 0);
    assert_int_equal(read_with("token = from the file\n", NULL, NULL, NULL), OPT_END);
    assert_int_equal(unsetenv("CAY_TOKEN"), 0);
    assert_string_equal(conf.token, "from the environment");
}

CHECK_CASE(text_comes_back)
{
    struct conf back;
    auto_buf text, again;
    buf_init(&text, 65536);
    buf_init(&again, 65536);
    assert_int_equal(conf_parse_text(&conf,
                                     "listen = [::1]:1\ntoken = t\nvolume = 12345\ndrain = 5ms\n"
                                     "behind-proxy = yes\nboxes = 7\n",
                                     &err),
                     0);
    assert_int_equal(conf_write_text(&conf, &text), 0);
    assert_int_equal(conf_init(&back, &err), 0);
    assert_int_equal(conf_parse_text(&back, buf_str(&text), &err), 0);
    assert_int_equal(conf_write_text(&back, &again), 0);
    assert_string_equal(buf_str(&text), buf_str(&again));
    assert_string_equal(back.token, "t");
    assert_int_equal(back.volume, 12345);
    assert_int_equal(back.drain_ms, 5);
    assert_true(back.behind_proxy);
    conf_done(&back);
}

CHECK_CASE(milliseconds_alone)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"300000", 300000  },
        {"5m",     300000  },
        {"1.5s",   1500    },
        {"1",      1       },
        {"24h",    86400000},
    };
    for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(setenv("MAX_EXECUTION_TIME", good[i].text, 1), 0);
        assert_int_equal(read_with("", NULL, NULL, NULL), OPT_END);
        assert_int_equal(conf.max_execution_ms, good[i].ms);
    }
    assert_int_equal(setenv("MAX_EXECUTION_TIME", "5 minutes", 1), 0);
    assert_int_equal(read_with("", NULL, NULL, NULL), OPT_FAILED);
    ASSERT_SAYS("MAX_EXECUTION_TIME");
    assert_int_equal(unsetenv("MAX_EXECUTION_TIME"), 0);
}

CHECK_CASE(another_versions_text)
{
    assert_int_equal(conf_parse_older(&conf, "future = 1\nboxes = 7\nold-name = x\n", &err), 0);
    assert_int_equal(conf.boxes, 7);
    assert_int_equal(conf_parse_older(&conf, "boxes = x\n", &err), -1);
}

CHECK_CASE(example_is_what_the_table_writes)
{
    auto_free char *made = NULL;
    static char committed[65536];
    size_t len;
    FILE *out = open_memstream(&made, &len);
    assert_non_null(out);
    conf_print_example(out);
    assert_int_equal(fclose(out), 0);
    assert_true(fd_read_file(AT_FDCWD, getenv("CAY_EXAMPLE"), committed, sizeof committed) > 0);
    assert_string_equal(committed, made); // cay serve --print-example > cay.conf.example
    // Every line of it can be taken as it is.
    for (char *at = made; (at = strstr(at, "\n#")) != NULL; at++) {
        if (at[2] != ' ')
            at[1] = ' ';
    }
    auto_buf before, after;
    buf_init(&before, 65536);
    buf_init(&after, 65536);
    assert_int_equal(conf_write_text(&conf, &before), 0);
    assert_int_equal(conf_parse_text(&conf, made, &err), 0);
    assert_int_equal(conf_write_text(&conf, &after), 0);
    assert_string_equal(buf_str(&before), buf_str(&after));
}

#define CONF_CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
CHECK_MAIN(CONF_CASE(defaults), CONF_CASE(later_wins), CONF_CASE(lines_as_people_write_them),
           CONF_CASE(errors_say_what_and_where), CONF_CASE(errors_name_their_source),
           CONF_CASE(token_is_no_flag), CONF_CASE(text_comes_back), CONF_CASE(milliseconds_alone),
           CONF_CASE(another_versions_text), CONF_CASE(example_is_what_the_table_writes))
