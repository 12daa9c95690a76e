// SPDX-License-Identifier: Apache-2.0
// A cell's events on their way to a reader, against a plain model: whatever the log is cut into,
// however slow the reader is, and wherever it leaves and comes again, it has every event once and
// every character whole. Cell, stream and call are stand-ins.
#include <stdlib.h>
#include <string.h>

#include "api/code.h"
#include "api/show.h"
#include "base/text.h"
#include "check.h"

enum { EVENTS_MAX = 400, ROUNDS = 300 };

// -- the cell

struct cell {
    unsigned refs;
    struct cell_event events[EVENTS_MAX];
    uint64_t n, visible; // those that have happened
    bool ended, is_rest;
    struct cell_end end;
    struct buf all[2]; // each stream in one piece
    struct buf objects;
    void (*fn)(void *data);
    void *data;
};

static struct cell the;
static const struct language language = {.name = "python"};

struct cell *cell_ref(struct cell *cell)
{
    cell->refs++;
    return cell;
}

void cell_unref(struct cell *cell)
{
    if (cell != NULL)
        cell->refs--;
}

const char *cell_id(const struct cell *cell)
{
    (void)cell;
    return "a:b-1"; // what an id has must not matter
}

const char *cell_context(const struct cell *cell)
{
    (void)cell;
    return "c";
}

const struct language *cell_language(const struct cell *cell)
{
    (void)cell;
    return &language;
}

int cell_event_part(struct cell *cell, uint64_t n, size_t at, size_t max, struct cell_event *ret,
                    struct err *err)
{
    (void)err;
    if (n >= cell->visible) {
        *ret = (struct cell_event){.type = CELL_END, .bytes = ""};
        return cell->ended && n == cell->n;
    }
    const struct cell_event *event = &cell->events[n];
    size_t left = at < event->len ? event->len - at : 0;
    *ret = (struct cell_event){event->type, event->bytes + (left > 0 ? at : 0),
                               left < max ? left : max, event->len};
    return 1;
}

int cell_event(struct cell *cell, uint64_t n, struct cell_event *ret, struct err *err)
{
    return cell_event_part(cell, n, 0, SIZE_MAX, ret, err);
}

const struct cell_end *cell_end(const struct cell *cell)
{
    return &cell->end;
}

bool cell_has_ended(const struct cell *cell)
{
    return cell->ended;
}

bool cell_is_rest(const struct cell *cell)
{
    return cell->is_rest;
}

struct cell_follower *cell_follow(struct cell *cell, void (*fn)(void *data), void *data)
{
    cell->fn = fn;
    cell->data = data;
    return (struct cell_follower *)cell;
}

void cell_cancel(struct cell *cell) // of a reader who is needed and leaves: not one of these
{
    (void)cell;
    abort();
}

void cell_follower_free(struct cell_follower *follower)
{
    (void)follower;
    the.fn = NULL;
}

// -- the reader

static struct {
    bool open, refused, full, in_long, ended;
    char id[256];       // of the last whole event
    char long_id[256];  // of the one that is being written
    struct buf text[2]; // JSON's inside of strings
    struct buf objects;
    struct buf long_data;
    unsigned starts, ends;
    void (*drain)(void *data);
    void *data;
} reader;

static struct api api;
static struct call call;

void http_on_drain(struct http_request *req, http_close_fn fn, void *data)
{
    (void)req;
    reader.drain = fn;
    reader.data = data;
}

void stream_begin_sse(struct call *c)
{
    (void)c;
    reader.open = true;
}

bool stream_full(const struct call *c)
{
    (void)c;
    reader.full = rand() % 3 == 0; // NOLINT
    return reader.full;
}

void stream_end(struct call *c)
{
    assert_false(reader.in_long);
    c->req = NULL;
    c->stop = NULL;
    reader.ended = true;
}

void stream_cut(struct call *c)
{
    (void)c;
    fail(); // only for words that have a `cut`
}

void stream_event(struct call *c, const char *id, const char *event, struct json *json)
{
    static const char head[] = "{\"text\":\"";
    (void)c;
    assert_false(reader.in_long);
    assert_int_equal(json_finish(json), 0);
    const char *data = buf_str(json->buf);
    if (strcmp(event, "start") == 0)
        reader.starts++;
    else if (strcmp(event, "end") == 0)
        reader.ends++;
    else {
        assert_memory_equal(data, head, sizeof head - 1);
        assert_true(json->buf->len > sizeof head + 1); // none is empty
        (void)buf_append(&reader.text[strcmp(event, "stderr") == 0], data + sizeof head - 1,
                         json->buf->len - sizeof head - 1);
    }
    assert_string_not_equal(id, reader.id);
    (void)snprintf(reader.id, sizeof reader.id, "%s", id);
    buf_done(json->buf);
}

void stream_long_begin(struct call *c, const char *id, const char *event)
{
    (void)c;
    (void)event;
    assert_false(reader.in_long);
    reader.in_long = true;
    (void)snprintf(reader.long_id, sizeof reader.long_id, "%s", id);
    buf_reset(&reader.long_data);
}

