// SPDX-License-Identifier: Apache-2.0
// Terminals over WebSockets, for the families that have them. Each step answers when it refuses.
#pragma once

#include "api/call.h"
#include "api/viewer.h"
#include "sandbox/terminal.h"

struct terminal_asking {             // the call's state
    struct terminal_request request; // its texts are the query's, or the caller's
    struct viewer_request viewer;
    bool sized;
};

int terminal_check(struct call *call); // it is a WebSocket, and one that we take
// call->state, with ?rows, ?cols and ?shell. NULL when it was refused.
struct terminal_asking *terminal_asking_new(struct call *call);
// Wakes the sandbox, opens the terminal or finds it, and shows it.
void terminal_begin(struct call *call);
