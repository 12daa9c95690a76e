// SPDX-License-Identifier: Apache-2.0
// What code finds in boxes of the image `host`, which is this machine's own /usr: told by files
// alone, nothing is run.
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct host_tools {
    unsigned present; // bits of the table in host-tools.c
};

// `root` is "" for this machine.
struct host_tools host_tools_find(const char *root);
bool host_tools_complete(struct host_tools tools);
// "python3, numpy": what is there, or what is not. Empty when there is nothing to name.
void host_tools_present(struct host_tools tools, struct buf *ret);
void host_tools_missing(struct host_tools tools, struct buf *ret);
// The command that adds what is missing: "apt-get install python3-numpy". Empty where there is no
// apt.
void host_tools_command(struct host_tools tools, const char *root, struct buf *ret);
