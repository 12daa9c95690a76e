// SPDX-License-Identifier: Apache-2.0
// Whole archives of a sandbox's files, to and from clients: made by cay-pack from a copy of the
// disk, so that nothing is woken. Out: an answer in chunks that begins with the first byte (what
// fails before is told as an error), and whose end is sent when all agree that it is whole. In: a
// body into a pipe; nothing is changed unless all of it came.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "api/handlers.h"
#include "api/saved-fail.h"
#include "api/show.h"
#include "api/transfer.h"
#include "base/fd.h"
#include "base/mem.h"
#include "saved/backup.h"

enum {
    HEAD_MAX = 8 * 1024,
    EXCLUDES_MAX = 100,
    PIPE_BYTES = 1024 * 1024,
};

// Ours does not block; the other is for a program.
static int make_pipe(int ends[2], int ours, struct err *err)
{
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    (void)fd_set_nonblock(ends[ours], 1);
    (void)fcntl(ends[ours], F_SETPIPE_SZ, PIPE_BYTES); // smaller ones do, too
    return 0;
}

// -- out

// Lives on its own: the end of the packing and the end of the moving both refer to it.
struct export
{
    struct call *call; // counted
    int pipe;
    uv_poll_t *first; // waits for the first byte; NULL: it came, or never will
    bool is_moving, is_moved, is_ended, failed;
    struct err err;
};

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle);
}

static void stop_waiting(struct export *x)
{
    if (x->first == NULL)
        return;
    (void)uv_poll_stop(x->first);
    uv_close((uv_handle_t *)x->first, on_poll_closed);
    x->first = NULL;
}

static void export_free(struct export *x)
{
    stop_waiting(x);
    fd_close(x->pipe);
    call_unref(x->call);
    free(x);
}

static void on_end_sent(struct call *call, const struct move_result *result)
{
    struct export *x = *(struct export **)call->state;
    if (result != NULL && result->why == MOVE_COMPLETE)
        call_taken_done(call);
    else
        call_drop(call);
    export_free(x);
}

static void finish_out(struct export *x)
{
    struct err err;
    struct call *call = x->call;
    if (!x->failed && transfer_last_chunk(call, x->pipe, on_end_sent, &err) == 0)
        return;
    call_drop(call);
    export_free(x);
}

static void on_moved(struct call *call, const struct move_result *result)
{
    struct export *x = *(struct export **)call->state;
    x->is_moved = true;
    if (result == NULL || result->why != MOVE_COMPLETE) {
        x->failed = true;
        call_drop(call);
        fd_close(TAKE_FD(x->pipe)); // whoever writes to it ends
    }
    if (x->is_ended)
        finish_out(x);
}

static int begin_answer(struct export *x, struct err *err)
{
    struct call *call = x->call;
    auto_buf head;
    buf_init(&head, HEAD_MAX);
    if (call->req == NULL || call_take(call) < 0)
        return -1;
    if (call->taken->is_old) {
        http_taken_head(call->taken, 200, &head);
        (void)buf_append_str(&head, "Content-Type: application/zstd\r\nConnection: close\r\n\r\n");
    } else {
        call_taken_head(call, 200, "application/zstd", UINT64_MAX, &head);
    }
    call_count(call, 200);
    struct move_config config = {
        .from = x->pipe,
        .from_offset = MOVE_NO_OFFSET,
        .to = call->taken->fd,
        .to_offset = MOVE_NO_OFFSET,
        .length = MOVE_TO_END,
        .first = head.data,
        .first_len = head.len,
        .to_chunked = !call->taken->is_old,
        .stall_ms = TRANSFER_STALL_MS,
    };
    return transfer_start(call, &config, on_moved, err);
}

// Readable, or at its end: of one that failed before it wrote anything there is nothing to send.
static void on_first(uv_poll_t *poll, int status, int events)
{
    struct export *x = poll->data;
    struct err err = {0};
    int n = 0;
    (void)status, (void)events;
    bool has_some = ioctl(x->pipe, FIONREAD, &n) == 0 && n > 0;
    stop_waiting(x);
    if (!has_some)
        return;
    x->is_moving = true;
    if (begin_answer(x, &err) == 0)
        return;
    x->failed = x->is_moved = true;
    call_drop(x->call);
    fd_close(TAKE_FD(x->pipe));
}

static void on_exported(void *data, const struct err *err)
{
    struct export *x = data;
    x->is_ended = true;
    if (err != NULL) {
        x->failed = true;
        x->err = *err;
    }
    if (x->first != NULL) // all of it may be in the pipe
        on_first(x->first, 0, UV_READABLE);
    if (x->is_moved) {
        finish_out(x);
    } else if (!x->is_moving) {
        if (err == NULL)
            (void)err_set(&x->err, ERR_INTERNAL, "an archive without a byte");
        saved_fail(x->call, &x->err);
        export_free(x);
    }
}

static void on_gone(struct call *call)
{
    struct export *x = *(struct export **)call->state;
    if (x->is_moving)
        return;
    stop_waiting(x); // nobody reads it any more
    fd_close(TAKE_FD(x->pipe));
}

