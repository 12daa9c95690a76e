// SPDX-License-Identifier: Apache-2.0
// Answers that are streamed. All that are open are in one list: a quiet one gets a comment now and
// then, so that nobody on the way closes it, and those of a revoked token are ended.
#include <assert.h>

#include "api/auth.h"
#include "api/call.h"
#include "api/preview.h"
#include "base/clock.h"
#include "edge/sse.h"

enum { QUIET_S = 15 };

static void begin(struct call *call)
{
    call->streaming = true;
    call->written_ns = clock_ns();
    call->stream_prev = NULL;
    call->stream_next = call->api->streams;
    if (call->stream_next != NULL)
        call->stream_next->stream_prev = call;
    call->api->streams = call;
}

void stream_begin_sse(struct call *call)
{
    assert(call->req != NULL);
    call_count(call, 200);
    sse_begin(call->req);
    call->stream_is_sse = true;
    begin(call);
}

void stream_begin_raw(struct call *call, const char *type)
{
    assert(call->req != NULL);
    call_count(call, 200);
    http_stream_begin(call->req, 200, type);
    begin(call);
}

void stream_begin_taken(struct call *call, void (*stop)(struct call *call))
{
    call->stop = stop;
    begin(call);
}

void stream_event(struct call *call, const char *id, const char *event, struct json *json)
{
    if (call->req != NULL && json_finish(json) == 0) {
        call->written_ns = clock_ns();
        sse_send(call->req, id, event, buf_str(json->buf), json->buf->len);
    }
    buf_done(json->buf);
}

// No comment may come between its pieces: streams_tick sees a stream of plain bytes meanwhile.
void stream_long_begin(struct call *call, const char *id, const char *event)
{
    if (call->req == NULL)
        return;
    call->stream_is_sse = false;
    sse_long_begin(call->req, id, event);
}

void stream_long_data(struct call *call, const char *data, size_t len)
{
    if (call->req != NULL)
        sse_long_data(call->req, data, len);
}

void stream_long_end(struct call *call)
{
    if (call->req == NULL)
        return;
    call->written_ns = clock_ns();
    sse_long_end(call->req);
    call->stream_is_sse = true;
}

void stream_write(struct call *call, const void *data, size_t len)
{
    if (call->req == NULL)
        return;
    call->written_ns = clock_ns();
    http_stream_write(call->req, data, len);
}

bool stream_full(const struct call *call)
{
    return call->req != NULL && http_stream_queued(call->req) >= EDGE_STREAM_QUEUE_MAX;
}

void stream_forget(struct call *call)
{
    if (!call->streaming)
        return;
    call->streaming = false;
    if (call->stream_prev != NULL)
        call->stream_prev->stream_next = call->stream_next;
    else
        call->api->streams = call->stream_next;
    if (call->stream_next != NULL)
        call->stream_next->stream_prev = call->stream_prev;
}

void stream_end(struct call *call)
{
    struct http_request *req = call->req;
    stream_forget(call);
    call->stop = NULL;
    if (req == NULL)
        return;
    http_on_close(req, NULL, NULL);
    http_on_drain(req, NULL, NULL);
    call->req = NULL;
    http_stream_end(req);
}

void stream_cut(struct call *call)
{
    if (call->req != NULL)
        http_stream_cut(call->req);
}

// What follows a process or a sandbox lets go of it, as when the client goes.
static void cut(struct call *call)
{
    call_ref(call);
    void (*stop)(struct call *) = call->stop;
    call->stop = NULL;
    if (stop != NULL)
        stop(call);
    stream_end(call);
    call_unref(call);
}

void streams_tick(struct api *api)
{
    int64_t now = clock_ns();
    for (struct call *c = api->streams, *next; c != NULL; c = next) {
        next = c->stream_next;                       // ending one leaves the others
        if (c->token != NULL && c->token->revoked) { // before there was a stream to end
            cut(c);
        } else if (c->stream_is_sse && now - c->written_ns >= QUIET_S * NS_PER_S &&
                   !stream_full(c)) {
            c->written_ns = now;
            sse_comment(c->req);
        }
    }
}

void streams_end(struct api *api, const struct token *token)
{
    for (struct call *c = api->streams, *next; c != NULL; c = next) {
        next = c->stream_next; // ending one leaves the others
        if (token != NULL ? c->token == token : !c->stream_stays)
            cut(c);
    }
    previews_end_token(api->previews, token);
}
