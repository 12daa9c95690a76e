// SPDX-License-Identifier: Apache-2.0
// What may be spent on models, {"usd", "tokens"}, as a client sends it.
#pragma once

#include "edge/body.h"

struct budget_body {
    struct body_int usd, tokens; // billionths of a dollar
};
extern const struct schema budget_schema; // in sandboxes.c
