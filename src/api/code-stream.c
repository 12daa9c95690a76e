// SPDX-License-Identifier: Apache-2.0
// A cell as server-sent events. Nothing is kept in between: what the reader has not taken yet stays
// in the cell's log. An event's id says where to go on, so that a reader who comes again misses
// nothing and gets nothing twice.
//
// A stream is text for its reader. The bytes of a character that are not complete wait for the
// rest, which may be several events later; what waits at a place follows from the log alone
// (waiting_at), so that ids need not carry it. What still waits at the end is told before the last
// event, whose place has parts for that: .1 stdout's was told, .2 stderr's.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/code.h"
#include "api/show.h"
#include "base/text.h"

enum {
    STREAMS = 2,
    WAITING_MAX = 3, // bytes of a character without its last
    CHUNK = 32 * 1024,
    SLICE = 128 * 1024,  // of an object
    LOOK_BACK_MAX = 512, // events, for what waits of a character
    TURN = 1024 * 1024,  // bytes before others have their turn: the drain brings us back
    EVENT_MAX = 8 * CHUNK,
    RESTART_SHIFT = 40, // a cell has fewer events
    ID_MAX = EDGE_NAME_MAX + 2 * 21 + 1,
};

static const char *const stream_names[STREAMS] = {"stdout", "stderr"};
static const enum cell_event_type stream_types[STREAMS] = {CELL_STDOUT, CELL_STDERR};

struct waiting {
    char bytes[WAITING_MAX];
    size_t len;
};

struct follow {
    struct call *call;
    struct cell *cell; // counted; NULL: it is over
    struct cell_follower *follower;
    struct code_place place;
    struct waiting waiting[STREAMS];
    uint64_t base; // what the number of the first event is for its reader
    size_t sent;   // bytes of an object, whose event has been begun
    bool is_told;  // up to its end
    int64_t error; // place of its CELL_ERROR, or -1
    const struct code_words *words;
};

// -- places

int code_parse_place(const char *text, struct code_place *ret)
{
    struct err ignored;
    char first[24];
    struct code_place place = {0};
    size_t len = strcspn(text, ".");
    if (len >= sizeof first)
        return -1;
    (void)snprintf(first, sizeof first, "%.*s", (int)len, text);
    if (parse_u64(first, 0, INT64_MAX, &place.n, &ignored) < 0)
        return -1;
    if (text[len] == '.' && parse_u64(text + len + 1, 1, INT64_MAX, &place.at, &ignored) < 0)
        return -1;
    *ret = place;
    return 0;
}

int code_parse_id(char *id, struct code_place *ret)
{
    char *colon = strrchr(id, ':');
    if (colon == NULL || colon == id || code_parse_place(colon + 1, ret) < 0)
        return -1;
    *colon = '\0';
    return 0;
}

static bool is_output(enum cell_event_type type)
{
    return type == CELL_STDOUT || type == CELL_STDERR;
}

// Only what an id of ours can have said.
static bool is_place(struct cell *cell, struct code_place place)
{
    struct err ignored;
    struct cell_event event;
    if (place.at == 0)
        return place.n == 0 || cell_event_part(cell, place.n - 1, 0, 0, &event, &ignored) > 0;
    if (cell_event_part(cell, place.n, 0, 0, &event, &ignored) <= 0)
        return false;
    if (event.type == CELL_END)
        return place.at <= STREAMS;
    return is_output(event.type) && place.at < event.total;
}

// -- characters

// Puts the last bytes of one event before those that are there.
static void take_last(struct cell *cell, struct code_place end, enum cell_event_type type,
                      char last[WAITING_MAX], size_t *have)
{
    struct err ignored;
    struct cell_event event;
    if (cell_event_part(cell, end.n, 0, 0, &event, &ignored) <= 0 || event.type != type)
        return;
    size_t len = end.at > 0 ? (size_t)end.at : event.total;
    size_t want = WAITING_MAX - *have;
    size_t take = len < want ? len : want;
    if (cell_event_part(cell, end.n, len - take, take, &event, &ignored) <= 0)
        return;
    *have += event.len;
    memcpy(last + WAITING_MAX - *have, event.bytes, event.len);
}

// What waits of a stream where its reader goes on: the last bytes before tell.
static struct waiting waiting_at(struct cell *cell, struct code_place place, int stream)
{
    struct waiting w = {0};
    char last[WAITING_MAX];
    size_t have = 0;
    uint64_t n = place.n;
    if (place.at > 0)
        take_last(cell, place, stream_types[stream], last, &have);
    for (int i = 0; i < LOOK_BACK_MAX && n > 0 && have < WAITING_MAX; i++)
        take_last(cell, (struct code_place){.n = --n}, stream_types[stream], last, &have);
    w.len = utf8_unfinished(last + WAITING_MAX - have, have);
    memcpy(w.bytes, last + WAITING_MAX - w.len, w.len);
    return w;
}

