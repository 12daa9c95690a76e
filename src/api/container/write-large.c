// SPDX-License-Identifier: Apache-2.0
// POST /api/write with a large body. It goes from the connection into memory without the loop's
// help; a thread finds the content in it and decodes that into another piece of memory, from which
// the mover writes the file. So however large it is nobody waits for it, and the rest of the body
// is read like any other.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/container/long-json.h"
#include "api/container/write.h"
#include "api/file-put.h"
#include "api/transfer.h"
#include "base/fd.h"
#include "base/text.h"

enum { REST_MAX = 64 * 1024 };

struct spool {
    uv_work_t work;
    struct call *call;     // counted
    int body, content;     // memory
    const char *map;       // the body
    size_t len, counted;   // its bytes; those that count in api->spooled, of body and content
    struct long_text text; // the content, in it
    struct buf rest;       // all else
    bool is_base64;
    int result; // of the thread
    void (*next)(struct spool *s);
};

// -- its end

static void count(struct spool *s, size_t bytes)
{
    s->call->api->spooled += bytes - s->counted;
    s->counted = bytes;
}

static void body_free(struct spool *s)
{
    if (s->map != NULL)
        (void)munmap((void *)(uintptr_t)s->map, s->len);
    s->map = NULL;
    fd_close(TAKE_FD(s->body));
}

static void spool_free(struct spool *s)
{
    struct call *call = s->call;
    count(s, 0);
    body_free(s);
    fd_close(s->content);
    buf_done(&s->rest);
    free(s);
    call_unref(call);
}

// The call's state is of its own kind by the time that the spool is known no more.
struct large_call {
    struct file_call file; // first
    struct spool *spool;
};

static void on_put(struct call *call, struct hand_answer *done, const struct err *err)
{
    struct large_call *w = call->state;
    struct spool *s = w->spool;
    container_written(call, done, err);
    spool_free(s);
}

// -- the thread

static void on_thread_done(uv_work_t *work, int status)
{
    struct spool *s = work->data;
    (void)status; // nobody cancels it
    s->next(s);
}

static void on_thread(struct spool *s, uv_work_cb fn, void (*next)(struct spool *s))
{
    s->work.data = s;
    s->next = next;
    if (uv_queue_work(s->call->api->loop, &s->work, fn, on_thread_done) != 0)
        abort(); // only for bad arguments
}

static int write_all(void *data, const char *bytes, size_t len)
{
    const struct spool *s = data;
    return fd_write_all(s->content, bytes, len) < 0 ? -ENOSPC : 0;
}

static void decode(uv_work_t *work)
{
    struct spool *s = work->data;
    s->result = long_json_decode(&s->text, s->is_base64, write_all, s);
}

static void split(uv_work_t *work)
{
    struct spool *s = work->data;
    s->result = long_json_split(s->map, s->len, "content", &s->text, &s->rest);
}

// -- the file

static void put_file(struct spool *s)
{
    struct large_call *w = s->call->state;
    struct err err = {0};
    off_t len = lseek(s->content, 0, SEEK_CUR);
    if (s->result == -EINVAL) {
        container_invalid(s->call, "content", "content: is not base64, as 'encoding' says");
        spool_free(s);
    } else if (s->result == -EILSEQ) {
        container_invalid(s->call, "content", "content: is not a string of JSON in UTF-8");
        spool_free(s);
    } else if (s->result < 0 || len < 0) {
        (void)err_set(&err, ERR_UNAVAILABLE, "no memory for the content: try again later");
        call_fail(s->call, &err);
        spool_free(s);
    } else {
        body_free(s);
        count(s, (size_t)len);
        const struct file_put put = {
            .path = w->file.path,
            .terms = {.flags = HAND_PARENTS},
            .has_file = true,
            .file = s->content,
            .len = (size_t)len,
        };
        file_put(s->call, &put, on_put);
    }
}

