// SPDX-License-Identifier: Apache-2.0
// `cay monitor`: its flags, which the program with the live screen (src/monitor) reads again, and
// what it does without one.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/remote.h"

struct monitor_options {
    bool once;
    int64_t interval_ms;
    const char *language, *model; // of a prompt; NULL: the server's choice
};

// The command line of both programs. `options` gets what it says.
struct command_line monitor_line(struct monitor_options *options);

int monitor_once(struct remote *remote); // exit codes
int monitor_prompt(struct remote *remote, const struct monitor_options *options);
