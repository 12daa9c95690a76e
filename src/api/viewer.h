// SPDX-License-Identifier: Apache-2.0
// A viewer of a terminal: a WebSocket that is shown its log, from the last of it on as it grows,
// and whose bytes are typed into it. What a viewer has not taken yet stays in the log, so that one
// that stops reading costs no more than one that reads; where the log has given up what it had not
// read, it is told how much.
//
// To the viewer: bytes of the terminal in binary messages; in text {"type":"ready", ...}, "gap",
// "error", "exit". From it: bytes in binary messages, {"type":"resize","cols","rows"} in text.
#pragma once

#include "api/call.h"
#include "sandbox/process.h"

enum {
    VIEWERS_MAX = 32, // of one terminal
    VIEWER_REPLAY = 64 * 1024,
    VIEWER_REPLAY_MAX = 1024 * 1024,
};

struct viewer_request {
    bool readonly;
    bool has_offset;
    uint64_t offset; // where to begin; else with the last `replay` bytes
    uint64_t replay;
    bool ends; // the terminal is its alone: it ends with the viewer
};

// Answers the call with a WebSocket, or an error. After ws_check.
void viewer_begin(struct call *call, struct process *p, const struct viewer_request *request);
unsigned viewer_count(const struct api *api, const struct process *p);