void stream_long_data(struct call *c, const char *data, size_t len)
{
    (void)c;
    assert_true(reader.in_long && len > 0);
    (void)buf_append(&reader.long_data, data, len);
}

void stream_long_end(struct call *c)
{
    (void)c;
    assert_true(reader.in_long);
    reader.in_long = false;
    (void)buf_append(&reader.objects, reader.long_data.data, reader.long_data.len);
    assert_string_not_equal(reader.long_id, reader.id);
    (void)snprintf(reader.id, sizeof reader.id, "%s", reader.long_id);
}

// -- what else is asked for

struct call *call_ref(struct call *c)
{
    return c;
}

void call_unref(struct call *c)
{
    (void)c;
}

void call_error(struct call *c, enum error_kind kind, const char *details, const char *fmt, ...)
{
    (void)c;
    (void)details;
    (void)fmt;
    assert_int_equal(kind, ERROR_INVALID_REQUEST);
    reader.refused = true;
}

void show_str(struct json *j, const char *key, const char *text)
{
    json_key(j, key);
    json_put_str(j, text);
}

void code_show_end(struct json *j, const struct cell_end *end, bool truncated)
{
    (void)end;
    json_key(j, "truncated");
    json_put_bool(j, truncated);
}

uint64_t sandbox_box(const struct sandbox *s)
{
    (void)s;
    return 0;
}

void sandbox_touch(struct sandbox *s)
{
    (void)s;
}

void fleet_stats(const struct fleet *fleet, struct fleet_stats *ret)
{
    (void)fleet;
    *ret = (struct fleet_stats){.restarts = 2};
}

// -- the model

static void add_event(enum cell_event_type type, const char *bytes, size_t len)
{
    char *copy = malloc(len + 1);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    the.events[the.n++] = (struct cell_event){type, copy, len, len};
    if (type == CELL_STDOUT || type == CELL_STDERR)
        (void)buf_append(&the.all[type == CELL_STDERR], bytes, len);
    else
        (void)buf_append(&the.objects, bytes, len);
}

// Pieces of characters, whole ones and what is none, in any order.
static size_t some_bytes(char *ret, size_t max)
{
    static const char *const parts[] = {"a",    "\n",   "\xc3", "\xa9",     "\xe2",         "\x82",
                                        "\xac", "\xf0", "\x9f", "\xe2\x82", "\xf0\x9f\x98", "\xff",
                                        "\xed", "\xa0", "\xc0", "\xf5",     "\xe2\x82\xac"};
    size_t len = 0;
    int n = rand() % 6; // NOLINT
    for (int i = 0; i < n; i++) {
        const char *part = parts[(size_t)rand() % (sizeof parts / sizeof *parts)]; // NOLINT
        if (len + strlen(part) > max)
            break;
        memcpy(ret + len, part, strlen(part));
        len += strlen(part);
    }
    return len;
}

static void make_log(int events, size_t large)
{
    char *bytes = malloc(large + 64);
    assert_non_null(bytes);
    for (int i = 0; i < events; i++) {
        int what = rand() % 8; // NOLINT
        size_t len = some_bytes(bytes, 64);
        if (what == 0) {
            add_event(i % 2 ? CELL_DISPLAY : CELL_RESULT, "{\"text\":\"x\"}", 12);
            continue;
        }
        if (large > 0 && what == 1) {
            memset(bytes + len, 'x', large);
            len += large;
        }
        if (large > 0 && what == 2) { // an object of several slices
            memset(bytes, ' ', large);
            bytes[0] = '{';
            bytes[large - 1] = '}';
            add_event(CELL_DISPLAY, bytes, large);
            continue;
        }
        add_event(what % 2 ? CELL_STDOUT : CELL_STDERR, bytes, len);
    }
    free(bytes);
}

static void begin(void)
{
    the = (struct cell){.refs = 1};
    memset(&reader, 0, sizeof reader);
    for (int i = 0; i < 2; i++) {
        buf_init(&the.all[i], SIZE_MAX / 2);
        buf_init(&reader.text[i], SIZE_MAX / 2);
    }
    buf_init(&the.objects, SIZE_MAX / 2);
    buf_init(&reader.objects, SIZE_MAX / 2);
    buf_init(&reader.long_data, SIZE_MAX / 2);
}

static void attach(struct code_place from, bool start)
{
    call = (struct call){.api = &api, .req = (struct http_request *)&api};
    reader.in_long = reader.ended = false;
    code_stream(&call, &the, from, start);
}

static void leave(void)
{
    call.req = NULL;
    if (call.stop != NULL)
        call.stop(&call);
    free(call.state);
    call.state = NULL;
    reader.drain = NULL;
    assert_int_equal(the.refs, 1);
}

static void come_again(void)
{
    char id[256];
    struct code_place from = {0};
    (void)snprintf(id, sizeof id, "%s", reader.id);
    assert_int_equal(code_parse_id(id, &from), 0);
    assert_string_equal(id, cell_id(&the));
    attach(from, false);
    assert_false(reader.refused);
}

