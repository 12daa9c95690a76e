// SPDX-License-Identifier: Apache-2.0
// Work on an open file, on a thread: a cold one would stop the loop.
#pragma once

#include "agents/tool.h"

// `work` gets `state` on a thread of the pool and touches nothing else. `done` is always called
// afterwards, on the loop, also when nobody waits for the tool any more; it owns `state` again. The
// use is held until then.
void tool_work(struct tool_call *call, void (*work)(void *state),
               void (*done)(struct tool_call *call, void *state), void *state);
