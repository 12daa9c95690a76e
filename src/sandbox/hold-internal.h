// SPDX-License-Identifier: Apache-2.0
// What lifecycle.c does with a sandbox that is asleep, where somebody waits for it.
#pragma once

#include "sandbox/sandbox-internal.h"

void hold_for_next(struct sandbox *s);  // the first of s->holders has it
void hold_to_recall(struct sandbox *s); // its disk is archived, and somebody wants to wake it
