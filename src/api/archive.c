// SPDX-License-Identifier: Apache-2.0
// Trees as tar archives. The hand writes or reads one through a pipe, the mover moves it between
// that and the connection. Out: an answer in chunks, whose end is sent when the hand has said that
// it did all of it; a connection that ends without is how a failure shows.
#include "api/archive.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/handlers.h"
#include "api/show.h"
#include "api/transfer.h"
#include "base/fd.h"

enum {
    HEAD_MAX = 8 * 1024,
    ANSWER_MAX = 64 * 1024,
};

struct archive_call {
    struct file_call file; // first; its path is where the tree is
    struct archive_out out;
    struct archive_in in;
    int pipe; // from or to the hand
    // Both have to come to an end, in any order.
    bool is_moved, is_ended;
    bool failed;    // out: it cannot be whole any more
    struct err err; // in: what the hand said
    struct hand_ended ended;
    char excludes[]; // of `out`
};

static void close_pipe(struct archive_call *a)
{
    fd_close(TAKE_FD(a->pipe));
}

// -- out

static void on_end_sent(struct call *call, const struct move_result *result)
{
    close_pipe(call->state);
    if (result != NULL && result->why == MOVE_COMPLETE)
        call_taken_done(call);
    else
        call_drop(call);
}

static void finish_out(struct call *call)
{
    struct archive_call *a = call->state;
    struct err err;
    if (!a->failed && transfer_last_chunk(call, a->pipe, on_end_sent, &err) == 0)
        return;
    close_pipe(a);
    call_drop(call);
}

static void on_out_moved(struct call *call, const struct move_result *result)
{
    struct archive_call *a = call->state;
    a->is_moved = true;
    if (result == NULL || result->why != MOVE_COMPLETE) {
        a->failed = true;
        call_drop(call);
        close_pipe(a);
        files_cancel(call); // nobody reads it
    } else if (a->is_ended) {
        finish_out(call);
    }
}

static void on_out_started(void *data, struct hand_answer *answer)
{
    struct call *call = data;
    struct archive_call *a = call->state;
    struct err err;
    auto_buf head;
    buf_init(&head, HEAD_MAX);
    a->pipe = TAKE_FD(answer->fd);
    call_add_header(call, "Content-Security-Policy", "sandbox");
    if (call->req == NULL || call_take(call) < 0) {
        a->failed = a->is_moved = true;
        close_pipe(a); // whoever writes to it ends
        return;
    }
    if (call->taken->is_old)
        http_taken_head(call->taken, 200, &head);
    else
        call_taken_head(call, 200, a->out.type, UINT64_MAX, &head);
    if (call->taken->is_old)
        (void)buf_printf(&head, "Content-Type: %s\r\nConnection: close\r\n\r\n", a->out.type);
    call_count(call, 200);
    struct move_config config = {
        .from = a->pipe,
        .from_offset = MOVE_NO_OFFSET,
        .to = call->taken->fd,
        .to_offset = MOVE_NO_OFFSET,
        .length = MOVE_TO_END,
        .first = head.data,
        .first_len = head.len,
        .to_chunked = !call->taken->is_old,
        .stall_ms = TRANSFER_STALL_MS,
    };
    if (transfer_start(call, &config, on_out_moved, &err) == 0)
        return;
    a->failed = a->is_moved = true;
    close_pipe(a);
}

static void on_out_done(void *data, const struct hand_ended *ended, const struct err *err)
{
    struct call *call = data;
    struct archive_call *a = call->state;
    a->is_ended = true;
    a->failed = a->failed || err != NULL || ended->sys_errno != 0;
    if (call->req != NULL && err != NULL) // it did not begin
        files_fail(call, err);
    else if (a->is_moved)
        finish_out(call);
    files_work_over(call);
}

static void ask_out(struct call *call)
{
    static const struct hand_long_ops ops = {.started = on_out_started, .done = on_out_done};
    const struct archive_call *a = call->state;
    struct hand_tar tar = {.exclude_len = (uint32_t)strlen(a->excludes)};
    auto_buf data;
    buf_init(&data, HAND_DATA_MAX);
    (void)buf_append(&data, &tar, sizeof tar);
    (void)buf_append(&data, a->excludes, tar.exclude_len + 1);
    struct hand_ask ask = {.type = HAND_TAR_OUT, .path = a->file.path, .flags = a->out.flags};
    if (tar.exclude_len > 0) {
        ask.data = data.data;
        ask.data_len = data.len;
    }
    if (data.failed != 0)
        call_error(call, ERROR_INVALID_REQUEST, NULL, "what is to be left out is too long a list");
    else
        files_work(call, &ask, &ops);
}

// What is not there is told before the answer begins.
static void on_out_seen(struct call *call, struct hand_answer *answer, const struct err *err)
{
    (void)answer;
    if (err != NULL)
        files_fail(call, err);
    else if (call->req != NULL)
        ask_out(call);
}

static void start_out(struct call *call)
{
    const struct archive_call *a = call->state;
    const struct hand_ask ask = {.type = HAND_STAT, .path = a->file.path};
    files_ask(call, &ask, on_out_seen);
}

// -- in

