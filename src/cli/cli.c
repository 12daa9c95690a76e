// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include <stdio.h>

int cli_fail(const struct err *err)
{
    (void)fprintf(stderr, "cay: %s\n", err->msg);
    return CLI_FAILED;
}

int cli_usage(const char *command, const struct err *err)
{
    (void)fprintf(stderr, "cay %s: %s ('cay help %s' says more)\n", command, err->msg, command);
    return CLI_USAGE;
}
