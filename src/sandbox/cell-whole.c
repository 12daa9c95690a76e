// SPDX-License-Identifier: Apache-2.0
#include "sandbox/cell-whole.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

// A representation as the answer has it: {"type":"result", and what it had behind its brace.
struct object {
    char head[32];
    const char *rest;
    size_t len;
};

static size_t count_blank(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && strchr(" \t\r\n", text[n]) != NULL)
        n++;
    return n;
}

static struct object object_of(const struct cell_event *event)
{
    size_t before = count_blank(event->bytes, event->len) + 1; // an object: there is a brace
    struct object o = {.head = "{", .rest = event->bytes + before, .len = event->len - before};
    if (event->type == CELL_ERROR)
        return o;
    size_t blank = count_blank(o.rest, o.len);
    (void)snprintf(o.head, sizeof o.head, "{\"type\":\"%s\"%s",
                   event->type == CELL_RESULT ? "result" : "display",
                   o.rest[blank] == '}' ? "" : ",");
    return o;
}

static void add_text(struct cell_whole *w, struct buf *stream, const struct cell_event *event)
{
    w->text_size += json_text_size(event->bytes, event->len);
    w->is_cut |= w->text_size > w->text_max || buf_append(stream, event->bytes, event->len) < 0;
}

static void add_object(struct cell_whole *w, struct buf *objects, const struct cell_event *event)
{
    struct object o = object_of(event);
    if (o.len + sizeof o.head + 1 > w->objects_max - objects->len) {
        w->is_cut = true;
        return;
    }
    if (objects->len > 0)
        (void)buf_append_char(objects, ',');
    (void)buf_append_str(objects, o.head);
    (void)buf_append(objects, o.rest, o.len);
}

void cell_whole_read(struct cell_whole *w, struct cell *cell)
{
    struct err ignored;
    struct cell_event event;
    for (uint64_t n = 0; cell_event(cell, n, &event, &ignored) > 0; n++) {
        switch (event.type) {
        case CELL_STDOUT:
            add_text(w, &w->out, &event);
            break;
        case CELL_STDERR:
            add_text(w, &w->err, &event);
            break;
        case CELL_RESULT:
        case CELL_DISPLAY:
            add_object(w, &w->results, &event);
            break;
        case CELL_ERROR:
            add_object(w, &w->error, &event);
            break;
        case CELL_END:
            return;
        }
    }
}

void cell_whole_init(struct cell_whole *w, size_t text_max, size_t objects_max)
{
    *w = (struct cell_whole){.text_max = text_max, .objects_max = objects_max};
    buf_init(&w->out, text_max);
    buf_init(&w->err, text_max);
    buf_init(&w->results, objects_max);
    buf_init(&w->error, objects_max);
}

void cell_whole_done(struct cell_whole *w)
{
    buf_done(&w->out);
    buf_done(&w->err);
    buf_done(&w->results);
    buf_done(&w->error);
}