static void reply_in(struct call *call, const struct hand_ended *ended)
{
    const struct archive_call *a = call->state;
    struct buf buf;
    struct json j;
    buf_init(&buf, ANSWER_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_str(&j, "path", a->file.path);
    show_int(&j, "entries", (int64_t)ended->n);
    show_int(&j, "bytes", (int64_t)ended->bytes);
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}

static void fail_in(struct call *call)
{
    const struct archive_call *a = call->state;
    if (a->err.sys_errno == EBADMSG)
        call_error(
            call, ERROR_INVALID_REQUEST, NULL,
            "the body is not a tar archive, or not all of one; what came before is unpacked");
    else
        files_fail(call, &a->err);
}

static void finish_in(struct call *call)
{
    struct archive_call *a = call->state;
    if (a->err.code != ERR_NONE)
        fail_in(call);
    else
        a->in.reply(call, &a->ended);
}

// Not all of it came to the hand, which is not to blame: whoever is still there is told.
static void give_up_in(struct call *call, const struct move_result *result)
{
    files_cancel(call);
    if (result != NULL && result->why == MOVE_BAD_CHUNKS)
        call_error(call, ERROR_INVALID_REQUEST, NULL, "the body is not chunked as it should be");
    else if (result != NULL && result->why == MOVE_STALLED)
        call_error(call, ERROR_UNAVAILABLE, NULL, "nothing of the archive moved for %d seconds",
                   EDGE_IDLE_SECONDS);
    else if (call->req != NULL)
        call_error(call, ERROR_UNAVAILABLE, NULL,
                   "it was ended before all of the archive was there");
    else
        call_drop(call); // the client has gone, or its connection is cut
}

// The hand sees the archive's end when the pipe is closed; whether it was whole it knows itself.
static void on_in_moved(struct call *call, const struct move_result *result)
{
    struct archive_call *a = call->state;
    a->is_moved = true;
    close_pipe(a);
    transfer_body_over(call, result);
    if (result == NULL || (result->why != MOVE_COMPLETE && result->why != MOVE_TO_FAILED))
        give_up_in(call, result);
    else if (a->is_ended)
        finish_in(call);
}

static int move_in(struct call *call, struct err *err)
{
    const struct archive_call *a = call->state;
    size_t len;
    if (call->req == NULL)
        return -1; // nobody sends it
    if (!http_is_raw(call->req)) {
        const char *body = http_body(call->req, &len);
        return transfer_memory(call, body, len, a->pipe, MOVE_NO_OFFSET, on_in_moved, err);
    }
    if (call_take(call) < 0)
        return -1;
    return transfer_body(call, a->pipe, MOVE_NO_OFFSET, on_in_moved, err);
}

static void on_in_started(void *data, struct hand_answer *answer)
{
    struct call *call = data;
    struct archive_call *a = call->state;
    a->pipe = TAKE_FD(answer->in_fd);
    if (move_in(call, &a->err) == 0)
        return;
    a->is_moved = true;
    a->err.code = ERR_UNAVAILABLE; // whatever the hand says of the nothing that it gets
    if (call->taken != NULL)
        call->taken->keep = false;
    close_pipe(a);
}

static void on_in_done(void *data, const struct hand_ended *ended, const struct err *err)
{
    struct call *call = data;
    struct archive_call *a = call->state;
    a->is_ended = true;
    if (ended != NULL)
        a->ended = *ended;
    if (a->err.code != ERR_NONE)
        a->err.sys_errno = 0; // it did not begin
    else if (err != NULL)
        a->err = *err;
    else
        (void)files_ended(ended, a->file.path, &a->err);
    if (a->is_moved || a->pipe < 0)
        finish_in(call);
    files_work_over(call);
}

static void start_in(struct call *call)
{
    static const struct hand_long_ops ops = {.started = on_in_started, .done = on_in_done};
    const struct archive_call *a = call->state;
    const struct hand_ask ask = {
        .type = HAND_TAR_IN,
        .path = a->file.path,
        .flags = HAND_PARENTS | (a->in.owner ? HAND_OWNER : 0u),
    };
    files_work(call, &ask, &ops);
}

// -- the doors

static struct archive_call *new_call(struct call *call, const char *path, const char *excludes)
{
    struct archive_call *a = files_new(call, sizeof *a + strlen(excludes) + 1);
    if (a == NULL)
        return NULL;
    a->pipe = -1;
    memcpy(a->excludes, excludes, strlen(excludes) + 1);
    (void)snprintf(a->file.path, sizeof a->file.path, "%s", path);
    return a;
}

void archive_send(struct call *call, const struct archive_out *out)
{
    struct archive_call *a = new_call(call, out->path, out->excludes != NULL ? out->excludes : "");
    if (a == NULL)
        return;
    a->out = *out;
    a->out.excludes = NULL; // a copy is behind it
    files_wake(call, start_out);
}

void archive_take(struct call *call, const struct archive_in *in)
{
    const char *encoding = http_header(call->req, "Content-Encoding");
    if (encoding != NULL && strcasecmp(encoding, "identity") != 0) {
        call_error(call, ERROR_UNSUPPORTED_MEDIA_TYPE, NULL,
                   "Content-Encoding: send the archive as it is, not compressed");
        return;
    }
    struct archive_call *a = new_call(call, in->path, "");
    if (a == NULL)
        return;
    a->in = *in;
    files_wake(call, start_in);
}

// -- the routes

// ?path, or NULL when it was refused and answered.
static const char *read_path(struct call *call)
{
    struct err err = {0};
    const char *path = call_query(call, "path");
    if (path == NULL) {
        call_error(call, ERROR_INVALID_REQUEST, NULL, "?path: say which directory");
        return NULL;
    }
    if (file_path_check(path, &err) == 0)
        return path;
    (void)err_wrap(&err, "?path");
    call_fail(call, &err);
    return NULL;
}

void handle_archive_get(struct call *call)
{
    struct archive_out out = {.path = read_path(call), .type = "application/x-tar"};
    if (out.path == NULL)
        return;
    if (call->is_head)
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "an archive has no HEAD: it is made as it is sent");
    else
        archive_send(call, &out);
}

void handle_archive_put(struct call *call)
{
    struct archive_in in = {.path = read_path(call), .reply = reply_in};
    if (in.path != NULL && call_query_bool(call, "owner", false, &in.owner) == 0)
        archive_take(call, &in);
}
