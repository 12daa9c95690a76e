// SPDX-License-Identifier: Apache-2.0
// A message to OpenCode in a sandbox, and what it answers: its server is seen to, a session is made
// where none is named, the message is sent, and the answer comes when all its work is done. The
// sandbox stays awake meanwhile. On the loop's thread.
#pragma once

#include "agents/opencode.h"

enum {
    OPENCODE_MESSAGE_MAX = 1024 * 1024,
    OPENCODE_SESSION_MAX = 64,
    OPENCODE_DIRECTORY_MAX = 1024,
    OPENCODE_TIMEOUT_MS = 600 * 1000, // of a message that says nothing
};

struct opencode_message { // the texts are copied
    struct sandbox *s;
    const char *text;
    size_t text_len;
    const char *session;          // NULL: a new one
    const char *provider, *model; // NULL: as OpenCode is configured
    const char *directory;        // where it works; NULL: /workspace
    int64_t timeout_ms;
};

struct opencode_reply { // lent for the call
    const char *session;
    const char *text; // of its text parts, one after the other
    size_t text_len;
    const char *parts; // a JSON array, as it sent them
    size_t parts_len;
    const char *info; // a JSON object: "null" if there is none
};

// Exactly one of reply and failure. `session`: the one that was used, "" if it did not come so far.
struct opencode_talk;
typedef void (*opencode_reply_fn)(void *data, const struct opencode_reply *reply,
                                  const struct failure *failure, const char *session);
// May call back before it returns: NULL then.
struct opencode_talk *opencode_say(struct agents *agents, const struct opencode_message *message,
                                   opencode_reply_fn fn, void *data);
// Nobody waits any more: what OpenCode does for the message is aborted. fn is not called.
void opencode_hush(struct opencode_talk *talk);

bool opencode_session_valid(const char *id);
