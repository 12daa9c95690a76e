// SPDX-License-Identifier: Apache-2.0
#include "sandbox/hand-long.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"

enum {
    READ_SIZE = 64 * 1024,
    TURN = 4, // reads, before others have theirs
};

struct hand_long {
    uv_loop_t *loop;
    uv_poll_t poll;
    bool has_poll;
    int fd;
    struct hand_call *hand; // NULL when it is over
    const struct hand_long_ops *ops;
    void *data;
    unsigned busy; // calls of ours that go on
    bool paused;
    bool has_ended, is_over; // the hand has told; nobody is told any more
    struct hand_ended ended;
    struct buf rest; // of a record that is not whole
};

// -- the end

static void release(uv_handle_t *handle)
{
    free(handle->data);
}

// What it has goes when nobody works on it: whoever is told of a record may cancel.
static void leave(struct hand_long *w)
{
    if (--w->busy > 0 || !w->is_over)
        return;
    if (w->hand != NULL)
        hand_cancel(w->hand);
    w->hand = NULL;
    buf_done(&w->rest);
    if (!w->has_poll) {
        free(w);
        return;
    }
    (void)uv_poll_stop(&w->poll);
    fd_close(TAKE_FD(w->fd));
    uv_close((uv_handle_t *)&w->poll, release);
}

static void finish(struct hand_long *w, const struct hand_ended *ended, const struct err *err)
{
    if (w->is_over)
        return;
    w->busy++;
    w->is_over = true;
    w->ops->done(w->data, ended, err);
    leave(w);
}

void hand_long_cancel(struct hand_long *w)
{
    if (w == NULL || w->is_over)
        return;
    w->busy++;
    w->is_over = true;
    leave(w);
}

// -- records

static void on_record(void *data, const struct hand_record *rec)
{
    struct hand_long *w = data;
    if (!w->is_over && w->ops->record != NULL)
        w->ops->record(w->data, rec);
}

static void nonsense(struct hand_long *w)
{
    struct err err;
    (void)err_set(&err, ERR_UNAVAILABLE, "what works on the sandbox's files talks nonsense");
    finish(w, NULL, &err);
}

// Whether to read on.
static bool take(struct hand_long *w)
{
    ssize_t used = hand_records(w->rest.data, w->rest.len, on_record, w);
    if (w->is_over)
        return false;
    if (used < 0 || (used == 0 && w->rest.len > HAND_RECORD_MAX)) {
        nonsense(w);
        return false;
    }
    buf_consume(&w->rest, (size_t)used);
    return true;
}

// 1: there may be more; 0: nothing now, or it is over.
static int read_some(struct hand_long *w)
{
    char *at;
    size_t room;
    if (buf_reserve(&w->rest, READ_SIZE, &at, &room) < 0 || room == 0) {
        nonsense(w);
        return 0;
    }
    ssize_t n = read(w->fd, at, room);
    if (n < 0 && errno == EINTR)
        return 1;
    // All that it wrote was in the pipe when its end was told: whoever else has the pipe open in
    // the box has nothing to say.
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            (void)uv_poll_stop(&w->poll);
        if (w->has_ended)
            finish(w, &w->ended, NULL);
        return 0;
    }
    buf_commit(&w->rest, (size_t)n);
    return take(w) ? 1 : 0;
}

static void pump(struct hand_long *w)
{
    w->busy++;
    for (int i = 0; i < TURN && !w->paused; i++) {
        if (read_some(w) == 0)
            break;
    }
    leave(w);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status; // read(2) says it better
    (void)events;
    pump(poll->data);
}

// -- the hand

static void on_ended(void *data, const struct hand_ended *ended, const struct err *err)
{
    struct hand_long *w = data;
    w->hand = NULL;
    if (err != NULL) {
        finish(w, NULL, err);
        return;
    }
    w->ended = *ended;
    w->ended.path[sizeof w->ended.path - 1] = '\0';
    w->has_ended = true;
    if (!w->has_poll) {
        finish(w, &w->ended, NULL);
    } else if (!w->paused) { // not by the poll: whoever else has the pipe open keeps its end away
        (void)uv_poll_start(&w->poll, UV_READABLE, on_readable);
        pump(w);
    }
}

static void begin_reading(struct hand_long *w, int fd)
{
    if (uv_poll_init(w->loop, &w->poll, fd) < 0) {
        fd_close(fd);
        nonsense(w);
        return;
    }
    w->fd = fd;
    w->has_poll = true;
    w->poll.data = w;
    if (!w->paused)
        (void)uv_poll_start(&w->poll, UV_READABLE, on_readable);
}

static void on_started(void *data, struct hand_answer *answer, const struct err *err)
{
    struct hand_long *w = data;
    if (err != NULL) {
        w->hand = NULL;
        finish(w, NULL, err);
        return;
    }
    w->busy++;
    if (w->ops->started != NULL)
        w->ops->started(w->data, answer);
    if (!w->is_over && answer->fd >= 0)
        begin_reading(w, TAKE_FD(answer->fd));
    leave(w);
}

struct hand_long *hand_long_start(uv_loop_t *loop, struct sandbox *s, const struct hand_ask *ask,
                                  const struct hand_long_ops *ops, void *data)
{
    struct hand_long *w = calloc(1, sizeof *w);
    if (w == NULL)
        abort();
    w->ops = ops;
    w->data = data;
    w->fd = -1;
    w->loop = loop;
    buf_init(&w->rest, 2 * READ_SIZE);
    w->hand = hand_ask(s, ask, on_started, on_ended, w);
    return w;
}

void hand_long_pause(struct hand_long *w, bool paused)
{
    if (w->paused == paused || w->is_over)
        return;
    w->paused = paused;
    if (!w->has_poll)
        return;
    if (paused)
        (void)uv_poll_stop(&w->poll);
    else
        (void)uv_poll_start(&w->poll, UV_READABLE, on_readable);
}