// What the request says beside its content.
static int read_rest(struct spool *s)
{
    struct call *call = s->call;
    struct err err = {0};
    if (s->result == -EILSEQ) {
        container_invalid(call, "body", "the body is not JSON: a string in it has no end");
        return -1;
    }
    if (s->result < 0) {
        container_invalid(call, "body", "the body has more than %d bytes beside its 'content'",
                          REST_MAX);
        return -1;
    }
    if (body_read(&call->body, &container_write_schema, buf_str(&s->rest), s->rest.len, &err) < 0) {
        call_fail(call, &err);
        return -1;
    }
    const struct container_write_body *b = call->body.values;
    free(call->state);
    call->state = NULL;
    struct large_call *w =
        container_file_new(call, sizeof *w, b->session, "path", b->path, "file.write");
    if (w == NULL || container_write_check(call, b) < 0)
        return -1;
    w->spool = s;
    s->is_base64 = container_write_is_base64(b);
    return 0;
}

static void on_split(struct spool *s)
{
    if (read_rest(s) < 0)
        spool_free(s);
    else
        on_thread(s, decode, put_file);
}

// -- the body

static void on_spooled(struct call *call, const struct move_result *result)
{
    struct large_call *w = call->state;
    struct spool *s = w->spool;
    transfer_body_over(call, result);
    if (result == NULL || result->why != MOVE_COMPLETE) {
        call_drop(call);
        spool_free(s);
        return;
    }
    void *map = mmap(NULL, s->len, PROT_READ, MAP_SHARED, s->body, 0);
    if (map == MAP_FAILED)
        abort(); // memory of our own, that is there
    s->map = map;
    on_thread(s, split, on_split);
}

static struct spool *spool_new(struct call *call, size_t len)
{
    struct spool *s = calloc(1, sizeof *s);
    if (s == NULL)
        abort();
    s->call = call_ref(call);
    s->body = memfd_create("body", MFD_CLOEXEC);
    s->content = memfd_create("content", MFD_CLOEXEC);
    s->len = len;
    count(s, 2 * len); // decoded it is never longer
    buf_init(&s->rest, REST_MAX);
    return s;
}

static void start(struct call *call)
{
    struct large_call *w = call->state;
    struct err err = {0};
    if (call_take(call) < 0)
        return;
    if (2 * call->taken->length > CONTAINER_SPOOL_MAX - call->api->spooled) {
        call->taken->keep = false;
        call_error(call, ERROR_UNAVAILABLE, NULL,
                   "too many large files are being written at once; try again shortly");
        return;
    }
    w->spool = spool_new(call, (size_t)call->taken->length);
    if (w->spool->body >= 0 && w->spool->content >= 0 &&
        transfer_body(call, w->spool->body, 0, on_spooled, &err) == 0)
        return;
    call->taken->keep = false;
    call_error(call, ERROR_UNAVAILABLE, NULL, "the body cannot be read now; try again shortly");
    spool_free(w->spool);
}

static void refuse_large(struct call *call, const char *length)
{
    auto_buf context;
    buf_init(&context, 256);
    (void)buf_printf(&context, "{\"operation\":\"file.write\",\"maxSize\":%d,\"actualSize\":%s}",
                     CONTAINER_WRITE_MAX, length);
    container_fail(call, CONTAINER_FILE_TOO_LARGE, buf_str(&context),
                   "the body has %s bytes, and at most %d are taken here: PUT "
                   "/sandbox/{id}/files/{path} takes a file of any size",
                   length, CONTAINER_WRITE_MAX);
}

void container_write_large(struct call *call)
{
    const char *length = http_header(call->req, "Content-Length");
    struct err ignored;
    uint64_t n;
    if (length == NULL || parse_u64(length, 0, CONTAINER_WRITE_MAX, &n, &ignored) < 0) {
        refuse_large(call, length != NULL && strlen(length) < 20 ? length : "0");
        return;
    }
    call->state = calloc(1, sizeof(struct large_call));
    if (call->state == NULL)
        abort();
    files_wake(call, start);
}
