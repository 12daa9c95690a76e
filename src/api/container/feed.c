// SPDX-License-Identifier: Apache-2.0
#include "api/container/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/transfer.h"
#include "base/fd.h"

enum { TURN = 8 }; // slices, before others have theirs

static struct feed *feed_of(const struct call *call)
{
    struct feed_call *f = call->state;
    return &f->feed;
}

// -- the end

static void on_closed(uv_handle_t *handle)
{
    struct call *call = handle->data;
    struct feed *feed = feed_of(call);
    fd_close(TAKE_FD(feed->from)); // the mover hears of it by EPIPE, if it still writes
    free(feed->slice);
    feed->slice = NULL;
    call_unref(call);
}

void feed_stop(struct call *call)
{
    struct feed *feed = feed_of(call);
    if (feed->ops == NULL || feed->is_over)
        return;
    feed->is_over = true;
    uv_close((uv_handle_t *)&feed->poll, on_closed);
}

static void finish(struct call *call)
{
    struct feed *feed = feed_of(call);
    bool whole = feed->left == 0;
    feed_stop(call);
    feed->ops->over(call, whole);
}

// -- the loop's side

static void hand_out(struct call *call)
{
    struct feed *feed = feed_of(call);
    size_t len = feed->len;
    feed->len = 0;
    feed->ops->slice(call, feed->slice, len);
}

// Whether to go on. All that was read is told when it is a slice, or the last of it.
static bool read_some(struct call *call)
{
    struct feed *feed = feed_of(call);
    ssize_t n = read(feed->from, feed->slice + feed->len, FEED_SLICE - feed->len);
    if (n < 0)
        return errno == EINTR;
    feed->len += (size_t)n;
    feed->left -= (size_t)n < feed->left ? (size_t)n : feed->left;
    if (feed->len == FEED_SLICE || (feed->len > 0 && feed->left == 0))
        hand_out(call);
    if (!feed->is_over && (n == 0 || feed->left == 0))
        finish(call);
    return !feed->is_over && !stream_full(call);
}

static void set_polled(struct call *call, bool polled);

static void pump(struct call *call)
{
    call_ref(call);
    for (int i = 0; i < TURN; i++) {
        if (!read_some(call))
            break;
    }
    set_polled(call, !stream_full(call));
    call_unref(call);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status; // read(2) says it better
    (void)events;
    pump(poll->data);
}

static void set_polled(struct call *call, bool polled)
{
    struct feed *feed = feed_of(call);
    if (feed->is_over || feed->is_polled == polled)
        return;
    feed->is_polled = polled;
    if (polled)
        (void)uv_poll_start(&feed->poll, UV_READABLE, on_readable);
    else
        (void)uv_poll_stop(&feed->poll);
}

void feed_drained(void *data)
{
    set_polled(data, true);
}

// -- the thread's side

static void on_moved(struct call *call, const struct move_result *result)
{
    struct feed *feed = feed_of(call);
    (void)result; // what did not come is seen by its reader
    fd_close(TAKE_FD(feed->file));
    fd_close(TAKE_FD(feed->to));
}

static int move(struct call *call, struct feed *feed, struct err *err)
{
    struct move_config config = {
        .from = feed->file,
        .to = feed->to,
        .to_offset = MOVE_NO_OFFSET,
        .length = feed->left,
    };
    return transfer_start(call, &config, on_moved, err);
}

int feed_start(struct call *call, int take_file, uint64_t length, const struct feed_ops *ops,
               struct err *err)
{
    struct feed *feed = feed_of(call);
    auto_fd file = take_file;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(err, errno, "make a pipe");
    auto_fd from = ends[0], to = ends[1];
    int r = uv_poll_init(call->api->loop, &feed->poll, from);
    if (r < 0)
        return err_sys(err, -r, "watch a pipe");
    feed->ops = ops;
    feed->left = length;
    feed->file = TAKE_FD(file);
    feed->from = TAKE_FD(from);
    feed->to = TAKE_FD(to);
    feed->slice = malloc(FEED_SLICE);
    if (feed->slice == NULL)
        abort();
    feed->poll.data = call_ref(call);
    if (move(call, feed, err) < 0) {
        on_moved(call, NULL);
        feed_stop(call);
        return -1;
    }
    set_polled(call, true);
    return 0;
}
