// SPDX-License-Identifier: Apache-2.0
// GET of a stored file. What is sent was checked: the last piece of it is held back until the store
// has seen that all of it is what it should be, so that a damaged one ends early.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/file-path.h"
#include "api/handlers.h"
#include "api/stored.h"
#include "base/fd.h"
#include "saved/sync-records.h"
#include "store/sha256.h"

enum {
    HEAD_MAX = 8 * 1024,
    HELD_BACK = 64 * 1024,
};

// -- on a thread

static int keep_bytes(void *data, const void *buf, size_t size, struct err *err)
{
    struct stored_call *s = data;
    if (buf_append(&s->bytes, buf, size) < 0)
        return err_set(err, ERR_EXHAUSTED, "no memory for a file");
    return 0;
}

static void look(void *data)
{
    struct stored_call *s = data;
    struct store_info info;
    const struct store_get get = {.key = s->key, .write = keep_bytes, .data = s, .stop = s->ending};
    s->found = store_head(s->store, s->key, &s->info, &s->err);
    if (s->found <= 0 || s->info.size > STORED_SMALL)
        return;
    if (store_get(s->store, &get, &info, &s->err) < 0)
        s->found = -1;
    else
        s->info = info; // it may have changed in between
    s->info.size = s->bytes.len;
}

struct held_back {
    struct stored_call *s;
    char piece[HELD_BACK];
    size_t len;
};

static int send_held(struct held_back *h, struct err *err)
{
    size_t len = h->len;
    h->len = 0;
    return records_write(h->s->pipe, h->s->ending, h->piece, len, err);
}

static int send_piece(void *data, const void *buf, size_t size, struct err *err)
{
    struct held_back *h = data;
    const char *at = buf;
    while (size > 0) {
        if (h->len == sizeof h->piece && send_held(h, err) < 0)
            return -1;
        size_t n = sizeof h->piece - h->len;
        n = n < size ? n : size;
        memcpy(h->piece + h->len, at, n);
        h->len += n;
        at += n;
        size -= n;
    }
    return 0;
}

static void send_work(void *data)
{
    struct stored_call *s = data;
    struct held_back *h = malloc(sizeof *h);
    if (h == NULL)
        abort();
    h->s = s;
    h->len = 0;
    bool all = s->range.kind != RANGE_PART;
    const struct store_get get = {
        .key = s->key,
        .offset = all ? 0 : s->range.from,
        .length = all ? 0 : s->range.len,
        .sha256 = all && s->info.has_sha256 ? s->info.sha256 : NULL,
        .write = send_piece,
        .data = h,
        .stop = s->ending,
    };
    s->found = store_get(s->store, &get, NULL, &s->err) < 0 ? -1 : send_held(h, &s->err);
    free(h);
    fd_close(TAKE_FD(s->pipe));
}

// -- what is to be sent

static void add_headers(struct call *call, struct stored_call *s)
{
    char date[40], quoted[STORED_SHA256_HEX + 2];
    struct tm tm;
    time_t seconds = s->info.modified_ms / 1000;
    if (s->info.has_sha256) {
        sha256_hex(s->info.sha256, s->etag);
        (void)snprintf(quoted, sizeof quoted, "\"%s\"", s->etag);
        call_add_header(call, "ETag", quoted);
    }
    call_add_header(call, "Accept-Ranges", "bytes");
    // What was in a box is a stranger's, and comes from the origin of the API.
    call_add_header(call, "Content-Security-Policy", "sandbox");
    if (gmtime_r(&seconds, &tm) != NULL &&
        strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0)
        call_add_header(call, "Last-Modified", date);
}

// Whether it is to be sent; else it was answered.
static bool check_conditions(struct call *call, const struct stored_call *s)
{
    const char *if_match = http_header(call->req, "If-Match");
    const char *if_none = http_header(call->req, "If-None-Match");
    struct buf none;
    if (if_match != NULL && !etag_listed(if_match, s->etag, /*strong=*/true)) {
        call_error(call, ERROR_PRECONDITION_FAILED, NULL, "the stored file's ETag is \"%s\"",
                   s->etag);
        return false;
    }
    if (if_none == NULL || !etag_listed(if_none, s->etag, /*strong=*/false))
        return true;
    buf_init(&none, 0);
    call_reply(call, 304, NULL, &none);
    return false;
}

