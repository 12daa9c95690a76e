// SPDX-License-Identifier: Apache-2.0
// POST /api/read: a file as a member of a JSON object, and /api/read/stream: as events. A small
// file comes with the hand's answer. Of others comes a descriptor, and what is told of them is
// written slice by slice as their reader takes it, the JSON object too: so the only limit is what a
// string of JavaScript can hold.
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "api/container/content.h"
#include "api/container/feed.h"
#include "api/container/files.h"
#include "api/show.h"
#include "base/fd.h"
#include "base/pieces.h"
#include "base/text.h"

enum {
    READ_MAX = 256 * 1024 * 1024, // of an encoded read: a third more as base64, and V8's strings
                                  // end at 512 MiB
    PIECE_MAX = 6 * FEED_SLICE + 64 * 1024,
};

struct read_body {
    const char *path, *encoding, *session;
};

#define AT(member) offsetof(struct read_body, member)
static const struct field read_fields[] = {
    FIELD("path", FIELD_STRING, AT(path), .required = true),
    FIELD("encoding", FIELD_STRING, AT(encoding), .max = 32,
          .help = "\"utf-8\" or \"base64\"; by what the file is if not given"),
    CONTAINER_SESSION(struct read_body),
};
#undef AT
static const struct schema read_schema =
    SCHEMA("ContainerRead", struct read_body, read_fields, .lenient = true);

struct read_call {
    struct feed_call feed; // first
    bool is_stream;
    bool is_begun; // the answer
    bool is_base64;
    struct content content;
    struct pieces pieces; // of a text, and
    struct json text;     // how it is written: into the buffer of the moment, without quotes
    uint64_t size, told;  // bytes of the file, and of it that have been told
};

// -- how it is told

// What the file is, and so how it is told.
static void look(struct call *call, const char *data, size_t len)
{
    struct read_call *r = call->state;
    const struct read_body *b = call->body.values;
    auto_buf quote; // what it is put between is written by others
    buf_init(&quote, 1);
    json_init(&r->text, &quote);
    json_open_text(&r->text);
    r->content = content_of(r->feed.file.path, data, len, len == r->size);
    r->is_base64 = b->encoding != NULL && !r->is_stream ? strcmp(b->encoding, "base64") == 0
                                                        : !r->content.is_text;
}

static void show_what(const struct read_call *r, struct json *j)
{
    show_str(j, "encoding", r->is_base64 ? "base64" : "utf-8");
    show_bool(j, "isBinary", r->is_base64);
    show_str(j, "mimeType", r->content.type);
    json_key(j, "size");
    json_put_uint(j, r->size);
}

static void put_text(void *data, const char *bytes, size_t len)
{
    json_more_text(data, bytes, len);
}

static void put_piece(struct read_call *r, struct buf *ret, const char *data, size_t len)
{
    r->told += len;
    if (r->is_base64) {
        (void)base64_append(ret, data, len);
        return;
    }
    r->text.buf = ret;
    pieces_take(&r->pieces, data, len, FEED_SLICE, put_text, &r->text);
    if (r->told == r->size)
        pieces_end(&r->pieces, put_text, &r->text);
}

// -- as one object

// All of it but the content, which is its last member, and what ends it.
static void put_head(struct call *call, struct buf *ret)
{
    const struct read_body *b = call->body.values;
    struct json j;
    json_init(&j, ret);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_str(&j, "path", b->path);
    show_what(call->state, &j);
    show_time_now(&j, "timestamp");
    json_close_object(&j);
    if (json_finish(&j) == 0) {
        ret->len--; // its brace
        (void)buf_append_str(ret, ",\"content\":\"");
    }
}

static const char object_end[] = "\"}\n";

// -- as events

static void send_metadata(struct call *call)
{
    struct container_answer event;
    container_event_begin(&event, "metadata");
    show_what(call->state, &event.json);
    container_event_send(call, &event);
}

static void send_error(struct call *call, const char *message)
{
    struct container_answer event;
    if (!call->streaming)
        stream_begin_sse(call);
    container_event_begin(&event, "error");
    show_str(&event.json, "error", message);
    container_event_send(call, &event);
    stream_end(call);
}

static void send_chunk(struct call *call, const char *data, size_t len)
{
    struct buf buf, piece;
    struct json j;
    buf_init(&piece, PIECE_MAX);
    buf_init(&buf, 2 * PIECE_MAX);
    (void)buf_append_char(&piece, '"');
    put_piece(call->state, &piece, data, len);
    (void)buf_append_char(&piece, '"');
    json_init(&j, &buf);
    json_open_object(&j);
    show_str(&j, "type", "chunk");
    show_raw(&j, "data", buf_str(&piece));
    json_close_object(&j);
    stream_event(call, NULL, NULL, &j);
    buf_done(&piece);
}

static void send_complete(struct call *call)
{
    const struct read_call *r = call->state;
    struct container_answer event;
    container_event_begin(&event, "complete");
    json_key(&event.json, "bytesRead");
    json_put_uint(&event.json, r->told);
    container_event_send(call, &event);
    stream_end(call);
}

// -- a large one

static void begin_stream(struct call *call)
{
    struct read_call *r = call->state;
    if (r->is_stream) {
        stream_begin_sse(call);
        send_metadata(call);
    } else {
        auto_buf head;
        buf_init(&head, PIECE_MAX);
        put_head(call, &head);
        stream_begin_raw(call, "application/json");
        stream_write(call, head.data, head.len);
    }
    http_on_drain(call->req, feed_drained, call);
    r->is_begun = true;
}

