// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "cli/cli.h"

int cmd_run(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    (void)fprintf(stderr, "cay: 'run' is not built yet\n");
    return CLI_FAILED;
}
