// SPDX-License-Identifier: Apache-2.0
#include "monitor/fetch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/gather.h"

enum {
    ANSWER_MS = 5000,   // for one request; a server that takes longer is as good as away
    DESTROY_MS = 60000, // processes are given time to end
    JOIN_MS = 300,
    LIMITED_MS = 15000, // until the next look, when the server says that we ask too much
    RATE_LIMITED = 429,
};

struct orders {
    char look[132];
    char destroy[132];
    bool now, pause;
};

struct fetch {
    struct remote remote; // a copy; its words belong to whoever started us
    int64_t interval_ms;
    pthread_t thread;
    int ready_fd;
    int timer_fd; // ends the request that runs: at its deadline, or at once when we stop
    int64_t answer_ms;
    atomic_bool stopping;
    // What both threads touch, under the lock.
    pthread_mutex_t lock;
    pthread_cond_t told;
    struct orders orders;
    struct report *newest;
    // The thread's own.
    struct gathered gathered;
    struct view last; // what the next one is compared with
    struct detail detail;
    char detail_id[132];
    size_t from; // see gather()
};

void report_free(struct report *report)
{
    if (report == NULL)
        return;
    view_done(&report->view);
    free(report);
}

// -- one request: a deadline, and an end when the program ends

static void set_timer(const struct fetch *f, int64_t ms)
{
    const struct itimerspec when = {
        .it_value = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 + 1}
    };
    (void)timerfd_settime(f->timer_fd, 0, &when, NULL);
}

static void before_request(void *data)
{
    const struct fetch *f = data;
    set_timer(f, f->answer_ms);
    if (atomic_load(&f->stopping)) // which may have been said just before
        set_timer(f, 0);
}

static int on_timer(void *data, struct err *err)
{
    const struct fetch *f = data;
    return err_set(err, ERR_UNAVAILABLE, "the server at %s did not answer within %d s",
                   f->remote.place.text, (int)(f->answer_ms / 1000));
}

static struct gather_way way_of(struct fetch *f, int64_t answer_ms)
{
    f->answer_ms = answer_ms;
    return (struct gather_way){
        .remote = &f->remote,
        .wake_fd = f->timer_fd,
        .on_wake = on_timer,
        .before = before_request,
        .data = f,
    };
}

// -- a report

static void copy_view(struct view *ret, const struct view *from)
{
    *ret = *from;
    ret->sandboxes = calloc(from->n_sandboxes + 1, sizeof *ret->sandboxes);
    ret->requests = calloc(from->n_requests + 1, sizeof *ret->requests);
    if (ret->sandboxes == NULL || ret->requests == NULL)
        abort();
    memcpy(ret->sandboxes, from->sandboxes, from->n_sandboxes * sizeof *ret->sandboxes);
    memcpy(ret->requests, from->requests, from->n_requests * sizeof *ret->requests);
}

static void destroy(struct fetch *f, const char *id, struct report *report)
{
    struct err err = {0};
    auto_answer answer;
    auto_buf target;
    const struct gather_way way = way_of(f, DESTROY_MS);
    gather_answer_init(&answer);
    buf_init(&target, REMOTE_TARGET_MAX);
    remote_target(&target, "sandbox", id);
    if (gather_ask(&way, "DELETE", buf_str(&target), &answer, &err) == 0)
        (void)snprintf(report->note, sizeof report->note, "'%s' is destroyed", id);
    else
        (void)snprintf(report->note, sizeof report->note, "'%.60s': %.150s", id, err.msg);
}

static int look(struct fetch *f, const char *id, const struct gather_way *way,
                struct report *report, struct err *err)
{
    if (strcmp(id, f->detail_id) != 0)
        memset(&f->detail, 0, sizeof f->detail);
    (void)snprintf(f->detail_id, sizeof f->detail_id, "%s", id);
    if (id[0] == '\0')
        return 0;
    if (detail_ask(&f->detail, id, way, err) < 0)
        return -1;
    report->has_detail = true;
    report->detail = f->detail;
    return 0;
}

static void ask_all(struct fetch *f, const struct orders *orders, struct report *report)
{
    struct err err = {0};
    struct view view;
    const struct gather_way way = way_of(f, ANSWER_MS);
    if (gather(&f->gathered, &way, f->from, &err) < 0) {
        (void)snprintf(report->trouble, sizeof report->trouble, "%s", err.msg);
        return;
    }
    f->from += GATHER_USAGE;
    view_make(&view, &f->gathered, &f->last);
    view_done(&f->last);
    f->last = view;
    report->connected = true;
    copy_view(&report->view, &view);
    if (look(f, orders->look, &way, report, &err) < 0)
        (void)snprintf(report->trouble, sizeof report->trouble, "%s", err.msg);
}

static struct report *make_report(struct fetch *f, const struct orders *orders)
{
    struct report *report = calloc(1, sizeof *report);
    if (report == NULL)
        abort();
    if (orders->destroy[0] != '\0')
        destroy(f, orders->destroy, report);
    ask_all(f, orders, report);
    return report;
}

// -- the thread

