// SPDX-License-Identifier: Apache-2.0
// Reads server-sent events (text/event-stream) as their bytes come, at any split, and hands each on
// when it is whole. What it keeps is bounded by EVENT_MAX. One thread at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    EVENT_MAX = 48 * 1024 * 1024, // bytes of one event's data: an exec's whole output, in base64
    EVENT_ID_MAX = 256,
};

struct event {
    const char *id;   // of this event or the last that had one, "" before
    const char *name; // "message" where it has none
    const char *data;
    size_t len;
};

// Not 0: stop, with err set.
typedef int (*event_fn)(void *data, const struct event *event, struct err *err);

struct event_stream {
    struct buf line, data;
    char id[EVENT_ID_MAX]; // the last seen: where to go on after a break
    char pending[EVENT_ID_MAX];
    char name[64];
    bool has_data;
    bool after_cr; // the LF of a CRLF may follow
    event_fn fn;
    void *user;
};

void event_stream_init(struct event_stream *stream, event_fn fn, void *user);
void event_stream_done(struct event_stream *stream);
int event_stream_feed(struct event_stream *stream, const void *bytes, size_t len, struct err *err);
// A new connection begins: what was half read of an event is dropped, the id stays.
void event_stream_restart(struct event_stream *stream);

// Standard alphabet with its padding, nothing else. 0, -EINVAL, or what the buffer says.
int base64_decode(struct buf *buf, const char *text, size_t len);
