// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/call.h"
#include "sandbox/process.h"

// The process that the path names, lent for the call; NULL when it was answered that there is none.
struct process *process_of(struct call *call);
void process_reply(struct call *call, struct process *p, unsigned status);
