// SPDX-License-Identifier: Apache-2.0
// A thread takes the first question of the first line and puts that line at the end. What it found
// goes into a list that the loop is woken for. libuv's own threads are not used: half of its four
// may resolve at a time, and everything else waits behind them.
#include "egress/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egress/policy.h"

enum {
    THREADS =
        32, // made when they are needed: a name server that does not answer holds one for long
    LINE_MAX_WAITING = 256, // as many as a sandbox has connections
    LINE_MAX_RUNNING = 2,   // of the threads
    STACK = 256 * 1024,
};

struct resolve {
    struct resolve *next;
    struct resolve_line *line;
    bool cancelled;
    resolve_fn fn;
    void *data;
    char name[POLICY_HOST_MAX];
    int gai; // what getaddrinfo said
    struct addresses found;
};

struct resolve_line {
    struct resolver *resolver;
    struct resolve_line *next; // in the resolver's circle of those with questions
    struct resolve *first, *last;
    unsigned waiting, running;
    bool in_circle;
    bool left; // nobody's any more, but for threads that ask for it
};

struct resolver {
    pthread_mutex_t lock; // for all below, and for the lines
    pthread_cond_t wake;
    struct resolve_line *first, *last;
    struct resolve *done;
    unsigned n_threads, n_idle;
    unsigned asked;      // and not answered: the loop lives on because of these. Its thread's alone
    bool ending, closed; // closed: the loop is done with it, and the last thread frees it
    uv_async_t async;
};

// --- threads

static void circle_push(struct resolver *r, struct resolve_line *line)
{
    if (line->in_circle || line->first == NULL || line->running >= LINE_MAX_RUNNING)
        return;
    line->in_circle = true;
    line->next = NULL;
    *(r->first != NULL ? &r->last->next : &r->first) = line;
    r->last = line;
}

static void circle_remove(struct resolver *r, struct resolve_line *line)
{
    struct resolve_line *before = NULL;
    for (struct resolve_line *l = r->first; l != NULL; before = l, l = l->next) {
        if (l != line)
            continue;
        *(before != NULL ? &before->next : &r->first) = line->next;
        if (r->last == line)
            r->last = before;
        line->in_circle = false;
        return;
    }
}

static struct resolve *next_question(struct resolver *r)
{
    struct resolve_line *line = r->first;
    if (line == NULL)
        return NULL;
    struct resolve *q = line->first;
    circle_remove(r, line);
    line->first = q->next;
    q->next = NULL;
    line->waiting--;
    line->running++;
    circle_push(r, line);
    return q;
}

static void ask(struct resolve *q)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list = NULL;
    q->gai = getaddrinfo(q->name, NULL, &hints, &list);
    for (struct addrinfo *a = list; a != NULL && q->found.n < RESOLVE_ADDRESSES_MAX;
         a = a->ai_next) {
        if (a->ai_addrlen <= sizeof q->found.list[0])
            (void)memcpy(&q->found.list[q->found.n++], a->ai_addr, a->ai_addrlen);
    }
    if (list != NULL)
        freeaddrinfo(list);
}

static void free_resolver(struct resolver *r)
{
    (void)pthread_mutex_destroy(&r->lock);
    (void)pthread_cond_destroy(&r->wake);
    while (r->done != NULL) {
        struct resolve *q = r->done;
        r->done = q->next;
        q->line->running--;
        if (q->line->left && q->line->running == 0)
            free(q->line);
        free(q);
    }
    free(r);
}

static void *thread_main(void *arg);

// Signals are the loop's thread's.
static void add_thread(struct resolver *r)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    if (r->n_threads == THREADS)
        return;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, STACK);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, thread_main, r) == 0)
        r->n_threads++;
    (void)pthread_attr_destroy(&attr);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// Somebody for the questions that wait. Who idles may have been called before and not have come
// yet: whoever takes a question and leaves others calls the next.
static void call_somebody(struct resolver *r)
{
    if (r->first == NULL)
        return;
    if (r->n_idle > 0)
        (void)pthread_cond_signal(&r->wake);
    else
        add_thread(r);
}

static void *thread_main(void *arg)
{
    struct resolver *r = arg;
    (void)pthread_mutex_lock(&r->lock);
    while (!r->ending) {
        struct resolve *q = next_question(r);
        if (q == NULL) {
            r->n_idle++;
            (void)pthread_cond_wait(&r->wake, &r->lock);
            r->n_idle--;
            continue;
        }
        call_somebody(r);
        (void)pthread_mutex_unlock(&r->lock);
        ask(q);
        (void)pthread_mutex_lock(&r->lock);
        q->next = r->done;
        r->done = q;
        if (!r->ending)
            (void)uv_async_send(&r->async);
    }
    bool last = --r->n_threads == 0 && r->closed;
    (void)pthread_mutex_unlock(&r->lock);
    if (last)
        free_resolver(r);
    return NULL;
}

// --- the loop

static const char *why(int gai)
{
    switch (gai) {
    case EAI_NONAME:
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
        return "there is no such name";
    case EAI_AGAIN:
        return "the name server does not answer";
    default:
        return gai_strerror(gai);
    }
}

