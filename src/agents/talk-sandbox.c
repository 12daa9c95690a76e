// SPDX-License-Identifier: Apache-2.0
// The sandbox of a conversation: the one that was named, or one that is made when a tool needs it
// first. It stays awake until the conversation is over, so that what runs in it and what its
// interpreters know is there in the next turn.
#include <string.h>

#include "agents/talk-internal.h"
#include "agents/tool.h"
#include "base/show.h"

enum {
    SLEEP_AFTER_MS = 60 * 1000,
    DESTROY_AFTER_MS = 60 * 60 * 1000, // whoever wants to go on with it has so long
};

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
    if (tool_is_over(call)) { // it goes by itself
        tool_unref(call);
        return;
    }
    if (err != NULL && err->code != ERR_NONE) {
        tool_fail(call, "no sandbox can be made: %s", err->msg);
    } else {
        call->talk->sandbox = sandbox_ref(s);
        sandbox_wake(s, on_awake, tool_ref(call));
    }
    tool_unref(call);
}

static void make(struct tool_call *call)
{
    const struct talk *talk = call->talk;
    struct fleet *fleet = agents_config(talk->agents)->fleet;
    struct fleet_stats stats;
    struct json j;
    auto_buf labels;
    fleet_stats(fleet, &stats);
    buf_init(&labels, 1024);
    json_init(&j, &labels);
    json_open_object(&j);
    show_str(&j, "cay.request", run_id(talk->run));
    json_close_object(&j);
    const struct sandbox_settings settings = {
        .sleep_after_ms = SLEEP_AFTER_MS,
        .destroy_after_ms = DESTROY_AFTER_MS,
        .ephemeral = !stats.has_volume,
        .labels = buf_str(&labels),
        // A box with an interpreter in it costs more than one without.
        .languages = strcmp(call->tool->name, "RunCode") == 0 ? "[\"python\"]" : NULL,
    };
    fleet_create(fleet, talk->tenant, &settings, on_made, tool_ref(call));
}

void talk_sandbox_get(struct tool_call *call)
{
    if (call->talk->sandbox != NULL)
        sandbox_wake(call->talk->sandbox, on_awake, tool_ref(call));
    else
        make(call);
}
