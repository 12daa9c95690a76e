// SPDX-License-Identifier: Apache-2.0
// A conversation with a model that may use tools: asked, tools run, asked again, until it is done
// or has had its turns. What is said is in the shapes of the Agent SDK's messages. Plain talk needs
// no box; the tools that work in one make it on first use.
#pragma once

#include "agents/run.h"

enum {
    TALK_PROMPT_MAX = 1024 * 1024,
    TALK_TURNS = 10,
    TALK_TURNS_MAX = 200,
    TALK_TOKENS = 8192,
    TALK_TOKENS_MAX = 128000,
    TALK_TOOLS_MAX = 32,
    TALK_TIMEOUT_MS = 300000,
    TALK_TIMEOUT_MAX_MS = 24 * 60 * 60 * 1000,
};

struct talk_request { // texts are copied
    int64_t tenant;
    const char *id; // as in struct run_start: execute_id(call)
    const char *prompt;
    const char *model;                // NULL: the default
    const char *system_prompt;        // NULL: our own
    const char *append_system_prompt; // NULL: none
    const char *const *tools;         // names that are allowed
    unsigned n_tools;
    const char *sandbox; // id, of the tools that need one; NULL: one is made when it is needed
    int64_t max_turns, max_tokens, timeout_ms;
    bool partial; // the model's stream as events, too
};
// Whether there is a tool of this name. All there are, for messages: "Bash, Edit, ...".
bool talk_knows_tool(const char *name);
const char *talk_tool_names(void);
// The reference is the caller's. NULL: it was not begun; ERR_NOT_FOUND: the sandbox; ERR_INVALID;
// ERR_UNAVAILABLE.
struct run *talk_start(struct agents *agents, const struct talk_request *request, struct err *err);
