// SPDX-License-Identifier: Apache-2.0
#include "api/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

struct transfer {
    struct call *call; // counted; NULL when it was told of
    struct move *move;
    struct follower *follower; // NULL when it was cut, or is of no sandbox
    bool is_cut;
    transfer_fn fn;
    int none; // a pipe from which nothing comes, of one whose bytes are in memory; or -1
    LIST_ENTRY(transfer) all; // of api->transfers
};

static bool is_of_box(const struct call *call)
{
    return call->sandbox != NULL && !call->is_apart;
}

// Tells of it. What is left is to be freed.
static void tell(struct transfer *t, const struct move_result *result)
{
    struct call *call = t->call;
    t->call = NULL;
    LIST_REMOVE(t, all);
    follower_free(t->follower);
    t->follower = NULL;
    fd_close(t->none);
    if (is_of_box(call))
        sandbox_idle(call->sandbox);
    t->fn(call, result);
    call_unref(call);
}

static void finish(struct transfer *t, const struct move_result *result)
{
    if (t->call != NULL) // else it was dropped meanwhile
        tell(t, result);
    free(t);
}

static void on_done(void *data, const struct move_result *result)
{
    finish(data, result);
}

static void on_stopped(void *data)
{
    finish(data, NULL);
}

static void cut(struct transfer *t)
{
    if (t->is_cut)
        return;
    t->is_cut = true;
    follower_free(t->follower);
    t->follower = NULL;
    move_cancel(t->move, on_stopped, t);
}

static void on_event(void *data, const struct event_row *row)
{
    if (row == NULL || strcmp(row->type, "slept") == 0 || strcmp(row->type, "lost") == 0)
        cut(data);
}

// Takes the pipe, on success.
static int start(struct call *call, struct move_config *config, int none, transfer_fn fn,
                 struct err *err)
{
    struct transfer *t = calloc(1, sizeof *t);
    if (t == NULL)
        abort();
    t->none = none;
    config->done = on_done;
    config->data = t;
    t->move = move_start(call->api->mover, config, err);
    if (t->move == NULL) {
        free(t);
        return -1;
    }
    t->call = call_ref(call);
    t->fn = fn;
    LIST_INSERT_HEAD(&call->api->transfers, t, all);
    if (is_of_box(call)) {
        t->follower = sandbox_follow(call->sandbox, on_event, t);
        sandbox_busy(call->sandbox);
    }
    return 0;
}

int transfer_start(struct call *call, struct move_config *config, transfer_fn fn, struct err *err)
{
    return start(call, config, -1, fn, err);
}

int transfer_last_chunk(struct call *call, int from, transfer_fn fn, struct err *err)
{
    static const char last[] = "0\r\n\r\n";
    if (call->taken == NULL || call->taken->is_old)
        return err_set(err, ERR_UNSUPPORTED, "the connection's end is the answer's");
    struct move_config config = {
        .from = from,
        .from_offset = MOVE_NO_OFFSET,
        .to = call->taken->fd,
        .to_offset = MOVE_NO_OFFSET,
        .first = last,
        .first_len = sizeof last - 1,
        .stall_ms = TRANSFER_STALL_MS,
    };
    return start(call, &config, -1, fn, err);
}

int transfer_body(struct call *call, int to, int64_t to_offset, transfer_fn fn, struct err *err)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const struct http_taken *taken = call->taken;
    if (taken->expects && taken->early.len == 0)
        (void)send(taken->fd, go_on, sizeof go_on - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    struct move_config config = {
        .from = taken->fd,
        .from_offset = MOVE_NO_OFFSET,
        .to = to,
        .to_offset = to_offset,
        .length = taken->chunked ? MOVE_TO_END : taken->length,
        .first = taken->early.data,
        .first_len = taken->early.len,
        .first_is_body = true,
        .chunked = taken->chunked,
        .stall_ms = TRANSFER_STALL_MS,
    };
    return start(call, &config, -1, fn, err);
}

void transfer_body_over(struct call *call, const struct move_result *result)
{
    struct http_taken *taken = call->taken;
    if (taken == NULL)
        return;
    taken->keep = taken->keep && result != NULL && result->why == MOVE_COMPLETE &&
                  result->first_used == taken->early.len;
    buf_reset(&taken->early);
}

int transfer_memory(struct call *call, const void *data, size_t len, int to, int64_t to_offset,
                    transfer_fn fn, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(err, errno, "make a pipe");
    fd_close(ends[1]);
    auto_fd none = ends[0];
    struct move_config config = {
        .from = none,
        .from_offset = MOVE_NO_OFFSET,
        .to = to,
        .to_offset = to_offset,
        .length = len,
        .first = data,
        .first_len = len,
        .first_is_body = true,
        .stall_ms = TRANSFER_STALL_MS,
    };
    int r = start(call, &config, none, fn, err);
    if (r == 0)
        (void)TAKE_FD(none);
    return r;
}

void transfers_cut(struct api *api, const struct token *token)
{
    struct transfer *t;
    LIST_FOREACH(t, &api->transfers, all)
    {
        if (t->call->token == token)
            cut(t);
    }
}

void transfers_drop(struct api *api)
{
    while (!LIST_EMPTY(&api->transfers)) {
        struct transfer *t = LIST_FIRST(&api->transfers);
        bool is_cut = t->is_cut; // then the mover tells of it when it is freed
        tell(t, NULL);
        if (!is_cut)
            free(t);
    }
}
