// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

// A message may quote what somebody typed: one line, and nothing that a terminal obeys.
static struct err plain(const struct err *err)
{
    struct err copy = *err;
    for (char *p = copy.msg; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    }
    return copy;
}

int cli_fail(const struct err *err)
{
    (void)fprintf(stderr, "cay: %s\n", plain(err).msg);
    return CLI_FAILED;
}

int cli_usage(const char *command, const struct err *err)
{
    (void)fprintf(stderr, "cay %s: %s ('cay help %s' says more)\n", command, plain(err).msg,
                  command);
    return CLI_USAGE;
}

static void print_overview(const struct command_group *group, FILE *out)
{
    (void)fprintf(out, "usage: cay %s COMMAND [ARG...]\n\n%s\ncommands:\n", group->name,
                  group->about);
    for (size_t i = 0; i < group->n; i++)
        (void)fprintf(out, "  %-8s  %s\n", group->commands[i].name, group->commands[i].help);
    (void)fprintf(out, "\n'cay %s COMMAND --help' says more about one.\n", group->name);
}

int cli_run_group(const struct command_group *group, int argc, char **argv)
{
    struct err err;
    if (argc < 2) {
        print_overview(group, stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_overview(group, stdout);
        return CLI_OK;
    }
    for (size_t i = 0; i < group->n; i++) {
        if (strcmp(argv[1], group->commands[i].name) == 0)
            return group->commands[i].run(argc - 1, argv + 1);
    }
    (void)err_set(&err, ERR_INVALID, "there is no 'cay %s %s'", group->name, argv[1]);
    return cli_usage(group->name, &err);
}
