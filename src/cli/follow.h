// SPDX-License-Identifier: Apache-2.0
// Follows something on the server to its end, over as many connections as that takes: one that
// breaks is made again after a while, and goes on where the last one was. Gives up when the server
// stays away. One thread.
#pragma once

#include <stdbool.h>

#include "cli/event-stream.h"
#include "cli/remote.h"

enum { FOLLOW_TRIES = 12 }; // in a row without anything new; half a minute in all

struct follow {
    struct remote *remote;
    unsigned tries; // without anything new
    bool was_connected;
    bool stopped; // by an error of our own
    bool to_end;  // the answer's own end is the end
    bool once;    // not to be asked again
    bool done;    // set by whoever sees the end
};

// Server-sent events. The call must be one that may be sent again (GET, or with a key). 0 once
// `follow->done` is set by fn.
int follow_events(struct follow *follow, const struct http_call *call, event_fn fn, void *data,
                  struct err *err);

// Whether a call that failed, or ended too early, is worth another try; waits for the time for it.
bool follow_again(struct follow *follow, enum http_broken broken, const struct err *err);
