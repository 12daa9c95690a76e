// SPDX-License-Identifier: Apache-2.0
// The sandbox of a conversation: the one that was named, or one that is made when a tool needs it
// first. It stays awake until the conversation is over, so that what runs in it and what its
// interpreters know is there in the next turn.
#include <string.h>

#include "agents/fresh.h"
#include "agents/talk-internal.h"
#include "agents/tool.h"

static void hold(struct talk *talk)
{
    if (talk->holds)
        return;
    sandbox_busy(talk->sandbox);
    talk->holds = true;
}

void talk_sandbox_done(struct talk *talk)
{
    if (talk->holds)
        sandbox_idle(talk->sandbox);
    if (talk->holds && talk->made)
        fresh_left(talk->agents, talk->sandbox);
    talk->holds = false;
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct tool_call *call = data;
    (void)s;
    (void)created;
    if (tool_is_over(call)) {
        tool_unref(call);
        return;
    }
    if (err != NULL && err->code != ERR_NONE) {
        tool_fail(call, "the sandbox cannot be used: %s", err->msg);
    } else {
        hold(call->talk);
        call->sandbox = sandbox_ref(call->talk->sandbox);
        call->tool->start(call);
    }
    tool_unref(call);
}

static void on_made(void *data, struct sandbox *s, bool created, const struct err *err)
{
    struct tool_call *call = data;
    (void)created;
    if (!tool_is_over(call) && s == NULL) {
        tool_fail(call, "no sandbox can be made: %s", err->msg);
    } else if (!tool_is_over(call)) {
        call->talk->sandbox = sandbox_ref(s);
        call->talk->made = true;
        sandbox_wake(s, on_awake, tool_ref(call));
    } else if (s != NULL) { // nobody will ever know of it
        sandbox_destroy(s, NULL, NULL);
    }
    tool_unref(call);
}

// A box with an interpreter in it costs more than one without.
static void make(struct tool_call *call)
{
    const struct talk *talk = call->talk;
    const char *language = strcmp(call->tool->name, "RunCode") == 0 ? "python" : NULL;
    fresh_make(talk->agents, talk->tenant, run_id(talk->run), language, on_made, tool_ref(call));
}

void talk_sandbox_get(struct tool_call *call)
{
    if (call->talk->sandbox != NULL)
        fresh_wake(call->talk->agents, call->talk->sandbox, on_awake, tool_ref(call));
    else
        make(call);
}
