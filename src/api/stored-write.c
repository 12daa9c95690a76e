// SPDX-License-Identifier: Apache-2.0
// PUT of a stored file. The index forgets it before, and does not hear of it again before it is
// over, so that it is right at any moment; the object is there when all of the body is.
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "api/handlers.h"
#include "api/show.h"
#include "api/stored.h"
#include "base/fd.h"
#include "saved/sync-records.h"
#include "store/sha256.h"

// -- on a thread

static ssize_t read_body(void *data, void *buf, size_t size, struct err *err)
{
    struct stored_call *s = data;
    ssize_t n = records_read_some(s->pipe, s->ending, buf, size, err);
    if (n != 0 || atomic_load(&s->is_whole))
        return n;
    return err_set(err, ERR_UNAVAILABLE, "the body did not come to its end");
}

static ssize_t read_bytes(void *data, void *buf, size_t size, struct err *err)
{
    struct stored_call *s = data;
    size_t n = s->bytes.len < size ? s->bytes.len : size;
    (void)err;
    if (n > 0)
        memcpy(buf, s->bytes.data, n);
    buf_consume(&s->bytes, n);
    return (ssize_t)n;
}

static void put_work(void *data)
{
    struct stored_call *s = data;
    const struct store_put put = {
        .key = s->key,
        .read = s->pipe >= 0 ? read_body : read_bytes,
        .data = s,
        .size = s->pipe >= 0 ? -1 : (int64_t)s->bytes.len,
        .stop = s->ending,
    };
    s->found =
        store_put(s->store, &put, &s->info, &s->err) < 0 ? -1 : store_sync(s->store, &s->err);
    fd_close(TAKE_FD(s->pipe)); // whoever still sends is to notice
}

// -- the answer

static void reply(struct stored_call *s)
{
    struct buf buf;
    struct json j;
    char hex[STORED_SHA256_HEX];
    sha256_hex(s->info.sha256, hex);
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_str(&j, "path", s->key + s->prefix_len);
    show_int(&j, "size", (int64_t)s->info.size);
    show_str(&j, "sha256", hex);
    json_close_object(&j);
    call_reply_json(s->call, 200, &j);
}

// Why a body did not come, for a client that may still be there. 0: it came.
static int read_result(const struct move_result *r, struct err *err)
{
    if (r->why == MOVE_COMPLETE || r->why == MOVE_TO_FAILED)
        return 0; // the latter: the store has given up, and says why
    if (r->why == MOVE_BAD_CHUNKS)
        return err_set(err, ERR_INVALID, "the body is not chunked as it should be");
    (void)err_set(err, ERR_UNAVAILABLE, "the body did not come to its end");
    err->sys_errno = EPIPE; // not the store's fault
    return -1;
}

static void part_over(struct stored_call *s)
{
    struct call *call = s->call;
    if (!s->is_moved || !s->is_over)
        return;
    if (read_result(&s->moved, &s->err) < 0)
        s->found = -1;
    if (s->found >= 0) {
        reply(s);
    } else {
        stored_fail(call, &s->err);
        call_drop(call);
    }
    stored_over(s);
}

// -- the body

static void on_put(void *data)
{
    struct stored_call *s = data;
    s->is_over = true;
    part_over(s);
}

static void on_moved(struct call *call, const struct move_result *result)
{
    struct stored_call *s = call->state;
    call->state = NULL;
    s->is_moved = true;
    s->moved = result != NULL ? *result : (struct move_result){.why = MOVE_STALLED};
    atomic_store(&s->is_whole, s->moved.why == MOVE_COMPLETE);
    fd_close(TAKE_FD(s->other));
    transfer_body_over(call, result);
    part_over(s);
}

static int move_body(struct call *call, struct stored_call *s, struct err *err)
{
    if (stored_open_pipe(s, /*out=*/false, err) < 0)
        return -1;
    if (call_take(call) < 0)
        return err_set(err, ERR_UNAVAILABLE, "the connection cannot be taken");
    call->state = s;
    if (transfer_body(call, s->other, MOVE_NO_OFFSET, on_moved, err) == 0)
        return 0;
    call->state = NULL;
    call->taken->keep = false;
    return -1;
}

static void on_touched(void *data, const struct err *err)
{
    struct stored_call *s = data;
    struct call *call = s->call;
    struct err failed = {0};
    size_t len;
    if (err != NULL || call->req == NULL) {
        if (err != NULL)
            stored_fail(call, err);
        stored_over(s);
        return;
    }
    if (http_is_raw(call->req)) {
        if (move_body(call, s, &failed) < 0) {
            stored_fail(call, &failed);
            call_drop(call);
            stored_over(s);
            return;
        }
    } else { // copied: the client may go meanwhile
        const char *body = http_body(call->req, &len);
        (void)buf_append(&s->bytes, body, len);
        s->is_moved = true;
        s->moved.why = MOVE_COMPLETE;
    }
    store_pool_run(saved_streams(call->api->saved), put_work, on_put, s);
}

void handle_stored_put(struct call *call)
{
    const char *encoding = http_header(call->req, "Content-Encoding");
    if (encoding != NULL && strcasecmp(encoding, "identity") != 0) {
        call_error(call, ERROR_UNSUPPORTED_MEDIA_TYPE, NULL,
                   "Content-Encoding: send the file as it is, not compressed");
        return;
    }
    struct stored_call *s = stored_new(call, call->param[1]);
    if (s != NULL)
        stored_touch(s, on_touched);
}
