// SPDX-License-Identifier: Apache-2.0
#include "api/follow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/show.h"
#include "base/text.h"

enum {
    CHUNK = 32 * 1024,
    TURN = 1024 * 1024,    // bytes before others have their turn: the drain brings us back
    EVENT_MAX = 8 * CHUNK, // of JSON
    ID_MAX = EDGE_NAME_MAX + 2 * 21 + 1,
};

static const char *const stream_names[LOG_STREAMS] = {"stdout", "stderr"};

struct follow {
    struct call *call;
    struct process *p; // counted
    struct process_watch *watch;
    struct follow_request r;
    uint64_t end[LOG_STREAMS]; // when not live: how far
    uint64_t gap_to;           // raw: the hole that the head of the answer has told
    bool truncated;            // some of it was lost to this reader
};

// -- ids and pieces

static int parse_two(const char *text, uint64_t offset[LOG_STREAMS])
{
    struct err ignored;
    char first[24];
    const char *dot = strchr(text, '.');
    if (dot == NULL || (size_t)(dot - text) >= sizeof first)
        return -1;
    (void)snprintf(first, sizeof first, "%.*s", (int)(dot - text), text);
    if (parse_u64(first, 0, INT64_MAX, &offset[LOG_STDOUT], &ignored) < 0)
        return -1;
    return parse_u64(dot + 1, 0, INT64_MAX, &offset[LOG_STDERR], &ignored);
}

int follow_parse_offsets(const char *text, uint64_t offset[LOG_STREAMS])
{
    return parse_two(text, offset);
}

int follow_parse_id(char *id, uint64_t offset[LOG_STREAMS])
{
    char *last = strrchr(id, '.');
    if (last == NULL)
        return -1;
    *last = '\0';
    char *middle = strrchr(id, '.'); // the name may have dots itself
    *last = '.';
    if (middle == NULL || middle == id || parse_two(middle + 1, offset) < 0)
        return -1;
    *middle = '\0';
    return 0;
}

size_t follow_piece(const struct bytelog *log, uint64_t at, const char *data, size_t len,
                    bool is_last)
{
    uint64_t hole, ignored;
    size_t rest = utf8_unfinished(data, len);
    bytelog_gap(log, &hole, &ignored);
    if (rest < len)
        return len - rest;
    return is_last || at + len == hole ? len : 0; // its rest is not there, and never will be
}

void follow_show(struct json *j, uint64_t at, const char *data, size_t len)
{
    show_int(j, "offset", (int64_t)at);
    show_bytes(j, "data", data, len);
}

// -- events

static void send_event(struct follow *f, const char *event, struct json *j)
{
    char id[ID_MAX];
    (void)snprintf(id, sizeof id, "%s.%" PRIu64 ".%" PRIu64, process_row(f->p)->id,
                   f->r.offset[LOG_STDOUT], f->r.offset[LOG_STDERR]);
    json_close_object(j);
    stream_event(f->call, id, event, j);
}

static void open_event(struct buf *buf, struct json *j)
{
    buf_init(buf, EVENT_MAX);
    json_init(j, buf);
    json_open_object(j);
}

static void send_start(struct follow *f)
{
    struct buf buf;
    struct json j;
    const struct process_row *row = process_row(f->p);
    if (f->r.words != NULL) {
        f->r.words->start(f->call, f->p);
        return;
    }
    open_event(&buf, &j);
    show_str(&j, "processId", row->id);
    show_int(&j, "pid", row->pid);
    show_time(&j, "timestamp", row->started_ms);
    send_event(f, "start", &j);
}

static void send_gap(struct follow *f, int stream, uint64_t from, uint64_t to)
{
    struct buf buf;
    struct json j;
    f->truncated = true;
    if (f->r.words != NULL) {
        f->r.offset[stream] = to;
        f->r.words->lost(f->call, f->p, (enum log_stream)stream, to - from);
        return;
    }
    open_event(&buf, &j);
    show_str(&j, "stream", stream_names[stream]);
    show_int(&j, "from", (int64_t)from);
    show_int(&j, "to", (int64_t)to);
    f->r.offset[stream] = to;
    send_event(f, "gap", &j);
}

static void send_piece(struct follow *f, int stream, const char *data, size_t len)
{
    struct buf buf;
    struct json j;
    uint64_t at = f->r.offset[stream];
    f->r.offset[stream] += len; // the id is where to go on
    if (f->r.raw) {
        stream_write(f->call, data, len);
        return;
    }
    if (f->r.words != NULL) {
        f->r.words->piece(f->call, f->p, (enum log_stream)stream, data, len);
        return;
    }
    open_event(&buf, &j);
    follow_show(&j, at, data, len);
    send_event(f, stream_names[stream], &j);
}

// What came when it could not be kept has no place in the log: nobody knows before what it was.
static void send_lost(struct follow *f)
{
    for (int i = 0; i < LOG_STREAMS; i++) {
        const struct bytelog *log = process_log(f->p, (enum log_stream)i);
        uint64_t n = f->r.wanted[i] && log != NULL ? bytelog_lost(log) : 0;
        f->truncated |= n > 0;
        if (n > 0 && f->r.words != NULL)
            f->r.words->lost(f->call, f->p, (enum log_stream)i, n);
    }
}

static void send_exit(struct follow *f)
{
    struct buf buf;
    struct json j;
    const struct process_row *row = process_row(f->p);
    struct job_end end = show_end_of(row);
    send_lost(f);
    if (f->r.words != NULL) {
        f->r.words->exit(f->call, f->p, f->truncated);
        return;
    }
    open_event(&buf, &j);
    show_str(&j, "processId", row->id);
    show_end(&j, &end, f->truncated);
    show_int(&j, "duration", process_duration_ms(f->p));
    show_time(&j, "timestamp", row->ended_ms);
    send_event(f, "exit", &j);
}

