// SPDX-License-Identifier: Apache-2.0
// What a process wrote, as events tell it: its bytes exactly, each stream to its own descriptor.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/json-in.h"
#include "cli/event-stream.h"

struct output {
    int out, err;  // descriptors
    bool has_exit; // the process has ended, and how:
    int exit_code;
    char reason[16];
    char process[132]; // its id, once told; else ""
};

// One event of an exec or of a log. -1 when the bytes could not be written, or are no event.
int output_event(struct output *output, const struct event *event, struct err *err);
// On a terminal or in a script a silent end would leave the reader guessing.
void output_explain(const char *reason);
// The exit code in a result or in the event "exit"; CLI_FAILED where there is none.
int output_exit_code(const struct json_node *node);