// All of it has come: as JSON has it, so that what is no text is compared, too.
static void check_all(void)
{
    for (int i = 0; i < 2; i++) {
        auto_buf whole;
        struct json j;
        buf_init(&whole, SIZE_MAX / 2);
        json_init(&j, &whole);
        json_put_strn(&j, the.all[i].len > 0 ? the.all[i].data : "", the.all[i].len);
        assert_int_equal(reader.text[i].len, whole.len - 2);
        if (whole.len > 2)
            assert_memory_equal(reader.text[i].data, whole.data + 1, whole.len - 2);
    }
    assert_int_equal(reader.objects.len, the.objects.len);
    if (the.objects.len > 0)
        assert_memory_equal(reader.objects.data, the.objects.data, the.objects.len);
    assert_int_equal(reader.starts, 1);
    assert_int_equal(reader.ends, 1);
}

static void end(void)
{
    leave();
    for (uint64_t i = 0; i < the.n; i++)
        free((void *)(uintptr_t)the.events[i].bytes);
    for (int i = 0; i < 2; i++) {
        buf_done(&the.all[i]);
        buf_done(&reader.text[i]);
    }
    buf_done(&the.objects);
    buf_done(&reader.objects);
    buf_done(&reader.long_data);
}

// -- cases

// `leaves`: one time in so many the reader goes and comes again.
static void run(int leaves)
{
    attach((struct code_place){0}, true);
    for (long turns = 0; !reader.ended && turns < 10000000; turns++) {
        if (!the.ended && rand() % 2 == 0) { // NOLINT
            if (the.visible < the.n)
                the.visible++;
            else
                the.ended = true;
            if (the.fn != NULL)
                the.fn(the.data);
        }
        if (!reader.ended && rand() % leaves == 0) { // NOLINT
            leave();
            come_again();
        }
        if (!reader.ended && reader.drain != NULL)
            reader.drain(reader.data);
    }
    assert_true(reader.ended);
    check_all();
}

CHECK_CASE(every_event_once_and_every_character_whole)
{
    for (int round = 0; round < ROUNDS; round++) {
        srand((unsigned)round);
        begin();
        the.is_rest = round % 5 == 0;
        make_log(rand() % 60, 0); // NOLINT
        run(round % 3 == 0 ? 1000000 : 3);
        end();
    }
}

CHECK_CASE(large_ones)
{
    for (int round = 0; round < 12; round++) {
        srand((unsigned)round);
        begin();
        make_log(30, 100 * 1024 + (size_t)round);
        run(round % 2 == 0 ? 1000000 : 40);
        end();
    }
}

CHECK_CASE(nothing_but_its_end)
{
    begin();
    the.ended = true;
    attach((struct code_place){0}, true);
    while (!reader.ended)
        reader.drain(reader.data);
    check_all();
    leave();
    come_again(); // behind the end there is nothing, and that is no fault
    while (!reader.ended)
        reader.drain(reader.data);
    assert_int_equal(reader.ends, 1);
    end();
}

// What was told by a daemon before is gone; what is left is told to those who had it.
CHECK_CASE(the_rest_after_a_restart)
{
    begin();
    add_event(CELL_STDOUT, "rest", 4);
    the.visible = 1;
    the.ended = the.is_rest = true;
    attach((struct code_place){.n = 17, .at = 3}, false);
    while (!reader.ended)
        reader.drain(reader.data);
    assert_memory_equal(reader.text[0].data, "rest", 4);
    assert_non_null(strstr(reader.id, ":3298534883330")); // (2 + 1) << 40, and two events
    end();
}

CHECK_CASE(places_that_are_none)
{
    static const struct code_place bad[] = {
        {4,          0},
        {INT64_MAX,  0},
        {0,          3},
        {1,          1},
        {2,          3},
        {3,          1},
        {1ull << 40, 0}
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        begin();
        add_event(CELL_STDOUT, "abc", 3);
        add_event(CELL_DISPLAY, "{}", 2);
        the.visible = 2;
        the.ended = true;
        attach(bad[i], false);
        assert_true(reader.refused && !reader.open);
        end();
    }
}

CHECK_CASE(texts)
{
    static const char *const bad[] = {"",     ":",    "a",    "a:",    ":1",      "a:x",  "a:-1",
                                      "a:+1", "a:1.", "a:.1", "a:1.0", "a:1.1.1", "a: 1", "a:1 "};
    struct code_place place = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "%s", bad[i]);
        assert_int_equal(code_parse_id(id, &place), -1);
    }
    char id[] = "a:b:12.345";
    assert_int_equal(code_parse_id(id, &place), 0);
    assert_string_equal(id, "a:b");
    assert_true(place.n == 12 && place.at == 345);
    assert_int_equal(code_parse_place("99999999999999999999999", &place), -1);
    assert_int_equal(code_parse_place("9223372036854775808", &place), -1);
}

CHECK_MAIN(cmocka_unit_test(every_event_once_and_every_character_whole),
           cmocka_unit_test(large_ones), cmocka_unit_test(nothing_but_its_end),
           cmocka_unit_test(the_rest_after_a_restart), cmocka_unit_test(places_that_are_none),
           cmocka_unit_test(texts))
