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
// The session whose terminal it is, if it is not there yet. 0 or -1.
int terminal_make_session(struct call *call, const char *id);
// Wakes the sandbox, opens the terminal or finds it, and shows it.
void terminal_begin(struct call *call);

// Ends a session with its terminal, so that a later one of that name has one of its own. 0 or -1;
// answers nothing.
int terminal_delete_session(struct sandbox *s, const char *id, struct err *err);
