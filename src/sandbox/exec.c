// SPDX-License-Identifier: Apache-2.0
// A program that ends soon is read once, when it has ended: its pipes are watched only after
// WATCH_AFTER_MS. Until then what it writes waits in them, which saves the short ones (most are)
// six system calls and two turns of the loop. Of one whose output is told as it comes they are
// watched at once, unless its reader is patient.
#include "sandbox/exec.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/sandbox-internal.h"

enum { WATCH_AFTER_MS = 2, READ_AT_ONCE = 256 * 1024 };

struct stream {
    uv_poll_t poll;
    int fd; // the job's, until it is at its end
    bool watched;
    struct buf buf;
    bool truncated;
};

struct exec {
    struct sandbox *s;
    struct job *job;
    exec_fn fn;
    exec_output_fn output; // NULL: it is collected
    void *data;
    int64_t begun_ns;
    struct stream out, err;
    uv_poll_t in_poll;
    bool in_watched, ends_rest, patient;
    char *in;
    size_t in_len, in_at;
    uv_timer_t timer;
    unsigned handles; // open ones: the memory goes with the last
};

// --- memory: two-phase, since libuv holds handles until their close callback

static void on_handle_closed(uv_handle_t *handle)
{
    struct exec *exec = handle->data;
    if (--exec->handles > 0)
        return;
    buf_done(&exec->out.buf);
    buf_done(&exec->err.buf);
    free(exec->in);
    free(exec);
}

static void unwatch(struct stream *stream)
{
    if (!stream->watched)
        return;
    stream->watched = false;
    uv_close((uv_handle_t *)&stream->poll, on_handle_closed);
}

static void unwatch_input(struct exec *exec)
{
    if (!exec->in_watched)
        return;
    exec->in_watched = false;
    uv_close((uv_handle_t *)&exec->in_poll, on_handle_closed);
}

// After this the exec is gone, but for its memory.
static void release(struct exec *exec)
{
    unwatch(&exec->out);
    unwatch(&exec->err);
    unwatch_input(exec);
    job_free(exec->job);
    exec->job = NULL;
    sandbox_idle(exec->s);
    sandbox_unref(exec->s);
    uv_close((uv_handle_t *)&exec->timer, on_handle_closed);
}

// --- output

// Reads what is there, at most READ_AT_ONCE. 0 when there may be more, 1 when not now, 2 at the
// end.
static int read_some(struct stream *stream)
{
    static char dropped[64 * 1024];
    size_t total = 0;
    while (total < READ_AT_ONCE) {
        char *at = NULL;
        size_t room = 0;
        if (buf_reserve(&stream->buf, 64 * 1024, &at, &room) < 0)
            room = 0;
        ssize_t n = read(stream->fd, room > 0 ? at : dropped, room > 0 ? room : sizeof dropped);
        if (n == 0)
            return 2;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 1 : 2;
        if (room > 0)
            buf_commit(&stream->buf, (size_t)n);
        else
            stream->truncated = true;
        total += (size_t)n;
    }
    return 0;
}

static void tell(struct exec *exec, struct stream *stream)
{
    if (exec->output == NULL || stream->buf.len == 0)
        return;
    exec->output(exec->data, stream == &exec->out ? LOG_STDOUT : LOG_STDERR, stream->buf.data,
                 stream->buf.len);
    buf_reset(&stream->buf);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct exec *exec = poll->data;
    struct stream *stream = poll == &exec->out.poll ? &exec->out : &exec->err;
    (void)events;
    bool over = status < 0 || read_some(stream) == 2;
    tell(exec, stream);
    if (over)
        unwatch(stream);
}

static void watch(struct exec *exec, struct stream *stream)
{
    if (stream->fd < 0 || stream->watched ||
        uv_poll_init(exec->s->fleet->config.loop, &stream->poll, stream->fd) < 0)
        return;
    stream->poll.data = exec;
    stream->watched = true;
    exec->handles++;
    (void)uv_poll_start(&stream->poll, UV_READABLE, on_readable);
}

static void watch_both(struct exec *exec)
{
    watch(exec, &exec->out);
    watch(exec, &exec->err);
}

static void on_watch_time(uv_timer_t *timer)
{
    watch_both(timer->data);
}

void exec_pause(struct exec *exec, bool paused)
{
    struct stream *const streams[] = {&exec->out, &exec->err};
    for (int i = 0; i < 2; i++) {
        if (streams[i]->watched && paused)
            (void)uv_poll_stop(&streams[i]->poll);
        else if (streams[i]->watched)
            (void)uv_poll_start(&streams[i]->poll, UV_READABLE, on_readable);
    }
}

// --- input