// A thread is done with it. True: its line has nobody any more.
static bool settle(struct resolver *r, struct resolve *q)
{
    struct resolve_line *line = q->line;
    (void)pthread_mutex_lock(&r->lock);
    line->running--;
    bool left = line->left && line->running == 0;
    circle_push(r, line);
    call_somebody(r);
    (void)pthread_mutex_unlock(&r->lock);
    return left;
}

static void count(struct resolver *r, int by)
{
    r->asked += (unsigned)by;
    if (r->asked == 0)
        uv_unref((uv_handle_t *)&r->async);
    else
        uv_ref((uv_handle_t *)&r->async);
}

static void answer(struct resolver *r, struct resolve *q)
{
    struct err err = {0};
    count(r, -1);
    if (settle(r, q))
        free(q->line);
    if (q->cancelled) {
        free(q);
        return;
    }
    if (q->gai != 0 || q->found.n == 0) {
        (void)err_set(&err, ERR_UNAVAILABLE, "%s", why(q->gai != 0 ? q->gai : EAI_NODATA));
        q->fn(q->data, NULL, &err);
    } else {
        q->fn(q->data, &q->found, NULL);
    }
    free(q);
}

static void on_async(uv_async_t *async)
{
    struct resolver *r = async->data;
    for (;;) {
        (void)pthread_mutex_lock(&r->lock);
        struct resolve *q = r->done;
        if (q != NULL)
            r->done = q->next;
        (void)pthread_mutex_unlock(&r->lock);
        if (q == NULL)
            return;
        answer(r, q);
    }
}

int resolver_open(uv_loop_t *loop, struct resolver **ret, struct err *err)
{
    struct resolver *r = calloc(1, sizeof *r);
    if (r == NULL)
        abort();
    int e = uv_async_init(loop, &r->async, on_async);
    if (e < 0) {
        free(r);
        return err_sys(err, -e, "resolver");
    }
    uv_unref((uv_handle_t *)&r->async);
    r->async.data = r;
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->wake, NULL);
    *ret = r;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct resolver *r = handle->data;
    (void)pthread_mutex_lock(&r->lock);
    r->closed = true;
    bool last = r->n_threads == 0;
    (void)pthread_mutex_unlock(&r->lock);
    if (last)
        free_resolver(r);
}

void resolver_close(struct resolver *r)
{
    if (r == NULL)
        return;
    (void)pthread_mutex_lock(&r->lock);
    r->ending = true;
    (void)pthread_cond_broadcast(&r->wake);
    (void)pthread_mutex_unlock(&r->lock);
    uv_close((uv_handle_t *)&r->async, on_closed);
}

struct resolve_line *resolve_line_new(struct resolver *r)
{
    struct resolve_line *line = calloc(1, sizeof *line);
    if (line == NULL)
        abort();
    line->resolver = r;
    return line;
}

void resolve_line_free(struct resolve_line *line)
{
    if (line == NULL)
        return;
    struct resolver *r = line->resolver;
    (void)pthread_mutex_lock(&r->lock);
    circle_remove(r, line);
    line->left = true;
    bool unused = line->running == 0;
    (void)pthread_mutex_unlock(&r->lock);
    if (unused)
        free(line);
}

struct resolve *resolve_start(struct resolve_line *line, const char *name, resolve_fn fn,
                              void *data)
{
    struct resolver *r = line->resolver;
    if (line->waiting >= LINE_MAX_WAITING)
        return NULL;
    struct resolve *q = calloc(1, sizeof *q);
    if (q == NULL)
        abort();
    *q = (struct resolve){.line = line, .fn = fn, .data = data};
    (void)snprintf(q->name, sizeof q->name, "%s", name);
    (void)pthread_mutex_lock(&r->lock);
    *(line->first != NULL ? &line->last->next : &line->first) = q;
    line->last = q;
    line->waiting++;
    circle_push(r, line);
    call_somebody(r);
    (void)pthread_mutex_unlock(&r->lock);
    count(r, 1);
    return q;
}

// Takes it out of the line, if it still stands there.
static bool leave_line(struct resolve *q)
{
    struct resolve_line *line = q->line;
    struct resolve *before = NULL;
    for (struct resolve *w = line->first; w != NULL; before = w, w = w->next) {
        if (w != q)
            continue;
        *(before != NULL ? &before->next : &line->first) = q->next;
        if (line->last == q)
            line->last = before;
        line->waiting--;
        if (line->first == NULL)
            circle_remove(line->resolver, line);
        return true;
    }
    return false;
}

// One that a thread has goes on, and counts for its line: else a box could have all threads by
// asking and leaving.
void resolve_cancel(struct resolve *q)
{
    struct resolver *r = q->line->resolver;
    (void)pthread_mutex_lock(&r->lock);
    bool waiting = leave_line(q);
    (void)pthread_mutex_unlock(&r->lock);
    q->cancelled = true;
    if (!waiting)
        return;
    count(r, -1);
    free(q);
}
