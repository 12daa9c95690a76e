// SPDX-License-Identifier: Apache-2.0
#include "cli/follow.h"

#include <string.h>
#include <time.h>

enum {
    PAUSE_FIRST_MS = 50,
    PAUSE_MAX_MS = 5000,
};

static void pause_before(unsigned try)
{
    int64_t ms = PAUSE_FIRST_MS;
    for (unsigned i = 1; i < try && ms < PAUSE_MAX_MS; i++)
        ms *= 2;
    ms = ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS;
    (void)nanosleep(&(const struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000},
                    NULL);
}

// Answers that say "not now" rather than "no". A key does not come by waiting for it.
static bool is_passing(const struct remote *remote)
{
    if (strcmp(remote->error_code, "MISSING_API_KEY") == 0)
        return false;
    return remote->status == 503 || strcmp(remote->error_code, "REQUEST_IN_PROGRESS") == 0;
}

bool follow_again(struct follow *follow, enum http_broken broken, const struct err *err)
{
    const struct remote *remote = follow->remote;
    // We did not want more; the answer is complete and says no; or nobody can read it.
    if (follow->stopped || follow->once)
        return false;
    if (remote->status >= 300 && !is_passing(remote))
        return false;
    if (remote->status == 0 && err->code != ERR_UNAVAILABLE && err->sys_errno == 0)
        return false;
    // Nobody there from the start is a mistake, not a break.
    if (broken == HTTP_NOT_CONNECTED && !follow->was_connected)
        return false;
    if (++follow->tries > FOLLOW_TRIES)
        return false;
    if (remote->verbose)
        (void)fprintf(stderr, "cay: the stream broke, going on where it was\n");
    pause_before(follow->tries);
    return true;
}

struct reader {
    struct follow *follow;
    char began[EVENT_ID_MAX]; // where this connection has gone on
    struct event_stream stream;
    event_fn fn;
    void *data;
};

static int take_event(void *data, const struct event *event, struct err *err)
{
    struct reader *reader = data;
    // A server tells the beginning each time; only what leads further is news.
    if (strcmp(event->id, reader->began) != 0)
        reader->follow->tries = 0;
    int r = reader->fn(reader->data, event, err);
    reader->follow->stopped = r != 0;
    return r;
}

static int take_bytes(void *data, const void *bytes, size_t len, struct err *err)
{
    struct reader *reader = data;
    reader->follow->was_connected = true;
    return event_stream_feed(&reader->stream, bytes, len, err);
}

int follow_events(struct follow *follow, const struct http_call *call, event_fn fn, void *data,
                  struct err *err)
{
    struct reader reader = {.follow = follow, .fn = fn, .data = data};
    enum http_broken broken = HTTP_NOT_CONNECTED;
    bool again;
    event_stream_init(&reader.stream, take_event, &reader);
    do {
        struct http_call next = *call;
        next.accept = "text/event-stream";
        if (reader.stream.id[0] != '\0')
            next.last_event = reader.stream.id;
        memcpy(reader.began, reader.stream.id, sizeof reader.began);
        event_stream_restart(&reader.stream);
        int r = remote_stream(follow->remote, &next, take_bytes, &reader, &broken, err);
        follow->done = follow->done || (r == 0 && follow->to_end);
        if (r == 0 && !follow->done)
            (void)err_set(err, ERR_UNAVAILABLE, "the server ended the stream too early");
        again = !follow->done && follow_again(follow, broken, err);
    } while (again);
    event_stream_done(&reader.stream);
    return follow->done ? 0 : -1;
}
