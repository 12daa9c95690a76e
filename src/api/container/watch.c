// SPDX-License-Identifier: Apache-2.0
// POST /api/watch: changes of files as events.
#include "api/container/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/container/files.h"
#include "api/show.h"
#include "api/watch.h"

enum { EVENTS_MAX = 16 };
#define ROOT "/workspace"

static const struct field watch_fields[] = {
    CONTAINER_WATCH_FIELDS,
    FIELD("events", FIELD_STRINGS, offsetof(struct container_watch_body, events), .max = EVENTS_MAX,
          .help = "create, modify, delete, move_from, move_to, attrib; all but the last if not "
                  "given"),
};
static const struct schema watch_schema =
    SCHEMA("ContainerWatch", struct container_watch_body, watch_fields, .lenient = true);

struct container_watch {
    struct watch_call watch; // first
    struct filter filter;
    unsigned kinds; // 1u << enum hand_change_kind of those that are told
    char names[WATCH_GLOBS_MAX + 1];
};

// -- the request

static bool is_inside(const char *path)
{
    size_t len = sizeof ROOT - 1;
    return strncmp(path, ROOT, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

int container_watch_read(struct call *call, struct file_call *file, struct filter *filter)
{
    const struct container_watch_body *b = call->body.values;
    struct err err = {0};
    if (container_resolve(ROOT, b->path, file->path, &err) < 0) {
        container_invalid(call, "path", "path: %s", err.msg);
        return -1;
    }
    if (!is_inside(file->path)) {
        container_fail(call, CONTAINER_PERMISSION_DENIED, NULL, "path: must be inside " ROOT);
        return -1;
    }
    if (filter_init(filter, file->path, &b->include, &b->exclude, &err) < 0) {
        char field[16];
        (void)snprintf(field, sizeof field, "%.*s", (int)strcspn(err.msg, ":"), err.msg);
        container_invalid(call, field, "%s", err.msg);
        return -1;
    }
    return 0;
}

static int kind_of(const char *name)
{
    for (int kind = HAND_CREATED; kind <= HAND_ATTRIB; kind++) {
        if (strcmp(watch_kind_name((uint32_t)kind), name) == 0)
            return kind;
    }
    return -1;
}

static int read_events(struct call *call, unsigned *ret)
{
    const struct container_watch_body *b = call->body.values;
    for (size_t i = 0; i < b->events.n; i++) {
        int kind = kind_of(b->events.items[i]);
        if (kind < 0) {
            container_invalid(call, "events",
                              "events: there is no '%.40s', but create, modify, delete, move_from, "
                              "move_to and attrib",
                              b->events.items[i]);
            return -1;
        }
        *ret |= 1u << kind;
    }
    for (int kind = HAND_CREATED; b->events.n == 0 && kind < HAND_ATTRIB; kind++)
        *ret |= 1u << kind;
    return 0;
}

// -- events

static void send_text(struct call *call, const char *type, const char *key, const char *text)
{
    struct container_answer event;
    container_event_begin(&event, type);
    show_str(&event.json, key, text);
    container_event_send(call, &event);
}

// The server stops, or who asked may no longer.
static void stop(struct call *call)
{
    if (call->req != NULL)
        send_text(call, "stopped", "reason", "the server ended this stream");
    files_cancel(call);
}

static void on_begun(struct call *call)
{
    const struct container_watch *w = call->state;
    struct container_answer event;
    call->stop = stop;
    container_event_begin(&event, "watching");
    show_str(&event.json, "path", w->watch.file.path);
    show_str(&event.json, "watchId", call->id);
    container_event_send(call, &event);
}

static void send_change(struct call *call, const struct hand_change *change)
{
    const struct container_watch *w = call->state;
    struct container_answer event;
    auto_buf path;
    buf_init(&path, 2 * HAND_PATH_MAX);
    file_path_join(&path, w->watch.file.path, (const char *)(change + 1));
    if (!(w->kinds & 1u << change->kind) || !filter_takes(&w->filter, buf_str(&path)))
        return;
    container_event_begin(&event, "event");
    show_str(&event.json, "eventType", watch_kind_name(change->kind));
    show_str(&event.json, "path", buf_str(&path));
    show_bool(&event.json, "isDirectory", change->is_dir != 0);
    container_event_send(call, &event);
}

static void on_change(struct call *call, const struct hand_change *change)
{
    if (change->kind == HAND_OVERFLOW)
        send_text(call, "error", "error",
                  "too much changed at once and some changes were lost: look at all of it again. "
                  "The watch goes on");
    else if (change->kind == HAND_ROOT_GONE)
        send_text(call, "stopped", "reason", "what was watched is gone");
    else
        send_change(call, change);
}

static void on_over(struct call *call, const struct err *err)
{
    if (err != NULL && !sandbox_is_up(call->sandbox))
        send_text(call, "stopped", "reason", "the sandbox sleeps or is gone");
    else if (err != NULL)
        send_text(call, "error", "error", err->msg);
}

static void on_fail(struct call *call, const struct err *err)
{
    if (container_file_code(err) == CONTAINER_FILESYSTEM_ERROR)
        container_fail(call, CONTAINER_WATCH_START_ERROR, NULL, "%s", err->msg);
    else
        container_file_fail(call, err);
}

// -- the route

static void handle_watch(struct call *call)
{
    static const struct watch_ops ops = {
        .begun = on_begun, .change = on_change, .over = on_over, .fail = on_fail};
    const struct container_watch_body *b = call->body.values;
    auto_buf names;
    struct container_watch *w = calloc(1, sizeof *w);
    if (w == NULL)
        abort();
    call->state = w;
    w->watch.ops = &ops;
    w->watch.recursive = !b->recursive.given || b->recursive.value;
    if (container_watch_read(call, &w->watch.file, &w->filter) < 0 ||
        read_events(call, &w->kinds) < 0)
        return;
    buf_init(&names, sizeof w->names - 1);
    filter_names(&w->filter, &names);
    if (names.failed == 0) { // else all of it is left to the filter
        memcpy(w->names, buf_str(&names), names.len + 1);
        w->watch.exclude = w->names;
    }
    files_wake(call, watch_start);
}

const struct route container_watch[] = {
    CONTAINER_ROUTE(HTTP_POST, "/api/watch", SUBJECT_WATCH, handle_watch, .body = &watch_schema),
};
const size_t n_container_watch = sizeof container_watch / sizeof *container_watch;
