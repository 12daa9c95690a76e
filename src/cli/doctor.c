// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "cli/cli.h"

int cmd_doctor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    (void)fprintf(stderr, "cay: 'doctor' is not built yet\n");
    return CLI_FAILED;
}
