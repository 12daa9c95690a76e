// SPDX-License-Identifier: Apache-2.0
// Whatever a server answers: reading it ends, what is kept stays within its limits, and the same
// bytes mean the same however they are cut.
//
// An input is: one byte that says how it is cut, then the answer. Bodies are also read as
// server-sent events.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/event-stream.h"
#include "cli/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What came of an answer, as numbers that can be compared.
struct outcome {
    int fed, ended;
    unsigned status;
    enum reply_state state;
    uint64_t body, n_body, events;
    int events_failed;
    struct event_stream stream;
};

static void mix(uint64_t *sum, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < len; i++)
        *sum = (*sum ^ at[i]) * UINT64_C(1099511628211);
}

static int take_event(void *user, const struct event *event, struct err *err)
{
    struct outcome *o = user;
    (void)err;
    assert(strlen(event->id) < EVENT_ID_MAX && event->data[event->len] == '\0');
    mix(&o->events, event->id, strlen(event->id) + 1);
    mix(&o->events, event->name, strlen(event->name) + 1);
    mix(&o->events, event->data, event->len + 1);
    return 0;
}

static int take_body(void *user, const void *bytes, size_t len, struct err *err)
{
    struct outcome *o = user;
    assert(len > 0);
    mix(&o->body, bytes, len);
    o->n_body += len;
    if (o->events_failed == 0)
        o->events_failed = event_stream_feed(&o->stream, bytes, len, err);
    return 0;
}

static void read_answer(const uint8_t *data, size_t size, size_t step, struct outcome *o)
{
    struct reply reply;
    struct err err = {0};
    memset(o, 0, sizeof *o);
    event_stream_init(&o->stream, take_event, o);
    reply_init(&reply, take_body, o);
    for (size_t at = 0; at < size && o->fed == 0; at += step) {
        size_t n = size - at < step ? size - at : step;
        o->fed = reply_feed(&reply, data + at, n, &err);
    }
    assert(reply.line.len <= REPLY_LINE_MAX && reply.fields.len <= REPLY_HEAD_MAX + 2);
    assert(o->fed == 0 || err.code != ERR_NONE);
    o->ended = o->fed == 0 ? reply_end(&reply, &err) : -1;
    o->status = reply.status;
    o->state = reply.state;
    if (o->fed == 0 && reply_has_head(&reply)) {
        assert(reply.status >= 200 && reply.status < 600);
        (void)reply_header(&reply, "content-type");
    }
    reply_done(&reply);
    event_stream_done(&o->stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole, cut;
    if (size == 0)
        return 0;
    read_answer(data + 1, size - 1, size, &whole);
    read_answer(data + 1, size - 1, (size_t)data[0] % 32 + 1, &cut);
    assert(whole.fed == cut.fed && whole.ended == cut.ended);
    assert(whole.body == cut.body && whole.n_body == cut.n_body);
    assert(whole.events == cut.events && whole.events_failed == cut.events_failed);
    if (whole.fed == 0)
        assert(whole.status == cut.status && whole.state == cut.state);
    return 0;
}
