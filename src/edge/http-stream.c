// SPDX-License-Identifier: Apache-2.0
// Answers of unknown length. The holder writes into a queue; the library takes from it when the
// client takes from the library, and sleeps (suspended) while it is empty.
#include <assert.h>
#include <string.h>
#include <sys/socket.h>

#include "edge/http-internal.h"
#include "edge/limits.h"
#include "edge/sse-internal.h"

// What HTTP/1.0 clients, who know no chunks, are given at a time. Every stream has that much
// memory.
enum { BLOCK = 2048 };

static size_t queued(const struct http_request *req)
{
    return req->queue.len - req->queue_at;
}

// A stream that is lost takes nothing more: its holder, who may write as long as there is room, is
// to wait until it is told.
size_t http_stream_queued(const struct http_request *req)
{
    return req->conn == NULL || req->is_cut ? SIZE_MAX : queued(req);
}

static void note_drained(struct http_request *req)
{
    if (req->on_drain == NULL || req->is_drained || req->phase != PHASE_STREAM)
        return;
    req->is_drained = true;
    TAILQ_INSERT_TAIL(&req->server->drained, req, drained);
}

static size_t take(struct http_request *req, char *data, size_t max)
{
    size_t n = queued(req);
    if (n > max)
        n = max;
    memcpy(data, req->queue.data + req->queue_at, n);
    req->queue_at += n;
    if (req->queue_at == req->queue.len) {
        buf_reset(&req->queue);
        req->queue_at = 0;
        note_drained(req);
    }
    return n;
}

static ssize_t on_read(void *cls, uint64_t pos, char *data, size_t max)
{
    struct http_request *req = cls;
    (void)pos;
    if (req->is_cut || req->server->is_stopping)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (queued(req) > 0)
        return (ssize_t)take(req, data, max);
    if (req->phase == PHASE_REPLY)
        return MHD_CONTENT_READER_END_OF_STREAM;
    request_suspend(req);
    return 0;
}

void http_stream_begin(struct http_request *req, unsigned status, const char *content_type)
{
    assert(req->phase == PHASE_WORK);
    req->phase = PHASE_STREAM;
    if (req->conn == NULL)
        return;
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, on_read, req, NULL);
    // To a HEAD the library would send the end of the chunks, which its client would take for the
    // beginning of the next answer. Without chunks it closes the connection instead.
    if (req->method == HTTP_HEAD && response != NULL)
        (void)MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    request_send(req, status, content_type, response);
}

// What was taken already goes first, before memory grows for it.
static void compact(struct http_request *req)
{
    if (req->queue_at > 0 && req->queue_at >= req->queue.len / 2) {
        buf_consume(&req->queue, req->queue_at);
        req->queue_at = 0;
    }
}

void http_stream_write(struct http_request *req, const void *data, size_t len)
{
    assert(req->phase == PHASE_STREAM);
    if (req->conn == NULL || req->is_cut || len == 0)
        return;
    compact(req);
    if (buf_append(&req->queue, data, len) < 0)
        request_cut(req);
    else
        request_resume(req);
}

void http_stream_end(struct http_request *req)
{
    assert(req->phase == PHASE_STREAM);
    req->phase = PHASE_REPLY;
    req->on_close = NULL;
    req->on_drain = NULL;
    if (req->conn == NULL)
        request_free(req);
    else
        request_resume(req);
}

void http_on_drain(struct http_request *req, http_close_fn fn, void *data)
{
    req->on_drain = fn;
    req->drain_data = data;
}

void http_stream_probe(struct http_request *req, const char *text)
{
    req->probe = text;
}

void http_stream_cut(struct http_request *req)
{
    request_cut(req);
}
