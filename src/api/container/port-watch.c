// SPDX-License-Identifier: Apache-2.0
// Waiting for a port: something in the sandbox listens on it, or answers HTTP with a status that is
// wanted. Told as events: watching, then ready, process_exited or error.
#include <stdlib.h>
#include <string.h>

#include "api/container/exec.h"
#include "api/container/port-probe.h"
#include "api/container/port-status.h"
#include "api/container/process.h"
#include "api/show.h"

enum {
    EVERY_MS = 500,
    EVERY_MIN_MS = 100,
    EVERY_MAX_MS = 10000,
    STATUS_MIN = 200,
    STATUS_MAX = 399,
};

struct watch_body {
    struct body_int port, min, max, every;
    const char *mode, *path, *process;
};
#define AT(member) offsetof(struct watch_body, member)
static const struct field fields[] = {
    FIELD("port", FIELD_INT, AT(port), .required = true, .min = 1, .max = UINT16_MAX),
    FIELD("mode", FIELD_STRING, AT(mode), .max = 8),
    FIELD("path", FIELD_STRING, AT(path), .max = PROBE_PATH_MAX - 1),
    FIELD("statusMin", FIELD_INT, AT(min), .min = 100, .max = 999),
    FIELD("statusMax", FIELD_INT, AT(max), .min = 100, .max = 999),
    FIELD("processId", FIELD_STRING, AT(process), .max = EDGE_NAME_MAX),
    FIELD("interval", FIELD_INT, AT(every)),
};
static const struct schema watch_body =
    SCHEMA("ContainerPortWatch", struct watch_body, fields, .lenient = true);

struct watch {         // of one call
    struct call *call; // counted; NULL: over
    uint16_t port;
    const char *path; // NULL: it need only listen
    unsigned min, max;
    uint64_t every_ms;
    struct process *p; // counted; NULL: of no process
    struct process_watch *news;
    struct probe *probe; // that looks now
    uv_timer_t timer;
};

struct link { // call->state
    struct watch *watch;
};

// -- the end

static void closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void let_go(struct watch *w)
{
    struct call *call = w->call;
    ((struct link *)call->state)->watch = NULL;
    w->call = NULL;
    call->stop = NULL;
    process_watch_free(w->news);
    if (w->p != NULL)
        process_unref(w->p);
    if (w->probe != NULL)
        probe_cancel(w->probe);
    uv_close((uv_handle_t *)&w->timer, closed);
    sandbox_idle(call->sandbox);
    call_unref(call);
}

static void begin_event(struct container_answer *e, const char *type, const struct watch *w)
{
    container_event_begin(e, type);
    show_int(&e->json, "port", w->port);
}

static void finish(struct watch *w, struct container_answer *e)
{
    struct call *call = call_ref(w->call);
    if (e != NULL)
        container_event_send(call, e);
    let_go(w);
    stream_end(call);
    call_unref(call);
}

static void send_error(struct watch *w, const char *why)
{
    struct container_answer e;
    begin_event(&e, "error", w);
    show_str(&e.json, "error", why);
    container_event_send(w->call, &e);
}

static void fail(struct watch *w, const char *why)
{
    send_error(w, why);
    finish(w, NULL);
}

static void stop(struct call *call)
{
    struct link *link = call->state;
    if (link->watch == NULL)
        return;
    if (call->req != NULL)
        send_error(link->watch, "the server ended this stream");
    let_go(link->watch);
}

static bool has_exited(struct watch *w)
{
    struct container_answer e;
    if (w->p == NULL || process_row(w->p)->reason == END_NONE)
        return false;
    struct job_end end = show_end_of(process_row(w->p));
    begin_event(&e, "process_exited", w);
    show_int(&e.json, "exitCode", show_exit_code(&end));
    finish(w, &e);
    return true;
}

// -- looking

static void look(struct watch *w);

static void on_time(uv_timer_t *timer)
{
    look(timer->data);
}