static void on_slice(struct call *call, const char *data, size_t len)
{
    struct read_call *r = call->state;
    if (!r->is_begun) {
        look(call, data, len);
        begin_stream(call);
    }
    if (r->is_stream) {
        send_chunk(call, data, len);
    } else {
        auto_buf piece;
        buf_init(&piece, PIECE_MAX);
        put_piece(r, &piece, data, len);
        stream_write(call, piece.data, piece.len);
    }
}

// An object that cannot be completed is never ended: whoever reads it sees that.
static void on_over(struct call *call, bool whole)
{
    const struct read_call *r = call->state;
    if (call->req == NULL)
        return;
    if (whole && r->is_stream) {
        send_complete(call);
    } else if (whole) {
        stream_write(call, object_end, sizeof object_end - 1);
        stream_end(call);
    } else if (r->is_stream) {
        send_error(call, "the file became shorter while it was read, or the sandbox went away");
    } else if (!r->is_begun) {
        call_error(call, ERROR_UNAVAILABLE, NULL,
                   "the file became shorter while it was read, or the sandbox went away");
    } else {
        stream_cut(call);
    }
}

// Its reader has gone; or the server stops, or who asked may no longer, and the reader hears that
// it is not over.
static void stop(struct call *call)
{
    const struct read_call *r = call->state;
    feed_stop(call);
    if (call->req == NULL || !call->streaming)
        return;
    if (r->is_stream)
        send_error(call, "the server ended this stream");
    else
        stream_cut(call);
}

// -- the hand's answer

static void fail(struct call *call, const struct err *err)
{
    const struct read_call *r = call->state;
    if (r->is_stream && container_file_code(err) != CONTAINER_CONTAINER_UNAVAILABLE)
        send_error(call, err->msg);
    else
        container_file_fail(call, err);
}

static void refuse_large(struct call *call)
{
    const struct read_call *r = call->state;
    const struct read_body *b = call->body.values;
    auto_buf context;
    struct json j;
    buf_init(&context, PIECE_MAX);
    json_init(&j, &context);
    json_open_object(&j);
    show_str(&j, "path", b->path);
    show_str(&j, "operation", "file.read");
    show_int(&j, "maxSize", READ_MAX);
    show_int(&j, "actualSize", (int64_t)r->size);
    json_close_object(&j);
    container_fail(call, CONTAINER_FILE_TOO_LARGE, json_finish(&j) == 0 ? buf_str(&context) : NULL,
                   "'%.200s' has %" PRIu64
                   " bytes, and at most %d are read into a string: stream it "
                   "(readFileStream), or GET /sandbox/{id}/files/...",
                   r->feed.file.path, r->size, READ_MAX);
}

static void send_file(struct call *call, int take_file)
{
    static const struct feed_ops ops = {.slice = on_slice, .over = on_over};
    struct read_call *r = call->state;
    struct err err = {0};
    struct stat st;
    auto_fd file = take_file;
    if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0) {
        call_error(call, ERROR_UNAVAILABLE, NULL, "the file cannot be read");
        return;
    }
    r->size = (uint64_t)st.st_size;
    if (r->size > READ_MAX && !r->is_stream) {
        refuse_large(call);
        return;
    }
    call->stop = stop;
    if (feed_start(call, TAKE_FD(file), r->size, &ops, &err) < 0)
        call_fail(call, &err);
}

static void send_bytes(struct call *call, const char *data, size_t len)
{
    struct read_call *r = call->state;
    r->size = len;
    look(call, data, len);
    if (r->is_stream) {
        stream_begin_sse(call);
        send_metadata(call);
        if (len > 0)
            send_chunk(call, data, len);
        send_complete(call);
        return;
    }
    struct buf buf;
    buf_init(&buf, 6 * HAND_INLINE + PIECE_MAX);
    put_head(call, &buf);
    put_piece(r, &buf, data, len);
    (void)buf_append(&buf, object_end, sizeof object_end - 1);
    call_reply(call, 200, "application/json", &buf);
}

static void on_read(struct call *call, struct hand_answer *answer, const struct err *err)
{
    if (call->req == NULL)
        return;
    if (answer == NULL)
        fail(call, err);
    else if (answer->fd >= 0)
        send_file(call, TAKE_FD(answer->fd));
    else
        send_bytes(call, answer->data, answer->done.data_len);
}

static void start(struct call *call)
{
    const struct read_call *r = call->state;
    const struct hand_ask ask = {.type = HAND_READ, .path = r->feed.file.path};
    files_ask(call, &ask, on_read);
}

static bool is_known(const char *encoding)
{
    return strcmp(encoding, "utf-8") == 0 || strcmp(encoding, "utf8") == 0 ||
           strcmp(encoding, "base64") == 0;
}

static void begin(struct call *call, bool is_stream)
{
    const struct read_body *b = call->body.values;
    struct read_call *r =
        container_file_new(call, sizeof *r, b->session, "path", b->path, "file.read");
    if (r == NULL)
        return;
    r->is_stream = is_stream;
    if (b->encoding != NULL && !is_stream && !is_known(b->encoding))
        container_invalid(call, "encoding", "encoding: must be \"utf-8\" or \"base64\"");
    else
        files_wake(call, start);
}

static void handle_read(struct call *call)
{
    begin(call, /*is_stream=*/false);
}

static void handle_read_stream(struct call *call)
{
    begin(call, /*is_stream=*/true);
}

const struct route container_files_read[] = {
    CONTAINER_ROUTE(HTTP_POST, "/api/read", SUBJECT_FILE, handle_read, .body = &read_schema),
    CONTAINER_ROUTE(HTTP_POST, "/api/read/stream", SUBJECT_FILE, handle_read_stream,
                    .body = &read_schema),
};
const size_t n_container_files_read = sizeof container_files_read / sizeof *container_files_read;
