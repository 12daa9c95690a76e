// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/opt.h"
#include "check.h"

enum {
    FLAG_MEMORY,
    FLAG_ENV,
    FLAG_JSON,
    FLAG_QUIET,
    FLAG_MAX,
};

static const struct opt opts[FLAG_MAX] = {
    [FLAG_MEMORY] = {"memory", 'm', "SIZE",       "most memory the box may use", "1g"},
    [FLAG_ENV] = {"env",    'e', "NAME=VALUE", "set a variable",              NULL},
    [FLAG_JSON] = {"json",   0,   NULL,         "print one JSON object",       NULL},
    [FLAG_QUIET] = {"quiet",  'q', NULL,         "say less",                    NULL},
};

static const struct opt_spec stopping = {
    .usage = "cay run [flags] [--] COMMAND [ARG...]",
    .summary = "Runs a command.",
    .opts = opts,
    .n_opts = FLAG_MAX,
    .more = "examples:\n  cay run -- true",
    .stop_at_word = true,
};

static const struct opt_spec mixing = {
    .usage = "cay image import [flags] NAME FILE",
    .summary = "Imports.",
    .opts = opts,
    .n_opts = FLAG_MAX,
};

// Reads a whole line and writes down what came: "memory=64m json word=a | rest".
static const char *read_line(const struct opt_spec *spec, int argc, const char *const *words)
{
    static char log[1024];
    char *argv[20];
    struct opt_reader reader;
    struct err err = {.code = ERR_NONE};
    const char *value = NULL;
    int which;
    size_t len = 0;
    for (int i = 0; i < argc; i++) {
        argv[i] = strdup(words[i]);
        assert_non_null(argv[i]);
    }
    argv[argc] = NULL;
    log[0] = '\0';
    opt_start(&reader, spec, argc, argv);
    while ((which = opt_next(&reader, &value, &err)) >= 0) {
        const char *name = which == OPT_WORD ? "word" : spec->opts[which].name;
        len += (size_t)snprintf(log + len, sizeof log - len, value != NULL ? "%s=%s " : "%s ", name,
                                value);
    }
    if (which == OPT_FAILED) {
        assert_int_equal(err.code, ERR_INVALID);
        (void)snprintf(log + len, sizeof log - len, "! %s", err.msg);
    } else if (which == OPT_HELP) {
        (void)snprintf(log + len, sizeof log - len, "?");
    } else {
        len += (size_t)snprintf(log + len, sizeof log - len, "|");
        for (int i = reader.next; i < argc; i++)
            len += (size_t)snprintf(log + len, sizeof log - len, " %s", argv[i]);
    }
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    return log;
}

#define assert_reads(want, spec, ...)                                                              \
    do {                                                                                           \
        const char *const words_[] = {"run", ##__VA_ARGS__};                                       \
        assert_string_equal(read_line(spec, sizeof words_ / sizeof words_[0], words_), want);      \
    } while (0)

CHECK_CASE(long_flags)
{
    assert_reads("|", &stopping);
    assert_reads("memory=64m |", &stopping, "--memory", "64m");
    assert_reads("memory=64m |", &stopping, "--memory=64m");
    assert_reads("memory= |", &stopping, "--memory=");
    assert_reads("memory= |", &stopping, "--memory", "");
    assert_reads("env=A=B=C |", &stopping, "--env=A=B=C");
    assert_reads("env=A=B json |", &stopping, "--env", "A=B", "--json");
    assert_reads("memory=--json |", &stopping, "--memory", "--json");
    assert_reads("memory=1 memory=2 |", &stopping, "--memory=1", "--memory=2");
}

CHECK_CASE(letters)
{
    assert_reads("memory=64m |", &stopping, "-m", "64m");
    assert_reads("memory=64m |", &stopping, "-m64m");
    assert_reads("quiet memory=64m |", &stopping, "-qm", "64m");
    assert_reads("quiet quiet memory=1 json |", &stopping, "-qqm1", "--json");
    assert_reads("quiet | q", &stopping, "-q", "q");
}

CHECK_CASE(where_flags_end)
{
    assert_reads("json | ls --json", &stopping, "--json", "ls", "--json");
    assert_reads("json | --json", &stopping, "--json", "--", "--json");
    assert_reads("| -- x", &stopping, "--", "--", "x");
    assert_reads("| -", &stopping, "-");
    assert_reads("| ", &stopping, "");
    assert_reads("word=a json word=b |", &mixing, "a", "--json", "b");
    assert_reads("word=a word=--json word=-- |", &mixing, "a", "--", "--json", "--");
    assert_reads("word=- word= |", &mixing, "-", "");
    assert_reads("|", &mixing, "--");
}

CHECK_CASE(mistakes)
{
    assert_reads("! unknown flag --memroy, did you mean --memory?", &stopping, "--memroy=1");
    assert_reads("! unknown flag --jsn, did you mean --json?", &stopping, "--jsn");
    assert_reads("! unknown flag --frobnicate (--help lists the flags)", &stopping, "--frobnicate");
    assert_reads("! unknown flag --=x (--help lists the flags)", &stopping, "--=x");
    assert_reads("! unknown flag -x (--help lists the flags)", &stopping, "-x");
    assert_reads("quiet ! unknown flag -x (--help lists the flags)", &stopping, "-qx");
    assert_reads("! --memory needs a value: --memory SIZE", &stopping, "--memory");
    assert_reads("quiet ! --memory needs a value: --memory SIZE", &stopping, "-qm");
    assert_reads("! --json takes no value", &stopping, "--json=yes");
    assert_reads("! --json takes no value", &stopping, "--json=");
}

CHECK_CASE(endless_names_are_cut)
{
    char flag[5000];
    (void)memset(flag, 'z', sizeof flag - 1);
    memcpy(flag, "--", 2);
    flag[sizeof flag - 1] = '\0';
    const char *const words[] = {"run", flag};
    assert_memory_equal(read_line(&stopping, 2, words), "! unknown flag --zzz", 20);
}

CHECK_CASE(help_is_always_there)
{
    assert_reads("?", &stopping, "--help");
    assert_reads("?", &stopping, "-h");
    assert_reads("quiet ?", &stopping, "-qh");
    assert_reads("json ?", &stopping, "--json", "--help");
    assert_reads("| ls --help", &stopping, "ls", "--help");
    assert_reads("! unknown flag --hel (--help lists the flags)", &stopping, "--hel");
}

CHECK_CASE(help_teaches)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    opt_print_help(out, &stopping);
    (void)fclose(out);
    assert_string_equal(text, "usage: cay run [flags] [--] COMMAND [ARG...]\n"
                              "\n"
                              "Runs a command.\n"
                              "\n"
                              "flags:\n"
                              "  -m, --memory SIZE     most memory the box may use (default 1g)\n"
                              "  -e, --env NAME=VALUE  set a variable\n"
                              "      --json            print one JSON object\n"
                              "  -q, --quiet           say less\n"
                              "  -h, --help            show this\n"
                              "\n"
                              "examples:\n"
                              "  cay run -- true\n");
    free(text);
}

CHECK_MAIN(cmocka_unit_test(long_flags), cmocka_unit_test(letters),
           cmocka_unit_test(where_flags_end), cmocka_unit_test(mistakes),
           cmocka_unit_test(endless_names_are_cut), cmocka_unit_test(help_is_always_there),
           cmocka_unit_test(help_teaches))
