// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "sandbox/sandbox-internal.h"

enum { KILL_AGAIN_MS = 50 };

static const struct job_streams no_streams = {-1, -1, -1, -1, -1};

static struct job *job_new(struct box_link *box, const struct job_events *events, void *data)
{
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL)
        abort();
    job->box = box;
    job->streams = no_streams;
    job->events = events;
    job->data = data;
    return job;
}

// --- reading what nobody wants, so that a program without an owner is not stopped by a full pipe

struct drain {
    uv_poll_t poll;
    int fd;
    LIST_ENTRY(drain) link;
};

static void drain_closed(uv_handle_t *handle)
{
    struct drain *drain = handle->data;
    fd_close(drain->fd);
    free(drain);
}

static void drain_end(struct drain *drain)
{
    LIST_REMOVE(drain, link);
    uv_close((uv_handle_t *)&drain->poll, drain_closed);
}

void drains_end(struct fleet *fleet)
{
    while (!LIST_EMPTY(&fleet->drains))
        drain_end(LIST_FIRST(&fleet->drains));
}

static void drain_readable(uv_poll_t *poll, int status, int events)
{
    enum { AT_ONCE = 16 };
    static char nowhere[64 * 1024];
    struct drain *drain = poll->data;
    ssize_t n = 1;
    (void)events;
    for (int i = 0; i < AT_ONCE && n > 0; i++)
        n = read(drain->fd, nowhere, sizeof nowhere);
    if (status < 0 || n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        drain_end(drain);
}

static void drain_start(struct fleet *fleet, int fd)
{
    struct drain *drain = calloc(1, sizeof *drain);
    if (drain == NULL)
        abort();
    drain->fd = fd;
    drain->poll.data = drain;
    if (uv_poll_init(fleet->config.loop, &drain->poll, fd) < 0) {
        fd_close(fd);
        free(drain);
        return;
    }
    LIST_INSERT_HEAD(&fleet->drains, drain, link);
    (void)uv_poll_start(&drain->poll, UV_READABLE, drain_readable);
}

// --- deadlines

static void timer_closed(uv_handle_t *handle)
{
    free(handle);
}

static void timer_stop(struct job *job)
{
    if (job->timer == NULL)
        return;
    job->timer->data = NULL;
    uv_close((uv_handle_t *)job->timer, timer_closed);
    job->timer = NULL;
}

static void on_deadline(uv_timer_t *timer)
{
    struct job *job = timer->data;
    if (job == NULL)
        return;
    job->timed_out = job->timed_out || !job->killed;
    timer_stop(job);
    job_kill(job);
}

static void start_timer(struct job *job, uv_timer_cb fn, int64_t ms)
{
    timer_stop(job);
    job->timer = calloc(1, sizeof *job->timer);
    if (job->timer == NULL)
        abort();
    job->timer->data = job;
    uv_loop_t *loop = box_link_sandbox(job->box)->fleet->config.loop;
    uv_update_time(loop); // the loop's own clock stands still while it works
    (void)uv_timer_init(loop, job->timer);
    (void)uv_timer_start(job->timer, fn, (uint64_t)ms, 0);
}

void job_set_deadline(struct job *job, int64_t timeout_ms)
{
    timer_stop(job);
    job->deadline_ms = timeout_ms > 0 ? db_now_ms() + timeout_ms : 0;
    if (timeout_ms > 0 && job->box != NULL)
        start_timer(job, on_deadline, timeout_ms);
}

// --- starting

struct job *job_start(struct sandbox *s, const struct exec_spec *spec, int64_t timeout_ms,
                      const struct job_events *events, void *data, struct err *err)
{
    if (s->box == NULL || s->state != STATE_RUNNING) {
        (void)err_set(err, ERR_UNAVAILABLE, "the sandbox is not running");
        return NULL;
    }
    struct job *job = job_new(s->box, events, data);
    job->id = box_link_next_id(s->box);
    (void)snprintf(job->program, sizeof job->program, "%.60s", spec->argv[0]);
    (void)snprintf(job->cwd, sizeof job->cwd, "%.120s", spec->cwd);
    job_set_deadline(job, timeout_ms);
    struct exec_spec mine = *spec;
    mine.flags |= GUEST_EXEC_KEEP;
    job->keeps_exit = (mine.flags & GUEST_EXEC_KEEP_EXIT) != 0;
    mine.tag = (uint64_t)job->deadline_ms;
    if (guest_send_exec(box_link_guest(s->box), job->id, &mine, err) < 0) {
        timer_stop(job);
        free(job);
        if (err->sys_errno == EAGAIN)
            (void)err_set(err, ERR_UNAVAILABLE, "the box has too much to do");
        else if (err->sys_errno == EPIPE || err->sys_errno == ECONNRESET)
            (void)err_set(err, ERR_UNAVAILABLE, "the box has just ended");
        return NULL;
    }
    box_link_add(s->box, job);
    s->fleet->counted.execs++;
    return job;
}

static void take_stream(int *from, int *to)
{
    if (*from < 0)
        return;
    *to = *from;
    *from = -1;
    (void)fd_set_nonblock(*to, 1);
}

static void take_streams(struct job *job, struct guest_event *ev)
{
    take_stream(&ev->out, &job->streams.out);
    take_stream(&ev->err, &job->streams.err);
    take_stream(&ev->in, &job->streams.in);
    take_stream(&ev->control_in, &job->streams.control_in);
    take_stream(&ev->control_out, &job->streams.control_out);
}

static void close_streams(struct job *job)
{
    fd_close(job->streams.out);
    fd_close(job->streams.err);
    fd_close(job->streams.in);
    fd_close(job->streams.control_in);
    fd_close(job->streams.control_out);
    job->streams = no_streams;
}

void job_on_started(struct job *job, struct guest_event *ev)
{
    job->state = JOB_RUNNING;
    job->pid = ev->msg.started.pid;
    take_streams(job, ev);
    if (job->killed) // before it had started
        job_kill(job);
    if (job->events != NULL)
        job->events->started(job->data, job);
    else
        job_free(job);
}

struct job *job_new_asked(struct sandbox *s, uint32_t id, const struct job_events *events,
                          void *data)
{
    struct job *job = job_new(s->box, events, data);
    job->id = id;
    job->keeps_exit = true; // as all that come this way
    box_link_add(s->box, job);
    return job;
}

void job_park(struct job *job)
{
    job->listed = false;
    job->is_parked = true;
}

void job_own(struct job *job, const struct job_events *events, void *data)
{
    job->is_parked = false;
    job->events = events;
    job->data = data;
}

// --- ending

static void job_delete(struct job *job)
{
    timer_stop(job);
    if (job->box != NULL)
        box_link_remove(job->box, job);
    close_streams(job);
    free(job);
}

void job_on_refused(struct job *job, const struct err *err)
{
    job->state = JOB_ENDED;
    timer_stop(job);
    if (job->events != NULL)
        job->events->failed(job->data, err);
    else
        job_delete(job);
}

void job_on_failed(struct job *job, const struct guest_failed *msg)
{
    struct err err = {0};
    (void)guest_failed_take(msg, job->program, job->cwd, &err);
    job_on_refused(job, &err);
}

static enum end_reason reason_of(const struct job *job, const struct guest_exited *msg)
{
    int killed = WIFSIGNALED(msg->status) && WTERMSIG(msg->status) == SIGKILL;
    if (job->timed_out)
        return END_TIMEOUT;
    if (killed && (msg->limits & GUEST_LIMIT_OOM))
        return END_OOM;
    if (job->killed)
        return END_KILLED;
    return WIFSIGNALED(msg->status) ? END_SIGNAL : END_EXIT;
}

void job_on_exited(struct job *job, const struct guest_exited *msg)
{
    struct job_end end = {
        .reason = reason_of(job, msg),
        .exit_code = WIFEXITED(msg->status) ? WEXITSTATUS(msg->status) : -1,
        .signal = WIFSIGNALED(msg->status) ? WTERMSIG(msg->status) : 0,
        .limits = msg->limits,
        .cpu_usec = msg->cpu_usec,
        .memory_peak = msg->rss_peak,
    };
    job->state = JOB_ENDED;
    timer_stop(job);
    if (job->events != NULL) {
        job->events->exited(job->data, &end);
        return;
    }
    if (job->keeps_exit)
        job_forget(job); // nobody else will
    job_delete(job);
}

void job_on_lost(struct job *job, enum end_reason reason, uint32_t limits)
{
    struct job_end end = {
        .reason = job->timed_out ? END_TIMEOUT : reason, .exit_code = -1, .limits = limits};
    job->state = JOB_ENDED;
    timer_stop(job);
    if (job->events != NULL)
        job->events->lost(job->data, &end);
    else
        job_delete(job);
}

// --- what an owner can do

uint32_t job_id(const struct job *job)
{
    return job->id;
}

int job_pid(const struct job *job)
{
    return job->pid;
}

struct guest_peer job_guest(const struct job *job)
{
    return job->box != NULL ? box_link_guest(job->box) : (struct guest_peer){.sock = -1};
}

struct job_streams *job_streams(struct job *job)
{
    return &job->streams;
}

int job_signal(struct job *job, int signal, struct err *err)
{
    if (job->box == NULL || job->state == JOB_ENDED)
        return err_set(err, ERR_CONFLICT, "it has ended");
    if (job->state == JOB_ASKED && signal != SIGKILL)
        return err_set(err, ERR_UNAVAILABLE, "it has not started yet");
    if (signal == SIGKILL)
        job->killed = true;
    return job->state == JOB_RUNNING
               ? guest_send_signal(box_link_guest(job->box), job->id, signal, err)
               : 0; // it is killed when it has started
}

// A guest that has not read what it was sent before is asked again.
void job_kill(struct job *job)
{
    struct err err = {0};
    if (job->state == JOB_ENDED || job->box == NULL || job_signal(job, SIGKILL, &err) == 0)
        return;
    if (err.sys_errno == EAGAIN)
        start_timer(job, on_deadline, KILL_AGAIN_MS);
    else
        log_line(LOG_WARN, "cannot kill a program", "error", err.msg, NULL);
}

void job_close_stdin(struct job *job)
{
    struct err ignored;
    fd_close(job->streams.in);
    job->streams.in = -1;
    if (job->box != NULL)
        (void)guest_send_forget(box_link_guest(job->box), job->id, GUEST_FORGET_STDIN, &ignored);
}

void job_forget(struct job *job)
{
    struct err ignored;
    if (job->box != NULL)
        (void)guest_send_forget(box_link_guest(job->box), job->id, GUEST_FORGET_ALL, &ignored);
}

void job_free(struct job *job)
{
    if (job == NULL)
        return;
    job->events = NULL;
    job->data = NULL;
    if (job->state == JOB_ENDED || job->box == NULL) {
        job_delete(job);
        return;
    }
    struct fleet *fleet = box_link_sandbox(job->box)->fleet;
    int *outputs[] = {&job->streams.out, &job->streams.err, &job->streams.control_out};
    for (unsigned i = 0; i < 3; i++) {
        if (*outputs[i] >= 0)
            drain_start(fleet, *outputs[i]);
        *outputs[i] = -1;
    }
    close_streams(job);
}

// --- after a restart

struct job *job_new_listed(struct box_link *box, struct guest_event *ev)
{
    struct job *job = job_new(box, NULL, NULL);
    job->id = ev->msg.head.id;
    job->pid = ev->msg.started.pid;
    job->state = JOB_RUNNING;
    job->listed = true;
    job->keeps_exit = (ev->msg.started.flags & GUEST_EXEC_KEEP_EXIT) != 0;
    take_streams(job, ev);
    box_link_add(box, job);
    int64_t deadline = (int64_t)ev->msg.started.tag;
    if (deadline > 0) {
        const int64_t longest = INT64_C(1000) * 86400 * 1000; // the guest may say anything
        int64_t left = deadline - db_now_ms();
        left = left < longest ? left : longest;
        job_set_deadline(job, left > 1 ? left : 1);
    }
    return job;
}

struct later {
    uv_timer_t timer;
    struct sandbox *s;
    uint32_t id;
};

static void later_closed(uv_handle_t *handle)
{
    free(handle->data);
}

// The end of a job that was over before its owner came is told from the loop, not from within
// job_adopt.
static void tell_later(uv_timer_t *timer)
{
    struct later *later = timer->data;
    struct box_link *box = later->s->box;
    struct job *job = box != NULL ? box_link_find(box, later->id) : NULL;
    uv_close((uv_handle_t *)timer, later_closed);
    if (job != NULL && job->exited) {
        struct guest_exited msg = job->ending;
        job->exited = false;
        box_link_exited(box, &msg);
    }
    sandbox_unref(later->s);
}

struct job *job_adopt(struct sandbox *s, uint32_t id, const struct job_events *events, void *data)
{
    struct job *job = s->box != NULL ? box_link_find(s->box, id) : NULL;
    if (job == NULL || !job->listed)
        return NULL;
    job->listed = false;
    job->events = events;
    job->data = data;
    if (job->exited) {
        struct later *later = calloc(1, sizeof *later);
        if (later == NULL)
            abort();
        later->s = sandbox_ref(s);
        later->id = id;
        later->timer.data = later;
        (void)uv_timer_init(s->fleet->config.loop, &later->timer);
        (void)uv_timer_start(&later->timer, tell_later, 0, 0);
    }
    return job;
}
