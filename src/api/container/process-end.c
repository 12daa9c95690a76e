// SPDX-License-Identifier: Apache-2.0
// Ending processes: with the signal that is named, or else SIGTERM and, for those that do not heed
// it, SIGKILL after a while. It is answered when they have ended.
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/container/process.h"
#include "api/show.h"

enum { HEED_MS = 5000 };

struct signal_body {
    struct body_int signal;
};
static const struct field signal_fields[] = {
    FIELD("signal", FIELD_SIGNAL, offsetof(struct signal_body, signal), .min = 1, .max = 64),
};
const struct schema container_signal_body =
    SCHEMA("ContainerSignal", struct signal_body, signal_fields, .lenient = true);

struct ended {
    struct ending *all;
    struct process *p; // counted; NULL: it has ended
    struct process_watch *watch;
};

struct ending {
    struct call *call; // counted; NULL: over
    size_t n, left;
    struct ended *ends;
    bool is_all; // of kill-all
    uv_timer_t timer;
};

struct link { // call->state
    struct ending *ending;
};

// -- the end of it

static void closed(uv_handle_t *handle)
{
    struct ending *e = handle->data;
    free(e->ends);
    free(e);
}

static void let_go_one(struct ended *one)
{
    process_watch_free(one->watch);
    one->watch = NULL;
    if (one->p != NULL)
        process_unref(one->p);
    one->p = NULL;
}

static void let_go(struct ending *e)
{
    struct call *call = e->call;
    ((struct link *)call->state)->ending = NULL;
    e->call = NULL;
    call->stop = NULL;
    for (size_t i = 0; i < e->n; i++)
        let_go_one(&e->ends[i]);
    uv_close((uv_handle_t *)&e->timer, closed);
    call_unref(call);
}

static void stop(struct call *call)
{
    struct link *link = call->state;
    if (link->ending != NULL)
        let_go(link->ending);
}

static void reply_one(struct call *call)
{
    struct container_answer a;
    container_begin(&a, true);
    show_str(&a.json, "processId", call->param[1]);
    container_end(call, &a);
}

static void finish(struct ending *e)
{
    struct container_answer a;
    if (e->is_all) {
        container_begin(&a, true);
        show_int(&a.json, "cleanedCount", (int64_t)e->n);
        container_end(e->call, &a);
    } else {
        reply_one(e->call);
    }
    let_go(e);
}

// -- waiting

static void on_news(void *data, struct process *p)
{
    struct ended *one = data;
    struct ending *e = one->all;
    if (one->p == NULL || (p != NULL && process_row(p)->reason == END_NONE))
        return;
    process_end_rest(one->p); // what it has given away, too
    let_go_one(one);
    if (--e->left == 0)
        finish(e);
}

static void on_late(uv_timer_t *timer)
{
    struct err ignored;
    struct ending *e = timer->data;
    for (size_t i = 0; i < e->n; i++) {
        if (e->ends[i].p != NULL)
            (void)process_signal(e->ends[i].p, SIGKILL, &ignored);
    }
}

static void add(struct ending *e, struct process *p)
{
    e->ends = reallocarray(e->ends, e->n + 1, sizeof *e->ends);
    if (e->ends == NULL)
        abort();
    e->ends[e->n++] = (struct ended){.p = process_ref(p)};
}

// Terminals are sessions', and not in the list of processes either.
static void add_running(void *data, struct process *p)
{
    if (process_row(p)->tty == NULL && process_row(p)->reason == END_NONE)
        add(data, p);
}

static struct ending *ending_new(struct call *call, bool is_all)
{
    struct ending *e = calloc(1, sizeof *e);
    struct link *link = calloc(1, sizeof *link);
    if (e == NULL || link == NULL)
        abort();
    e->call = call_ref(call);
    e->is_all = is_all;
    (void)uv_timer_init(call->api->loop, &e->timer);
    e->timer.data = e;
    link->ending = e;
    call->state = link;
    call->stop = stop;
    return e;
}

// All that were added get the signal, and are waited for.
static void begin(struct ending *e, int signal)
{
    struct err ignored;
    e->left = e->n;
    if (e->n == 0) {
        finish(e);
        return;
    }
    for (size_t i = 0; i < e->n; i++) {
        struct ended *one = &e->ends[i];
        one->all = e;
        one->watch = process_watch(one->p, on_news, one);
        (void)process_signal(one->p, signal, &ignored); // one that has just ended is told of
    }
    if (signal != SIGKILL)
        (void)uv_timer_start(&e->timer, on_late, HEED_MS, 0);
}

// -- the routes

static int read_signal(struct call *call, int *ret)
{
    struct err err = {0};
    int64_t number = 0;
    const struct signal_body *b = call->body.values;
    const char *text = call_query(call, "signal");
    if (text != NULL && body_signal(text, &number, &err) < 0) {
        container_invalid(call, "signal", "%s", err.msg);
        return -1;
    }
    if (text == NULL && b != NULL && b->signal.given)
        number = b->signal.value;
    *ret = (int)number;
    return 0;
}

void container_process_kill(struct call *call)
{
    int signal;
    struct err err = {0};
    struct process *p = container_process(call);
    if (p == NULL || read_signal(call, &signal) < 0)
        return;
    if (process_row(p)->reason != END_NONE) { // as theirs has it
        container_fail(call, CONTAINER_COMMAND_NOT_FOUND, NULL, "process '%.128s' has ended",
                       call->param[1]);
        return;
    }
    if (signal != 0 && signal != SIGKILL) { // what it does about it is its own business
        if (process_signal(p, signal, &err) < 0)
            call_fail(call, &err);
        else
            reply_one(call);
        return;
    }
    struct ending *e = ending_new(call, /*is_all=*/false);
    add(e, p);
    begin(e, signal != 0 ? signal : SIGTERM);
}

void container_process_kill_all(struct call *call)
{
    struct err err = {0};
    struct ending *e = ending_new(call, /*is_all=*/true);
    if (process_each(call->sandbox, add_running, e, &err) < 0) {
        call_fail(call, &err);
        let_go(e);
        return;
    }
    begin(e, SIGTERM);
}
