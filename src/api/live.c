// SPDX-License-Identifier: Apache-2.0
#include "api/live.h"

#include "base/pieces.h"

enum { PIECE = 32 * 1024 }; // bytes of an event

struct live { // perform_own
    struct live_request r;
    struct pieces pieces[LOG_STREAMS];
    uint64_t offset[LOG_STREAMS];
    enum log_stream stream; // that is being told
    bool paused;
};

static void tell(void *data, const char *bytes, size_t len)
{
    struct call *call = data;
    struct live *live = perform_own(call);
    enum log_stream stream = live->stream;
    live->r.piece(call, stream, live->offset[stream], bytes, len);
    live->offset[stream] += len;
}

static void on_output(void *data, enum log_stream stream, const char *bytes, size_t len)
{
    struct call *call = data;
    struct live *live = perform_own(call);
    live->stream = stream;
    pieces_take(&live->pieces[stream], bytes, len, PIECE, tell, call);
    if (stream_full(call) && !live->paused) {
        live->paused = true;
        perform_pause(call, true);
    }
}

static void on_drain(void *data)
{
    struct call *call = data;
    struct live *live = perform_own(call);
    if (!live->paused)
        return;
    live->paused = false;
    perform_pause(call, false);
}

static void on_began(struct call *call)
{
    const struct live *live = perform_own(call);
    if (call->req == NULL)
        return;
    stream_begin_sse(call);
    http_on_drain(call->req, on_drain, call);
    if (live->r.began != NULL)
        live->r.began(call);
}

static void on_ended(struct call *call, const struct perform_end *end)
{
    struct live *live = perform_own(call);
    for (live->stream = 0; live->stream < LOG_STREAMS; live->stream++)
        pieces_end(&live->pieces[live->stream], tell, call);
    live->r.run.ended(call, end);
}

void live_begin(struct call *call, const struct live_request *request)
{
    struct perform_request run = request->run;
    run.own = sizeof(struct live);
    run.output = on_output;
    run.began = on_began;
    run.ended = on_ended;
    perform_prepare(call, &run);
    struct live *live = perform_own(call);
    live->r = *request;
    perform_begin(call);
}
