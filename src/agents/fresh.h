// SPDX-License-Identifier: Apache-2.0
// Sandboxes that are made for a run. They stay when it is over, so that one can go on with them,
// and stay awake for a while, so that their interpreters know what they knew. But whoever asks next
// comes first: only so many stay awake, and where boxes are short the one that was left longest ago
// is put to sleep.
#pragma once

#include "agents/agents.h"

#define FRESH_LABEL "cay.request" // of each: the id of its run

// Made and awake: `fn` as of fleet_create. While the machine is full it waits, for half a minute at
// most. `language`: that it will be asked for; NULL: none. `run`: whose it is.
void fresh_make(struct agents *agents, int64_t tenant, const char *run, const char *language,
                sandbox_fn fn, void *data);
// The same with settings. Texts are copied; NULL and 0 as in struct sandbox_settings.
struct fresh_wish {
    const char *run, *language;
    const char *image;
    bool any_image; // where that one is not there, the default
    uint64_t memory;
    uint32_t cpu_milli;
    const char *network, *secrets;
    int64_t budget_cost, budget_tokens;
    int64_t destroy_after_ms; // 0: an hour
};
void fresh_make_with(struct agents *agents, int64_t tenant, const struct fresh_wish *wish,
                     sandbox_fn fn, void *data);
// The same patience for one that there is: sandbox_wake.
void fresh_wake(struct agents *agents, struct sandbox *s, sandbox_fn fn, void *data);
void fresh_left(struct agents *agents, struct sandbox *s); // its run is over

struct fresh; // all of that
struct fresh *fresh_open(void);
void fresh_stop(struct agents *agents); // those who wait are told
void fresh_close(struct agents *agents);
