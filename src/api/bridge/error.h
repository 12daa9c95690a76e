// SPDX-License-Identifier: Apache-2.0
// How the bridge family writes what goes wrong: between its own files.
#pragma once

#include "api/bridge/bridge.h"

unsigned bridge_write_error(const struct refusal *refusal, struct buf *ret);
void bridge_put_error(struct json *json); // the schema of it, for the description