static bool check_range(struct call *call, struct stored_call *s)
{
    char text[80];
    const char *header = http_header(call->req, "Range");
    if (header != NULL && !etag_in_range(http_header(call->req, "If-Range"), s->etag))
        header = NULL;
    s->range = range_read(header, s->info.size);
    if (s->range.kind == RANGE_PART) {
        (void)snprintf(text, sizeof text, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, s->range.from,
                       s->range.from + s->range.len - 1, s->info.size);
        call_add_header(call, "Content-Range", text);
    }
    if (s->range.kind != RANGE_NONE)
        return true;
    (void)snprintf(text, sizeof text, "bytes */%" PRIu64, s->info.size);
    call_add_header(call, "Content-Range", text);
    call_error(call, ERROR_RANGE_NOT_SATISFIABLE, NULL, "the stored file has %" PRIu64 " bytes",
               s->info.size);
    return false;
}

static unsigned status_of(const struct stored_call *s)
{
    return s->range.kind == RANGE_PART ? 206 : 200;
}

// -- sending

static void reply_small(struct call *call, struct stored_call *s)
{
    struct buf buf;
    buf_init(&buf, STORED_SMALL);
    if (s->range.len > 0)
        (void)buf_append(&buf, s->bytes.data + s->range.from, (size_t)s->range.len);
    call_reply(call, status_of(s), file_media_type(s->key), &buf);
    stored_over(s);
}

static void part_over(struct stored_call *s)
{
    if (!s->is_moved || !s->is_over)
        return;
    if (s->moved.why == MOVE_COMPLETE && s->found >= 0)
        call_taken_done(s->call);
    else
        call_drop(s->call);
    stored_over(s);
}

static void on_sent(struct call *call, const struct move_result *result)
{
    struct stored_call *s = call->state;
    call->state = NULL;
    fd_close(TAKE_FD(s->other)); // whoever writes to it ends
    s->is_moved = true;
    s->moved = result != NULL ? *result : (struct move_result){.why = MOVE_STALLED};
    part_over(s);
}

static void on_read(void *data)
{
    struct stored_call *s = data;
    s->is_over = true;
    part_over(s);
}

static int start_sending(struct call *call, struct stored_call *s, struct err *err)
{
    auto_buf head;
    buf_init(&head, HEAD_MAX);
    call_count(call, status_of(s));
    call_taken_head(call, status_of(s), file_media_type(s->key), s->range.len, &head);
    struct move_config config = {
        .from = s->other,
        .from_offset = MOVE_NO_OFFSET,
        .to = call->taken->fd,
        .to_offset = MOVE_NO_OFFSET,
        .length = call->is_head ? 0 : s->range.len,
        .first = head.data,
        .first_len = head.len,
        .stall_ms = TRANSFER_STALL_MS,
    };
    call->state = s;
    if (head.failed == 0 && transfer_start(call, &config, on_sent, err) == 0)
        return 0;
    call->state = NULL;
    return -1;
}

static void send_large(struct call *call, struct stored_call *s)
{
    struct err err = {0};
    if (stored_open_pipe(s, /*out=*/true, &err) < 0) {
        call_fail(call, &err);
        stored_over(s);
        return;
    }
    if (call_take(call) < 0 || start_sending(call, s, &err) < 0) {
        call_drop(call);
        stored_over(s);
        return;
    }
    s->is_over = call->is_head; // nobody has anything to write
    if (!call->is_head)
        store_pool_run(saved_streams(call->api->saved), send_work, on_read, s);
}

static void on_looked(void *data)
{
    struct stored_call *s = data;
    struct call *call = s->call;
    if (s->found == 0)
        (void)err_set(&s->err, ERR_NOT_FOUND, "there is no such stored file");
    if (s->found <= 0)
        stored_fail(call, &s->err);
    else if (call->req != NULL)
        add_headers(call, s);
    if (s->found <= 0 || call->req == NULL || !check_conditions(call, s) || !check_range(call, s))
        stored_over(s);
    else if (s->info.size <= STORED_SMALL)
        reply_small(call, s);
    else
        send_large(call, s);
}

void handle_stored_get(struct call *call)
{
    struct stored_call *s = stored_new(call, call->param[1]);
    if (s != NULL)
        store_pool_run(saved_streams(call->api->saved), look, on_looked, s);
}
