// SPDX-License-Identifier: Apache-2.0
// OpenCode in a sandbox, for the routes that tell of it or set it up.
#pragma once

#include "agents/opencode.h"
#include "api/call.h"

// The `config` of a body, read. 0, or -1 when it was refused and answered. `json` NULL: none.
int opencode_read_config(struct call *call, const char *json, struct opencode_config *ret);
#define auto_opencode_config __attribute__((cleanup(opencode_config_done))) struct opencode_config

// "opencodeUrl" and "opencodeUiUrl", into an open object.
void opencode_show(struct call *call, const struct sandbox_row *row, struct json *j);