static int start_export(struct call *call, int ends[2], struct export **ret, struct err *err)
{
    struct export *x = calloc(1, sizeof *x);
    struct export **state = calloc(1, sizeof *state);
    uv_poll_t *poll = calloc(1, sizeof *poll);
    if (x == NULL || state == NULL || poll == NULL)
        abort();
    x->pipe = ends[0];
    if (uv_poll_init(call->api->loop, poll, ends[0]) < 0) {
        free(x);
        free(state);
        free(poll);
        return err_set(err, ERR_INTERNAL, "cannot watch a pipe");
    }
    x->call = call_ref(call);
    x->first = poll;
    poll->data = x;
    (void)uv_poll_start(poll, UV_READABLE | UV_DISCONNECT, on_first);
    *state = x;
    call->state = state;
    call->stop = on_gone;
    call->is_apart = true;
    *ret = x;
    return 0;
}

// Patterns, by commas, cut in place.
static int cut_excludes(char *text, const char **ret, struct err *err)
{
    size_t n = 0;
    for (char *at = text; at != NULL && *at != '\0';) {
        char *comma = strchr(at, ',');
        if (comma != NULL)
            *comma++ = '\0';
        if (*at == '\0')
            return err_set(err, ERR_INVALID, "?exclude: an empty pattern");
        if (n == EXCLUDES_MAX)
            return err_set(err, ERR_INVALID, "?exclude: at most %d patterns", EXCLUDES_MAX);
        ret[n++] = at;
        at = comma;
    }
    ret[n] = NULL;
    return 0;
}

void handle_export(struct call *call)
{
    struct err err = {0};
    const char *excludes[EXCLUDES_MAX + 1];
    auto_free char *text = mem_copy_text(call_query(call, "exclude"));
    struct backup_request request = {.dir = call_query(call, "dir"), .excludes = excludes};
    struct export *x;
    int ends[2];
    if (call->is_head) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "an archive has no HEAD: it is made as it is sent");
        return;
    }
    if (call_query_bool(call, "gitignore", false, &request.gitignore) < 0)
        return;
    if (cut_excludes(text, excludes, &err) < 0 || make_pipe(ends, 0, &err) < 0) {
        call_fail(call, &err);
        return;
    }
    if (start_export(call, ends, &x, &err) < 0) {
        fd_close(ends[0]);
        fd_close(ends[1]);
        call_fail(call, &err);
        return;
    }
    call_add_header(call, "Content-Security-Policy", "sandbox");
    backup_export(call->api->saved, call->sandbox, &request, ends[1], on_exported, x);
}

// -- in

struct import {
    struct importing *importing;
    int pipe;
};

static void on_imported(void *data, const struct err *err)
{
    struct call *call = data;
    struct import *m = call->state;
    m->importing = NULL;
    if (err != NULL)
        saved_fail(call, err);
    else
        call_reply_ok(call);
    call_unref(call);
}

static enum import_over how_over(const struct move_result *result)
{
    if (result != NULL && result->why == MOVE_COMPLETE)
        return IMPORT_WHOLE;
    return result != NULL && result->why == MOVE_TO_FAILED ? IMPORT_REFUSED : IMPORT_CUT;
}

// Closed first: the end of the pipe is the end of the archive, and then whether it was all is said.
static void on_body_moved(struct call *call, const struct move_result *result)
{
    struct import *m = call->state;
    fd_close(TAKE_FD(m->pipe));
    transfer_body_over(call, result);
    if (result != NULL && result->why == MOVE_BAD_CHUNKS)
        call_error(call, ERROR_INVALID_REQUEST, NULL, "the body is not chunked as it should be");
    else if (result != NULL && result->why == MOVE_STALLED)
        call_error(call, ERROR_UNAVAILABLE, NULL, "nothing of the archive moved for %d seconds",
                   EDGE_IDLE_SECONDS);
    else if (how_over(result) == IMPORT_CUT)
        call_drop(call); // the client has gone, or its connection is cut
    backup_import_over(m->importing, how_over(result));
}

static int move_in(struct call *call, struct err *err)
{
    const struct import *m = call->state;
    size_t len;
    if (!http_is_raw(call->req)) {
        const char *body = http_body(call->req, &len);
        return transfer_memory(call, body, len, m->pipe, MOVE_NO_OFFSET, on_body_moved, err);
    }
    if (call_take(call) < 0)
        return -1;
    return transfer_body(call, m->pipe, MOVE_NO_OFFSET, on_body_moved, err);
}

void handle_import(struct call *call)
{
    struct err err = {0};
    int ends[2];
    const char *encoding = http_header(call->req, "Content-Encoding");
    struct import *m = calloc(1, sizeof *m);
    if (m == NULL)
        abort();
    call->state = m;
    m->pipe = -1;
    if (encoding != NULL && strcasecmp(encoding, "identity") != 0) {
        call_error(call, ERROR_UNSUPPORTED_MEDIA_TYPE, NULL,
                   "Content-Encoding: send the archive as it is; it may be compressed itself");
        return;
    }
    if (make_pipe(ends, 1, &err) < 0) {
        call_fail(call, &err);
        return;
    }
    m->pipe = ends[1];
    call->is_apart = true;
    m->importing = backup_import(call->api->saved, call->sandbox, call_query(call, "dir"),
                                 call_query(call, "sha256"), ends[0], on_imported, call_ref(call));
    if (move_in(call, &err) == 0)
        return;
    if (call->taken != NULL)
        call->taken->keep = false;
    fd_close(TAKE_FD(m->pipe));
    backup_import_over(m->importing, IMPORT_CUT);
}
