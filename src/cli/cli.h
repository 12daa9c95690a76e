// SPDX-License-Identifier: Apache-2.0
// What the commands of `cay` share. Each command is one file and one function, listed in main.c;
// argv[0] is the command's own name. It answers `--help` from its table of flags (base/opt.h) and
// returns the program's exit code.
#pragma once

#include "base/err.h"

enum cli_exit {
    CLI_OK = 0,
    CLI_USAGE = 2,    // the command line makes no sense
    CLI_FAILED = 125, // Cay itself failed; other codes belong to what ran in the box
};

int cmd_run(int argc, char **argv);
int cmd_image(int argc, char **argv);
int cmd_doctor(int argc, char **argv);

// Both print "cay: <message>" as one line to standard error.
int cli_fail(const struct err *err);                       // returns CLI_FAILED
int cli_usage(const char *command, const struct err *err); // returns CLI_USAGE and names the help
