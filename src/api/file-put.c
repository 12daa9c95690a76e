// SPDX-License-Identifier: Apache-2.0
// What is small goes to the hand in a message. Else the hand makes a new file without a name and
// hands out its descriptor, the mover writes to that, and then the file gets its name.
#include "api/file-put.h"

#include <stdlib.h>

#include "api/transfer.h"
#include "base/fd.h"

struct writing { // between HAND_CREATE and the answer to HAND_COMMIT
    struct file_put put;
    files_fn fn;
    uint64_t handle;
    int to; // the new file
};

static struct hand_ask ask_of(enum hand_type type, const struct file_put *put)
{
    return (struct hand_ask){
        .type = type,
        .path = put->path,
        .flags = put->terms.flags,
        .mode = put->terms.mode,
        .etag = put->terms.flags & HAND_ETAG_GIVEN ? put->terms.etag : NULL,
    };
}

static void ignore(void *data, struct hand_answer *answer, const struct err *err)
{
    (void)data;
    (void)answer;
    (void)err;
}

static void finish(struct call *call, struct hand_answer *answer, const struct err *err)
{
    struct file_call *f = call->state;
    struct writing *w = f->writing;
    files_fn fn = w->fn;
    f->writing = NULL;
    fd_close(w->to);
    free(w);
    fn(call, answer, err);
}

static void give_up(struct call *call, const struct err *err)
{
    struct file_call *f = call->state;
    const struct hand_ask ask = {.type = HAND_ABORT, .handle = f->writing->handle};
    if (sandbox_box(call->sandbox) != 0) // else it went with the box
        (void)hand_ask(call->sandbox, &ask, ignore, NULL, NULL);
    finish(call, NULL, err);
}

static void gone(struct call *call)
{
    struct err err;
    (void)err_set(&err, ERR_UNAVAILABLE, "the client is gone, or the sandbox");
    call_drop(call);
    give_up(call, &err);
}

// -- the move

// What may be told to a client that is still there.
static int read_result(const struct move_result *r, const char *path, struct err *err)
{
    switch (r->why) {
    case MOVE_COMPLETE:
        return 0;
    case MOVE_TO_FAILED:
        return hand_error(r->sys_errno, path, err);
    case MOVE_BAD_CHUNKS:
        return err_set(err, ERR_INVALID, "the body is not chunked as it should be");
    case MOVE_STALLED:
        return err_set(err, ERR_INVALID, "nothing of the body came for %d seconds",
                       EDGE_IDLE_SECONDS);
    case MOVE_ENDED_EARLY:
    case MOVE_FROM_FAILED:
    case MOVE_CAPPED:
    case MOVE_WHY_MAX:
        break;
    }
    return err_set(err, ERR_UNAVAILABLE, "the client is gone");
}

// The hand has the path since HAND_CREATE, and its answer is in words without it.
static void on_committed(struct call *call, struct hand_answer *answer, const struct err *err)
{
    const struct file_call *f = call->state;
    struct err named = {0};
    if (err != NULL && err->sys_errno != 0)
        (void)hand_error(err->sys_errno, f->writing->put.path, &named);
    finish(call, answer, named.code != ERR_NONE ? &named : err);
}

static void on_moved(struct call *call, const struct move_result *result)
{
    struct file_call *f = call->state;
    struct writing *w = f->writing;
    struct err err = {0};
    if (result == NULL || result->why == MOVE_ENDED_EARLY || result->why == MOVE_FROM_FAILED) {
        gone(call);
        return;
    }
    int r = read_result(result, w->put.path, &err);
    if (w->put.data == NULL && !w->put.has_file)
        transfer_body_over(call, result);
    if (r < 0) {
        give_up(call, &err);
        return;
    }
    const struct hand_ask ask = {.type = HAND_COMMIT, .handle = w->handle};
    files_ask(call, &ask, on_committed);
}

static int start(struct call *call, const struct writing *w, struct err *err)
{
    struct move_config config = {.from = w->put.file, .to = w->to, .length = w->put.len};
    if (w->put.has_file)
        return transfer_start(call, &config, on_moved, err);
    return w->put.data != NULL
               ? transfer_memory(call, w->put.data, w->put.len, w->to, 0, on_moved, err)
               : transfer_body(call, w->to, 0, on_moved, err);
}

static void on_created(struct call *call, struct hand_answer *answer, const struct err *err)
{
    struct file_call *f = call->state;
    struct writing *w = f->writing;
    struct err failed = {0};
    if (err != NULL) {
        finish(call, NULL, err);
        return;
    }
    w->handle = answer->done.handle;
    w->to = TAKE_FD(answer->fd);
    bool is_body = w->put.data == NULL && !w->put.has_file;
    bool is_heard = call->req != NULL || call->taken != NULL;
    if (w->to < 0 || !is_heard || (is_body && call_take(call) < 0)) {
        gone(call);
        return;
    }
    if (start(call, w, &failed) < 0) {
        if (call->taken != NULL)
            call->taken->keep = false;
        failed.code = ERR_UNAVAILABLE;
        give_up(call, &failed);
    }
}

void file_put(struct call *call, const struct file_put *put, files_fn fn)
{
    struct file_call *f = call->state;
    struct hand_ask ask = ask_of(HAND_WRITE, put);
    if (put->data != NULL && put->len <= HAND_DATA_MAX) {
        ask.data = put->data;
        ask.data_len = put->len;
        files_ask(call, &ask, fn);
        return;
    }
    f->writing = calloc(1, sizeof *f->writing);
    if (f->writing == NULL)
        abort();
    *f->writing = (struct writing){.put = *put, .fn = fn, .to = -1};
    ask.type = HAND_CREATE;
    files_ask(call, &ask, on_created);
}