// -- events

static void write_id(const struct follow *f, struct code_place place, char ret[ID_MAX])
{
    const char *id = cell_id(f->cell);
    if (place.at > 0)
        (void)snprintf(ret, ID_MAX, "%s:%" PRIu64 ".%" PRIu64, id, f->base + place.n, place.at);
    else
        (void)snprintf(ret, ID_MAX, "%s:%" PRIu64, id, f->base + place.n);
}

static void send_text(struct follow *f, int stream, const char *data, size_t len)
{
    char id[ID_MAX];
    write_id(f, f->place, id);
    f->words->text(f->call, id, stream_names[stream], data, len);
}

// -- one step each: how many bytes it moved

// Events of one stream that follow each other are told as one, up to `max` bytes.
static size_t gather(struct follow *f, int stream, char *data, size_t max)
{
    struct err ignored;
    struct cell_event event;
    size_t len = 0;
    while (len < max && cell_event(f->cell, f->place.n, &event, &ignored) > 0 &&
           event.type == stream_types[stream]) {
        size_t left = event.len - (size_t)f->place.at;
        size_t take = left < max - len ? left : max - len;
        memcpy(data + len, event.bytes + f->place.at, take);
        len += take;
        f->place.at += take;
        if (f->place.at == event.len)
            f->place = (struct code_place){.n = f->place.n + 1};
    }
    return len;
}

static ssize_t step_output(struct follow *f, int stream)
{
    char data[WAITING_MAX + CHUNK];
    struct waiting *w = &f->waiting[stream];
    size_t len = w->len;
    memcpy(data, w->bytes, w->len);
    len += gather(f, stream, data + len, CHUNK);
    size_t rest = utf8_unfinished(data, len);
    memcpy(w->bytes, data + len - rest, rest);
    w->len = rest;
    if (len > rest)
        send_text(f, stream, data, len - rest);
    return (ssize_t)len + 1; // an event without bytes is a step, too
}

// `part`: those that have not been sent yet, SLICE at most.
static ssize_t step_object(struct follow *f, struct cell_event *part)
{
    char id[ID_MAX];
    if (f->sent + part->len < part->total) // whole characters
        part->len -= utf8_unfinished(part->bytes, part->len);
    if (part->type == CELL_ERROR)
        f->error = (int64_t)f->place.n;
    write_id(f, (struct code_place){.n = f->place.n + 1}, id);
    f->words->object(f->call, id, part, f->sent);
    f->sent += part->len;
    if (f->sent == part->total) {
        f->sent = 0;
        f->place.n++;
    }
    return (ssize_t)part->len;
}

static ssize_t step_end(struct follow *f)
{
    char id[ID_MAX];
    for (int i = (int)f->place.at; i < STREAMS; i++) {
        f->place.at++;
        if (f->waiting[i].len > 0)
            send_text(f, i, f->waiting[i].bytes, f->waiting[i].len);
    }
    f->place = (struct code_place){.n = f->place.n + 1};
    write_id(f, f->place, id);
    f->words->end(f->call, id, f->cell, f->error);
    f->is_told = true;
    return -1;
}

// 0: there is nothing to tell now; -1: there will be nothing more.
static ssize_t step(struct follow *f)
{
    struct err ignored;
    struct cell_event event;
    int r = cell_event_part(f->cell, f->place.n, f->sent, SLICE, &event, &ignored);
    if (r <= 0)
        return r < 0 || cell_has_ended(f->cell) ? -1 : 0;
    if (f->sent > event.total || (is_output(event.type) && f->place.at > event.total))
        return -1; // a log that has changed is a broken one
    switch (event.type) {
    case CELL_STDOUT:
        return step_output(f, 0);
    case CELL_STDERR:
        return step_output(f, 1);
    case CELL_RESULT:
    case CELL_DISPLAY:
    case CELL_ERROR:
        return step_object(f, &event);
    case CELL_END:
        return step_end(f);
    }
    return -1;
}

// -- the stream

static void let_go(struct follow *f)
{
    cell_follower_free(f->follower);
    f->follower = NULL;
    cell_unref(f->cell);
    f->cell = NULL;
}

static void tell_cut(struct follow *f, const char *why)
{
    if (f->words->cut == NULL || f->call->req == NULL)
        return;
    if (f->sent > 0) // in the middle of an event, where no other can be
        stream_cut(f->call);
    else
        f->words->cut(f->call, why);
}

