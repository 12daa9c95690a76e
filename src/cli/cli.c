// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include <stdio.h>

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