// -- moving bytes

static bool has_ended(const struct follow *f)
{
    return process_row(f->p)->reason != END_NONE;
}

static void let_go(struct follow *f)
{
    process_watch_free(f->watch);
    f->watch = NULL;
    if (f->p != NULL)
        process_unref(f->p);
    f->p = NULL;
}

static void tell_broken(struct follow *f, const char *why)
{
    if (f->r.words != NULL && f->call->req != NULL && f->p != NULL)
        f->r.words->broken(f->call, f->p, why);
}

static void stop(struct call *call)
{
    tell_broken(call->state, "the server ended this stream");
    let_go(call->state);
}

static void finish(struct follow *f)
{
    struct call *call = f->call;
    if (!f->r.raw && has_ended(f))
        send_exit(f);
    let_go(f);
    stream_end(call);
}

static uint64_t limit_of(const struct follow *f, int stream, const struct bytelog *log)
{
    return f->r.live ? bytelog_size(log) : f->end[stream];
}

// Moves one piece of one stream: its bytes, 0 when there is nothing to move now, -1 when the answer
// has to end here.
static ssize_t step(struct follow *f, int stream)
{
    char data[CHUNK];
    uint64_t at;
    struct bytelog *log = process_log(f->p, (enum log_stream)stream);
    if (log == NULL || f->r.offset[stream] >= limit_of(f, stream, log))
        return 0;
    uint64_t left = limit_of(f, stream, log) - f->r.offset[stream];
    ssize_t n =
        bytelog_read(log, f->r.offset[stream], data, left < CHUNK ? (size_t)left : CHUNK, &at);
    if (n <= 0)
        return n;
    if (at != f->r.offset[stream]) {
        if (f->r.raw && at != f->gap_to)
            return -1; // a hole that the reader was not told about
        if (f->r.raw)
            f->r.offset[stream] = at;
        else
            send_gap(f, stream, f->r.offset[stream], at);
    }
    if (f->r.raw) {
        send_piece(f, stream, data, (size_t)n);
        return n;
    }
    bool is_last = (has_ended(f) || !f->r.live) &&
                   f->r.offset[stream] + (uint64_t)n >= limit_of(f, stream, log);
    size_t take = follow_piece(log, at, data, (size_t)n, is_last);
    if (take > 0)
        send_piece(f, stream, data, take);
    return (ssize_t)take;
}

static void pump(struct follow *f)
{
    struct call *call = call_ref(f->call);
    ssize_t moved = 1;
    size_t turn = 0;
    while (moved > 0 && turn < TURN && call->req != NULL && !stream_full(call)) {
        moved = 0;
        for (int i = 0; i < LOG_STREAMS && moved >= 0; i++) {
            ssize_t n = f->r.wanted[i] ? step(f, i) : 0;
            moved = n < 0 ? -1 : moved + n;
        }
        turn += moved > 0 ? (size_t)moved : 0;
    }
    if (turn > 0 && sandbox_box(call->sandbox) != 0)
        sandbox_touch(call->sandbox); // a stream that moves bytes is use
    if (call->req != NULL && moved < 0) {
        tell_broken(f, "the log cannot be read");
        let_go(f);
        stream_end(call);
    } else if (call->req != NULL && moved == 0 && (!f->r.live || has_ended(f))) {
        finish(f);
    }
    call_unref(call);
}

static void on_news(void *data, struct process *p)
{
    struct follow *f = data;
    if (p != NULL) {
        pump(f);
        return;
    }
    tell_broken(f, "the process was deleted");
    let_go(f);
    stream_end(f->call); // there is nothing more to tell
}

static void on_drain(void *data)
{
    struct follow *f = data;
    if (f->p != NULL)
        pump(f);
}

// -- the beginning

// The offset inside a hole is the hole's end; a hole that comes later is told in the head too.
static void begin_raw(struct follow *f)
{
    uint64_t from = 0, to = 0;
    char gap[64];
    int stream = f->r.wanted[LOG_STDOUT] ? LOG_STDOUT : LOG_STDERR;
    struct bytelog *log = process_log(f->p, (enum log_stream)stream);
    if (log != NULL)
        bytelog_gap(log, &from, &to);
    if (from != to && f->r.offset[stream] < to) {
        if (f->r.offset[stream] >= from)
            f->r.offset[stream] = to;
        f->gap_to = to;
        (void)snprintf(gap, sizeof gap, "%" PRIu64 "-%" PRIu64, from, to);
        http_add_header(f->call->req, "X-Cay-Gap", gap);
    }
    call_header_n(f->call, "X-Cay-Offset", (int64_t)f->r.offset[stream]);
    stream_begin_raw(f->call, "application/octet-stream");
}

void follow_begin(struct call *call, struct process *p, const struct follow_request *request)
{
    struct follow *f = calloc(1, sizeof *f);
    if (f == NULL)
        abort();
    *f = (struct follow){.call = call, .p = process_ref(p), .r = *request};
    for (int i = 0; i < LOG_STREAMS; i++) {
        struct bytelog *log = process_log(p, (enum log_stream)i);
        f->end[i] = log != NULL ? bytelog_size(log) : 0;
    }
    free(call->state);
    call->state = f;
    call->stop = stop;
    if (f->r.raw)
        begin_raw(f);
    else
        stream_begin_sse(call);
    http_on_drain(call->req, on_drain, f);
    if (f->r.live)
        f->watch = process_watch(p, on_news, f);
    if (f->r.start)
        send_start(f);
    pump(f);
}