// The client is gone, or (call->req is still there) the server ends it.
static void stop(struct call *call)
{
    struct follow *f = call->state;
    struct cell *cell = f->cell != NULL ? cell_ref(f->cell) : NULL;
    let_go(f); // so that its end is not told to us
    if (cell == NULL)
        return;
    tell_cut(f, "the server ended this stream, and the code with it");
    if (f->words->needs_reader && !cell_has_ended(cell))
        cell_cancel(cell);
    cell_unref(cell);
}

static void pump(struct follow *f)
{
    struct call *call = call_ref(f->call);
    ssize_t moved = 1;
    size_t turn = 0;
    while (moved > 0 && turn < TURN && call->req != NULL && !stream_full(call)) {
        moved = step(f);
        turn += moved > 0 ? (size_t)moved : 0;
    }
    if (turn > 0 && sandbox_box(call->sandbox) != 0)
        sandbox_touch(call->sandbox); // a stream that moves bytes is use
    if (call->req != NULL && (moved < 0 || (moved == 0 && call->is_head))) {
        if (moved < 0 && !f->is_told)
            tell_cut(f, "what the code has written cannot be read any more");
        let_go(f);
        stream_end(call);
    }
    call_unref(call);
}

static void on_news(void *data)
{
    struct follow *f = data;
    if (f->cell != NULL)
        pump(f);
}

// Events that a daemon before this one has told are gone: the numbers of what is left begin above
// all that it can have used, so that a reader who had those gets all of these.
static uint64_t base_of(const struct call *call, const struct cell *cell)
{
    struct fleet_stats stats;
    if (!cell_is_rest(cell))
        return 0;
    fleet_stats(call->api->fleet, &stats);
    return ((uint64_t)stats.restarts + 1) << RESTART_SHIFT;
}

void code_stream_as(struct call *call, struct cell *cell, struct code_place from, bool start,
                    const struct code_words *words)
{
    uint64_t base = base_of(call, cell);
    if (from.n >= base)
        from.n -= base;
    else
        from = (struct code_place){0};
    if (!is_place(cell, from)) {
        call_error(call, ERROR_INVALID_REQUEST, NULL,
                   "the cell has no such event; send the id of one that was received");
        return;
    }
    struct follow *f = calloc(1, sizeof *f);
    if (f == NULL)
        abort();
    *f = (struct follow){.call = call,
                         .cell = cell_ref(cell),
                         .place = from,
                         .base = base,
                         .error = -1,
                         .words = words};
    for (int i = 0; i < STREAMS; i++)
        f->waiting[i] = waiting_at(cell, from, i);
    free(call->state);
    call->state = f;
    call->stop = stop;
    stream_begin_sse(call);
    http_on_drain(call->req, on_news, f);
    f->follower = cell_follow(cell, on_news, f);
    if (start) {
        char id[ID_MAX];
        write_id(f, f->place, id);
        words->start(call, id, cell);
    }
    pump(f);
}

// -- in our own words

static void open_event(struct buf *buf, struct json *j)
{
    buf_init(buf, EVENT_MAX);
    json_init(j, buf);
    json_open_object(j);
}

static void send_event(struct call *call, const char *id, const char *event, struct json *j)
{
    json_close_object(j);
    stream_event(call, id, event, j);
}

static void on_start(struct call *call, const char *id, const struct cell *cell)
{
    struct buf buf;
    struct json j;
    open_event(&buf, &j);
    show_str(&j, "id", cell_id(cell));
    show_str(&j, "context", cell_context(cell));
    show_str(&j, "language", cell_language(cell)->name);
    send_event(call, id, "start", &j);
}

static void on_text(struct call *call, const char *id, const char *stream, const char *data,
                    size_t len)
{
    struct buf buf;
    struct json j;
    open_event(&buf, &j);
    json_key(&j, "text");
    json_put_strn(&j, data, len);
    send_event(call, id, stream, &j);
}

static void on_object(struct call *call, const char *id, const struct cell_event *part, size_t at)
{
    static const char *const names[] = {
        [CELL_RESULT] = "result", [CELL_DISPLAY] = "display", [CELL_ERROR] = "error"};
    if (at == 0)
        stream_long_begin(call, id, names[part->type]);
    stream_long_data(call, part->bytes, part->len);
    if (at + part->len == part->total)
        stream_long_end(call);
}

static void on_end(struct call *call, const char *id, struct cell *cell, int64_t error)
{
    struct buf buf;
    struct json j;
    const struct cell_end *end = cell_end(cell);
    (void)error; // it was told when it came
    open_event(&buf, &j);
    code_show_end(&j, end, end->truncated);
    send_event(call, id, "end", &j);
}

void code_stream(struct call *call, struct cell *cell, struct code_place from, bool start)
{
    static const struct code_words words = {
        .start = on_start, .text = on_text, .object = on_object, .end = on_end};
    code_stream_as(call, cell, from, start, &words);
}
