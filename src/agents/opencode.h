// SPDX-License-Identifier: Apache-2.0
// OpenCode's own server in a sandbox's box: a background process named "opencode" that listens on
// the box's loopback. It is started when it is first used, found again by a later daemon, and
// started again where it has ended or its configuration was changed; whoever asks meanwhile waits
// for the same one. All on the loop's thread.
#pragma once

#include "agents/agents.h"
#include "agents/failure.h"
#include "agents/opencode-config.h"
#include "sandbox/sandbox.h"

enum { OPENCODE_PORT = 4096 };
#define OPENCODE_NAME "opencode" // of the process, and of the port where others may reach it

// NULL: it answers. May be called before opencode_ready returns.
typedef void (*opencode_fn)(void *data, const struct failure *failure);
void opencode_ready(struct agents *agents, struct sandbox *s, opencode_fn fn, void *data);
void opencode_unready(struct agents *agents, struct sandbox *s, void *data); // fn is not called
// It was there a moment ago, and nobody listens now: the next who asks has it looked at.
void opencode_missing(struct agents *agents, struct sandbox *s);
// What it wrote last, for whoever has to be told why it does not answer. In `ret`.
void opencode_last_words(struct sandbox *s, char *ret, size_t size);

// From now on it has this configuration: the secrets are stored, the sandbox may use them, and a
// server with another configuration is ended. `fn` as of sandbox_patch.
void opencode_configure(struct agents *agents, struct sandbox *s,
                        const struct opencode_config *config, sandbox_fn fn, void *data);
// Whether the sandbox may ask that provider: ERR_DENIED says what to do. `provider` NULL: that of
// the model which its configuration names.
int opencode_may_ask(struct agents *agents, struct sandbox *s, const char *provider,
                     struct err *err);

struct opencode; // all of that
struct opencode *opencode_open(void);
void opencode_stop(struct agents *agents); // messages end, and those who wait for them are told
void opencode_close(struct agents *agents);