// A note that nobody has read yet goes on with the next report.
static void publish(struct fetch *f, struct report *report)
{
    const uint64_t one = 1;
    (void)pthread_mutex_lock(&f->lock);
    if (f->newest != NULL && report->note[0] == '\0')
        memcpy(report->note, f->newest->note, sizeof report->note);
    report_free(f->newest);
    f->newest = report;
    (void)pthread_mutex_unlock(&f->lock);
    (void)!write(f->ready_fd, &one, sizeof one);
}

static struct timespec after(int64_t ms)
{
    struct timespec when;
    (void)clock_gettime(CLOCK_MONOTONIC, &when);
    when.tv_sec += ms / 1000;
    when.tv_nsec += ms % 1000 * 1000000;
    if (when.tv_nsec >= 1000000000) {
        when.tv_sec++;
        when.tv_nsec -= 1000000000;
    }
    return when;
}

// Waits until the interval has passed, or something is to be done; then takes what that is.
static struct orders wait_for_orders(struct fetch *f)
{
    bool limited = f->remote.status == RATE_LIMITED && f->interval_ms < LIMITED_MS;
    const struct timespec until = after(limited ? LIMITED_MS : f->interval_ms);
    int r = 0;
    (void)pthread_mutex_lock(&f->lock);
    while (!atomic_load(&f->stopping) && !f->orders.now && (f->orders.pause || r != ETIMEDOUT)) {
        if (f->orders.pause)
            r = pthread_cond_wait(&f->told, &f->lock);
        else
            r = pthread_cond_timedwait(&f->told, &f->lock, &until);
    }
    struct orders orders = f->orders;
    f->orders.now = false;
    f->orders.destroy[0] = '\0';
    (void)pthread_mutex_unlock(&f->lock);
    return orders;
}

static void *run(void *data)
{
    struct fetch *f = data;
    struct orders orders = {.look = ""};
    while (!atomic_load(&f->stopping)) {
        publish(f, make_report(f, &orders));
        orders = wait_for_orders(f);
    }
    return NULL;
}

// -- the other side

static int open_files(struct fetch *f, struct err *err)
{
    f->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    f->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return f->ready_fd < 0 || f->timer_fd < 0 ? err_sys(err, errno, "make a timer") : 0;
}

static void release(struct fetch *f)
{
    fd_close(f->ready_fd);
    fd_close(f->timer_fd);
    gather_done(&f->gathered);
    view_done(&f->last);
    report_free(f->newest);
    (void)pthread_cond_destroy(&f->told);
    (void)pthread_mutex_destroy(&f->lock);
    explicit_bzero(&f->remote, sizeof f->remote);
    free(f);
}

// Signals are the first thread's, all of them.
static int start_thread(struct fetch *f)
{
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int r = pthread_create(&f->thread, NULL, run, f);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return r;
}

struct fetch *fetch_start(const struct remote *remote, int64_t interval_ms, struct err *err)
{
    struct fetch *f = calloc(1, sizeof *f);
    pthread_condattr_t attributes;
    if (f == NULL)
        abort();
    f->remote = *remote;
    f->interval_ms = interval_ms;
    gather_init(&f->gathered);
    (void)pthread_mutex_init(&f->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&f->told, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    int r = open_files(f, err);
    if (r == 0 && (r = start_thread(f)) != 0)
        (void)err_sys(err, r, "start a thread");
    if (r == 0)
        return f;
    release(f);
    return NULL;
}

void fetch_stop(struct fetch *f)
{
    struct timespec until;
    (void)pthread_mutex_lock(&f->lock);
    atomic_store(&f->stopping, true);
    (void)pthread_cond_signal(&f->told);
    (void)pthread_mutex_unlock(&f->lock);
    set_timer(f, 0);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)JOIN_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    // It may wait for a name to be resolved, or a connection: the program's end ends that.
    if (pthread_timedjoin_np(f->thread, NULL, &until) == 0)
        release(f);
}

int fetch_fd(const struct fetch *f)
{
    return f->ready_fd;
}

struct report *fetch_take(struct fetch *f)
{
    uint64_t n;
    (void)!read(f->ready_fd, &n, sizeof n);
    (void)pthread_mutex_lock(&f->lock);
    struct report *report = f->newest;
    f->newest = NULL;
    (void)pthread_mutex_unlock(&f->lock);
    return report;
}

void fetch_look(struct fetch *f, const char *id)
{
    (void)pthread_mutex_lock(&f->lock);
    (void)snprintf(f->orders.look, sizeof f->orders.look, "%s", id);
    f->orders.now = true;
    (void)pthread_cond_signal(&f->told);
    (void)pthread_mutex_unlock(&f->lock);
}

void fetch_destroy(struct fetch *f, const char *id)
{
    (void)pthread_mutex_lock(&f->lock);
    (void)snprintf(f->orders.destroy, sizeof f->orders.destroy, "%s", id);
    f->orders.now = true;
    (void)pthread_cond_signal(&f->told);
    (void)pthread_mutex_unlock(&f->lock);
}

void fetch_now(struct fetch *f)
{
    (void)pthread_mutex_lock(&f->lock);
    f->orders.now = true;
    (void)pthread_cond_signal(&f->told);
    (void)pthread_mutex_unlock(&f->lock);
}

void fetch_pause(struct fetch *f, bool pause)
{
    (void)pthread_mutex_lock(&f->lock);
    f->orders.pause = pause;
    (void)pthread_cond_signal(&f->told);
    (void)pthread_mutex_unlock(&f->lock);
}