// Whether there is more to write, but not now.
static bool write_some(struct exec *exec)
{
    int fd = job_streams(exec->job)->in;
    while (fd >= 0 && exec->in_at < exec->in_len) {
        ssize_t n = write(fd, exec->in + exec->in_at, exec->in_len - exec->in_at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        exec->in_at += (size_t)n;
    }
    return false;
}

static void close_input(struct exec *exec)
{
    struct job_streams *streams = job_streams(exec->job);
    unwatch_input(exec);
    fd_close(streams->in); // nobody else has it: the guest keeps no standard input of an exec
    streams->in = -1;
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
    struct exec *exec = poll->data;
    (void)events;
    if (status < 0 || !write_some(exec))
        close_input(exec);
}

static void feed(struct exec *exec)
{
    if (job_streams(exec->job)->in < 0)
        return;
    if (!write_some(exec)) {
        close_input(exec);
        return;
    }
    uv_loop_t *loop = exec->s->fleet->config.loop;
    if (uv_poll_init(loop, &exec->in_poll, job_streams(exec->job)->in) < 0)
        return;
    exec->in_poll.data = exec;
    exec->in_watched = true;
    exec->handles++;
    (void)uv_poll_start(&exec->in_poll, UV_WRITABLE, on_writable);
}

// --- what the job tells

static void on_started(void *data, struct job *job)
{
    struct exec *exec = data;
    exec->job = job;
    exec->out.fd = job_streams(job)->out;
    exec->err.fd = job_streams(job)->err;
    feed(exec);
    if (exec->output != NULL && !exec->patient)
        watch_both(exec);
    else
        (void)uv_timer_start(&exec->timer, on_watch_time, WATCH_AFTER_MS, 0);
}

static void on_failed(void *data, const struct err *err)
{
    struct exec *exec = data;
    exec_fn fn = exec->fn;
    void *fn_data = exec->data;
    struct err copy = *err;
    release(exec);
    fn(fn_data, NULL, &copy);
}

static void end_rest(const struct exec *exec)
{
    struct err ignored; // a box that cannot be told has ended, or will be by whoever waits for it
    struct guest_peer guest = job_guest(exec->job);
    if (exec->ends_rest && guest.sock >= 0)
        (void)guest_send_signal(guest, job_id(exec->job), SIGKILL, &ignored);
}

static void finish(struct exec *exec, const struct job_end *end)
{
    struct fleet *fleet = exec->s->fleet;
    struct exec_result result = {
        .end = *end,
        .out = &exec->out.buf,
        .err = &exec->err.buf,
        .truncated = exec->out.truncated || exec->err.truncated,
        .duration_ns = clock_ns() - exec->begun_ns,
    };
    fleet_count_end(fleet, end->reason);
    fleet_time(fleet, TIMING_EXEC, result.duration_ns);
    end_rest(exec);
    exec->fn(exec->data, &result, NULL);
    release(exec);
}

// What the program wrote is in its pipes when its end is told. A child of its that lives on may
// write for ever: what is read now is bounded.
static void read_rest(struct stream *stream)
{
    enum { ROUNDS = 256 };
    for (int i = 0; stream->fd >= 0 && i < ROUNDS && read_some(stream) == 0; i++)
        ;
}

// Whoever is told may have paused it: there is no more than the pipe holds.
static void tell_rest(struct exec *exec, struct stream *stream)
{
    int left = 0;
    if (stream->fd >= 0)
        (void)ioctl(stream->fd, FIONREAD, &left);
    for (int r = 0; left > 0 && r == 0;) {
        r = read_some(stream);
        left -= (int)stream->buf.len;
        tell(exec, stream);
    }
}

static void on_exited(void *data, const struct job_end *end)
{
    struct exec *exec = data;
    struct stream *const streams[] = {&exec->out, &exec->err};
    for (int i = 0; i < 2; i++) {
        if (exec->output != NULL)
            tell_rest(exec, streams[i]);
        else
            read_rest(streams[i]);
    }
    finish(exec, end);
}

static void on_lost(void *data, const struct job_end *end)
{
    on_exited(data, end);
}

static const struct job_events events = {
    .started = on_started, .failed = on_failed, .exited = on_exited, .lost = on_lost};

// --- the door

static struct exec *exec_new(struct sandbox *s, const struct exec_request *request, exec_fn fn,
                             void *data)
{
    struct exec *exec = calloc(1, sizeof *exec);
    if (exec == NULL)
        abort();
    exec->s = sandbox_ref(s);
    exec->fn = fn;
    exec->output = request->output;
    exec->data = data;
    exec->begun_ns = clock_ns();
    exec->ends_rest = request->ends_rest;
    exec->patient = request->patient;
    exec->out.fd = exec->err.fd = -1;
    buf_init(&exec->out.buf, EXEC_OUTPUT_MAX);
    buf_init(&exec->err.buf, EXEC_OUTPUT_MAX);
    (void)uv_timer_init(s->fleet->config.loop, &exec->timer);
    exec->timer.data = exec;
    exec->handles = 1;
    if (request->stdin_data != NULL) {
        exec->in_len = request->stdin_len;
        exec->in = malloc(exec->in_len + 1);
        if (exec->in == NULL)
            abort(); // bounded by EDGE_BODY_MAX, and the body itself is there
        memcpy(exec->in, request->stdin_data, exec->in_len);
    }
    sandbox_busy(s);
    return exec;
}

struct exec *exec_start(struct sandbox *s, const struct exec_request *request, exec_fn fn,
                        void *data, struct err *err)
{
    struct exec *exec = exec_new(s, request, fn, data);
    struct exec_spec spec = {
        .cwd = request->cwd,
        .argv = request->argv,
        .envp = request->envp,
        .uid = request->uid,
        .gid = request->gid,
        .files = EXEC_FILES,
        .flags = request->stdin_data != NULL ? GUEST_EXEC_STDIN : 0,
    };
    exec->job = job_start(s, &spec, request->timeout_ms, &events, exec, err);
    if (exec->job == NULL) {
        release(exec);
        return NULL;
    }
    return exec;
}

void exec_cancel(struct exec *exec)
{
    if (exec->job != NULL)
        job_kill(exec->job);
    fleet_count_end(exec->s->fleet, END_KILLED);
    release(exec);
}
