// SPDX-License-Identifier: Apache-2.0
// The log of a process: bytes of one stream, a page of JSON, or events.
#include <stdlib.h>
#include <string.h>

#include "api/follow.h"
#include "api/handlers.h"
#include "api/processes.h"
#include "api/show.h"

enum { PAGE_BYTES = 1024 * 1024 }; // of a stream in one JSON answer

static int parse_stream(struct call *call, bool raw, struct follow_request *r)
{
    const char *text = call_query(call, "stream");
    if (text == NULL)
        text = raw ? "stdout" : "both";
    r->wanted[LOG_STDOUT] = strcmp(text, "stdout") == 0 || strcmp(text, "both") == 0;
    r->wanted[LOG_STDERR] = strcmp(text, "stderr") == 0 || strcmp(text, "both") == 0;
    if (raw && r->wanted[LOG_STDOUT] && r->wanted[LOG_STDERR]) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "?stream=both comes as JSON or events: send 'Accept: application/json' or "
                   "'Accept: text/event-stream', or ask for stdout or stderr");
        return -1;
    }
    if (r->wanted[LOG_STDOUT] || r->wanted[LOG_STDERR])
        return 0;
    call_error(call, ERROR_INVALID_REQUEST, NULL, "?stream: must be stdout, stderr or both");
    return -1;
}

// A number for one stream, "N.M" for both; an event's id says all of it.
static int parse_offset(struct call *call, const char *process, struct follow_request *r)
{
    uint64_t offset = 0;
    const char *text = call_query(call, "offset");
    const char *last = http_header(call->req, "Last-Event-ID");
    if (last != NULL) {
        char *id = strdup(last);
        if (id == NULL)
            abort();
        bool ok = follow_parse_id(id, r->offset) == 0 && strcmp(id, process) == 0;
        free(id);
        if (!ok)
            call_error(call, ERROR_INVALID_REQUEST, NULL,
                       "Last-Event-ID is not the id of an event of this process");
        return ok ? 0 : -1;
    }
    if (text != NULL && strchr(text, '.') != NULL) {
        if (follow_parse_offsets(text, r->offset) == 0)
            return 0;
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "?offset: must be a number, or STDOUT.STDERR with a number for each");
        return -1;
    }
    if (call_query_u64(call, "offset", INT64_MAX, 0, &offset) < 0)
        return -1;
    if (offset > 0 && r->wanted[LOG_STDOUT] && r->wanted[LOG_STDERR]) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "?offset: of both streams is STDOUT.STDERR, such as 12.0");
        return -1;
    }
    r->offset[LOG_STDOUT] = r->offset[LOG_STDERR] = offset;
    return 0;
}

// -- JSON

static void show_piece(struct json *j, const char *name, uint64_t at, const char *data, size_t len)
{
    json_open_object(j);
    show_str(j, "stream", name);
    follow_show(j, at, data, len);
    json_close_object(j);
}

static void show_gap_piece(struct json *j, const char *name, uint64_t from, uint64_t to)
{
    json_open_object(j);
    show_str(j, "stream", name);
    show_str(j, "type", "gap");
    show_int(j, "from", (int64_t)from);
    show_int(j, "to", (int64_t)to);
    json_close_object(j);
}

// Where the next page begins.
static uint64_t show_stream(struct json *j, const char *name, struct bytelog *log, uint64_t offset,
                            bool ended)
{
    char data[32 * 1024];
    uint64_t at;
    size_t total = 0;
    while (log != NULL && total < PAGE_BYTES) {
        ssize_t n = bytelog_read(log, offset, data, sizeof data, &at);
        if (n <= 0)
            break;
        if (at != offset)
            show_gap_piece(j, name, offset, at);
        offset = at;
        bool last = ended && offset + (uint64_t)n >= bytelog_size(log);
        size_t take = follow_piece(log, offset, data, (size_t)n, last);
        if (take == 0)
            break;
        show_piece(j, name, offset, data, take);
        offset += take;
        total += take;
    }
    return offset;
}

static void reply_page(struct call *call, struct process *p, const struct follow_request *r)
{
    static const char *const names[LOG_STREAMS] = {"stdout", "stderr"};
    struct buf buf;
    struct json j;
    uint64_t next[LOG_STREAMS];
    bool more = false;
    bool ended = process_row(p)->reason != END_NONE;
    buf_init(&buf, SHOW_MAX);
    json_init(&j, &buf);
    json_open_object(&j);
    show_bool(&j, "success", true);
    show_str(&j, "processId", process_row(p)->id);
    show_str(&j, "status", ended ? "ended" : "running");
    json_key(&j, "events");
    json_open_array(&j);
    for (int i = 0; i < LOG_STREAMS; i++) {
        struct bytelog *log = process_log(p, (enum log_stream)i);
        next[i] = r->offset[i];
        if (r->wanted[i]) {
            next[i] = show_stream(&j, names[i], log, r->offset[i], ended);
            more = more || (log != NULL && next[i] + 4 <= bytelog_size(log));
        }
    }
    json_close_array(&j);
    json_key(&j, "nextOffset");
    json_open_object(&j);
    for (int i = 0; i < LOG_STREAMS; i++)
        show_int(&j, names[i], (int64_t)next[i]);
    json_close_object(&j);
    show_bool(&j, "more", more);
    json_close_object(&j);
    call_reply_json(call, 200, &j);
}

// -- the route

void handle_process_logs(struct call *call)
{
    struct follow_request r = {0};
    bool sse = call_accepts(call, "text/event-stream");
    bool json = !sse && call_accepts(call, "application/json");
    struct process *p = process_of(call);
    if (p == NULL)
        return;
    r.raw = !sse && !json;
    if (parse_stream(call, r.raw, &r) < 0 || parse_offset(call, process_row(p)->id, &r) < 0 ||
        call_query_bool(call, "follow", sse, &r.live) < 0)
        return;
    r.live = r.live && !call->is_head;
    if (json && r.live)
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "?follow=1 comes as bytes or events, not as JSON: send 'Accept: "
                   "text/event-stream'");
    else if (json)
        reply_page(call, p, &r);
    else
        follow_begin(call, p, &r);
}