static void on_probe(void *data, const struct probe_result *r)
{
    struct watch *w = data;
    struct container_answer e;
    w->probe = NULL;
    if (r->err != NULL) {
        fail(w, r->err->msg);
        return;
    }
    bool ready = w->path == NULL ? r->listens : r->status >= w->min && r->status <= w->max;
    if (!ready) {
        (void)uv_timer_start(&w->timer, on_time, w->every_ms, 0);
        return;
    }
    begin_event(&e, "ready", w);
    if (w->path != NULL)
        show_int(&e.json, "statusCode", r->status);
    finish(w, &e);
}

static void look(struct watch *w)
{
    w->probe = probe_new(w->call->api->loop, w->call->sandbox, w->path, on_probe, w);
    probe_begin(w->probe, w->port);
}

static void on_news(void *data, struct process *p)
{
    struct watch *w = data;
    if (p == NULL)
        fail(w, "the process was deleted");
    else
        (void)has_exited(w);
}

// -- the route

static int check(struct call *call, const struct watch_body *b)
{
    if (b->mode != NULL && strcmp(b->mode, "http") != 0 && strcmp(b->mode, "tcp") != 0)
        container_invalid(call, "mode", "must be http or tcp");
    else if (b->path != NULL && !probe_path_valid(b->path))
        container_invalid(call, "path", "must begin with '/', and be printable without spaces");
    else if (b->min.given && b->max.given && b->min.value > b->max.value)
        container_invalid(call, "statusMin", "must not be above statusMax");
    else
        return 0;
    return -1;
}

static uint64_t clamp_ms(const struct body_int *every)
{
    int64_t ms = every->given ? every->value : EVERY_MS;
    return (uint64_t)(ms < EVERY_MIN_MS ? EVERY_MIN_MS : ms > EVERY_MAX_MS ? EVERY_MAX_MS : ms);
}

static struct watch *watch_new(struct call *call, struct process *p)
{
    const struct watch_body *b = call->body.values;
    bool is_http = b->mode == NULL || strcmp(b->mode, "http") == 0;
    struct watch *w = calloc(1, sizeof *w);
    struct link *link = calloc(1, sizeof *link);
    if (w == NULL || link == NULL)
        abort();
    *w = (struct watch){
        .call = call_ref(call),
        .port = (uint16_t)b->port.value,
        .path = !is_http          ? NULL
                : b->path != NULL ? b->path
                                  : "/",
        .min = b->min.given ? (unsigned)b->min.value : STATUS_MIN,
        .max = b->max.given ? (unsigned)b->max.value : STATUS_MAX,
        .every_ms = clamp_ms(&b->every),
        .p = p != NULL ? process_ref(p) : NULL,
    };
    (void)uv_timer_init(call->api->loop, &w->timer);
    w->timer.data = w;
    link->watch = w;
    call->state = link;
    call->stop = stop;
    sandbox_busy(call->sandbox);
    return w;
}

static void begin(struct call *call)
{
    struct err err = {0};
    struct container_answer e;
    const struct watch_body *b = call->body.values;
    struct process *p = b->process != NULL ? process_find(call->sandbox, b->process, &err) : NULL;
    if (b->process != NULL && p == NULL) {
        call_fail(call, &err);
        return;
    }
    struct watch *w = watch_new(call, p);
    stream_begin_sse(call);
    begin_event(&e, "watching", w);
    container_event_send(call, &e);
    if (has_exited(w))
        return;
    if (p != NULL)
        w->news = process_watch(p, on_news, w);
    look(w);
}

static void on_awake(void *data, struct sandbox *s, bool created, const struct err *err)
{
    (void)s;
    (void)created;
    call_go_on(data, err, begin);
}

static void handle_port_watch(struct call *call)
{
    if (check(call, call->body.values) < 0)
        return;
    sandbox_wake(call->sandbox, on_awake, call_ref(call));
}

const struct route container_port_watch[] = {
    CONTAINER_ROUTE(HTTP_POST, "/api/port-watch", SUBJECT_PORT, handle_port_watch, &watch_body),
};
const size_t n_container_port_watch = sizeof container_port_watch / sizeof *container_port_watch;
