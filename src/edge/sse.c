// SPDX-License-Identifier: Apache-2.0
#include "edge/sse.h"

#include <string.h>

#include "edge/sse-internal.h"

static const char comment[] = ":\n\n";

void sse_begin(struct http_request *req)
{
    http_add_header(req, "Cache-Control", "no-store");
    http_add_header(req, "X-Accel-Buffering", "no"); // nginx would collect events
    http_stream_begin(req, 200, "text/event-stream");
    http_stream_probe(req, comment);
}

// Bytes up to the next line end, and how many that has: LF, CR and CR LF are each one.
static size_t line_length(const char *data, size_t len, size_t *ret_end)
{
    size_t n = 0;
    while (n < len && data[n] != '\n' && data[n] != '\r')
        n++;
    if (n == len)
        *ret_end = 0;
    else
        *ret_end = data[n] == '\r' && n + 1 < len && data[n + 1] == '\n' ? 2 : 1;
    return n;
}

// An id or a name with a line end would be another field, or another event. One with a NUL is
// ignored by readers. Such a field is cut there: it is ours, so this is a bug, but not one that may
// forge events.
static void append_field(struct buf *buf, const char *field, const char *value)
{
    size_t end;
    (void)buf_append_str(buf, field);
    (void)buf_append(buf, value, line_length(value, strlen(value), &end));
    (void)buf_append_char(buf, '\n');
}

int sse_format(struct buf *buf, const char *id, const char *event, const char *data, size_t len)
{
    size_t at = 0;
    size_t end;
    if (id != NULL)
        append_field(buf, "id: ", id);
    if (event != NULL)
        append_field(buf, "event: ", event);
    do {
        size_t n = line_length(data + at, len - at, &end);
        (void)buf_append_str(buf, "data: ");
        (void)buf_append(buf, data + at, n);
        (void)buf_append_char(buf, '\n');
        at += n + end;
    } while (end > 0);
    (void)buf_append_char(buf, '\n');
    return buf->failed;
}

void sse_send(struct http_request *req, const char *id, const char *event, const char *data,
              size_t len)
{
    auto_buf buf;
    buf_init(&buf, EDGE_STREAM_HARD_MAX);
    // What does not fit would not fit into the stream's queue either: that loses the stream, which
    // is what the reader must see. Half an event is none.
    if (sse_format(&buf, id, event, data, len) < 0)
        http_stream_cut(req);
    else
        http_stream_write(req, buf.data, buf.len);
}

void sse_long_begin(struct http_request *req, const char *id, const char *event)
{
    auto_buf head;
    buf_init(&head, 1024);
    if (id != NULL)
        append_field(&head, "id: ", id);
    if (event != NULL)
        append_field(&head, "event: ", event);
    (void)buf_append_str(&head, "data: ");
    http_stream_probe(req, NULL); // it would end the event
    http_stream_write(req, head.data, head.len);
}

void sse_long_data(struct http_request *req, const char *data, size_t len)
{
    auto_buf copy;
    buf_init(&copy, len);
    if (buf_append(&copy, data, len) < 0) {
        http_stream_cut(req);
        return;
    }
    for (size_t i = 0; i < copy.len; i++) {
        if (copy.data[i] == '\n' || copy.data[i] == '\r')
            copy.data[i] = ' ';
    }
    http_stream_write(req, copy.data, copy.len);
}

void sse_long_end(struct http_request *req)
{
    http_stream_write(req, "\n\n", 2);
    http_stream_probe(req, comment);
}

void sse_comment(struct http_request *req)
{
    http_stream_write(req, comment, sizeof comment - 1);
}
