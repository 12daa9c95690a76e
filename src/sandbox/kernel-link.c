// SPDX-License-Identifier: Apache-2.0
// A context's kernel: a job with control pipes, and the frames on them. Its memory lives until
// libuv has closed its handles; one that was let go knows no context.
//
// Output is watched only WATCH_AFTER_MS after the beginning, since whatever matters is read anyway
// before the frame that comes behind it; a first cell that is quick has been answered by then.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "sandbox/kernel-link-internal.h"

enum {
    OUTGOING_MAX = 80 * 1024 * 1024,
    OUTGOING_KEEP = 128 * 1024,
    WATCH_AFTER_MS = 2,
    PIECES = 4,                  // of CELL_LOG_PIECE, from one stream before others have their turn
    REST_MAX = 2 * 1024 * 1024,  // read of a stream before a frame: more than a pipe holds
    HEAR_MAX = 40 * 1024 * 1024, // read of frames before others have their turn
};

// --- memory

static void on_closed(uv_handle_t *handle)
{
    struct kernel_link *link = handle->data;
    if (--link->handles > 0)
        return;
    buf_done(&link->outgoing);
    frame_reader_done(&link->reader);
    free(link);
}

static void init_timer(struct kernel_link *link, uv_timer_t *timer)
{
    (void)uv_timer_init(fleet_loop(link->c->s->fleet), timer);
    timer->data = link;
    link->handles++;
}

static struct kernel_link *link_new(struct context *c)
{
    struct kernel_link *link = calloc(1, sizeof *link);
    if (link == NULL)
        abort();
    link->c = c;
    buf_init(&link->outgoing, OUTGOING_MAX);
    frame_reader_init(&link->reader);
    init_timer(link, &link->deadline);
    init_timer(link, &link->watch);
    init_timer(link, &link->side);
    return link;
}

static void unwatch(struct kernel_link *link, enum link_watch which)
{
    if (!link->watched[which])
        return;
    link->watched[which] = false;
    uv_close((uv_handle_t *)&link->polls[which], on_closed);
}

static void count_frames(struct kernel_link *link, uint64_t size)
{
    struct contexts *all = link->c->s->contexts;
    if (all != NULL)
        all->frames += size - link->counted;
    link->counted = size;
}

void kernel_link_release(struct kernel_link *link)
{
    if (link == NULL)
        return;
    for (int i = 0; i < WATCHES; i++)
        unwatch(link, (enum link_watch)i);
    count_frames(link, 0);
    job_free(link->job);
    link->job = NULL;
    link->c->link = NULL;
    link->c = NULL;
    uv_close((uv_handle_t *)&link->deadline, on_closed);
    uv_close((uv_handle_t *)&link->watch, on_closed);
    uv_close((uv_handle_t *)&link->side, on_closed);
}

void kernel_link_end(struct kernel_link *link)
{
    if (link == NULL)
        return;
    if (link->job != NULL) {
        job_kill(link->job);
        job_forget(link->job);
    }
    kernel_link_release(link);
}

uint32_t kernel_link_exec(const struct kernel_link *link)
{
    return link->job != NULL ? job_id(link->job) : 0;
}

int kernel_link_pid(const struct kernel_link *link)
{
    return link->job != NULL && link->is_started ? job_pid(link->job) : 0;
}

// --- output

static int stream_of(const struct kernel_link *link, enum cell_event_type type)
{
    const struct job_streams *streams = job_streams(link->job);
    return type == CELL_STDOUT ? streams->out : streams->err;
}

// While no cell runs the next one gets the first of it, the rest is dropped.
static void take_output(struct context *c, enum cell_event_type type, const char *bytes, size_t len)
{
    if (c->current != NULL && c->current->state == CELL_RUNNING)
        cell_write(c->current, type, bytes, len);
    else
        (void)buf_append(type == CELL_STDOUT ? &c->idle_out : &c->idle_err, bytes, len);
}

// A piece of what is there; 0 at the end, or -errno.
static ssize_t read_piece(struct kernel_link *link, enum cell_event_type type)
{
    static char piece[CELL_LOG_PIECE];
    int fd = stream_of(link, type);
    ssize_t n;
    if (fd < 0)
        return 0;
    do
        n = read(fd, piece, sizeof piece);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        take_output(link->c, type, piece, (size_t)n);
    return n < 0 ? -errno : n;
}

// Once for each time that frames were read: what was written before the last of them is there by
// then.
void kernel_link_drain(struct kernel_link *link)
{
    if (link->is_drained)
        return;
    link->is_drained = true;
    for (int i = 0; i < 2; i++) {
        enum cell_event_type type = i == 0 ? CELL_STDOUT : CELL_STDERR;
        size_t total = 0;
        ssize_t n = CELL_LOG_PIECE;
        // A short read has emptied the pipe: another would only find nothing.
        while (n == CELL_LOG_PIECE && total < REST_MAX && (n = read_piece(link, type)) > 0)
            total += (size_t)n;
    }
}

static void on_output(uv_poll_t *poll, int status, int events)
{
    struct kernel_link *link = poll->data;
    struct context *c = link->c;
    bool is_out = poll == &link->polls[WATCH_OUT];
    ssize_t n = 1;
    (void)events;
    context_ref(c);
    for (int i = 0; i < PIECES && n > 0 && link->c != NULL; i++) {
        n = read_piece(link, is_out ? CELL_STDOUT : CELL_STDERR);
        if (n > 0 && c->current != NULL)
            cell_tell(c->current);
        if (n < CELL_LOG_PIECE)
            break;
    }
    if (link->c != NULL && (status < 0 || n == 0 || (n < 0 && n != -EAGAIN)))
        unwatch(link, is_out ? WATCH_OUT : WATCH_ERR);
    context_unref(c);
}

static void watch(struct kernel_link *link, enum link_watch which, int fd, int events,
                  uv_poll_cb fn)
{
    uv_poll_t *poll = &link->polls[which];
    if (fd < 0)
        return;
    if (!link->watched[which]) {
        if (uv_poll_init(fleet_loop(link->c->s->fleet), poll, fd) < 0)
            return;
        poll->data = link;
        link->watched[which] = true;
        link->handles++;
    }
    (void)uv_poll_start(poll, events, fn);
}

static void on_watch_time(uv_timer_t *timer)
{
    struct kernel_link *link = timer->data;
    if (link->c == NULL)
        return;
    watch(link, WATCH_OUT, job_streams(link->job)->out, UV_READABLE, on_output);
    watch(link, WATCH_ERR, job_streams(link->job)->err, UV_READABLE, on_output);
}

// --- input

static void on_writable(uv_poll_t *poll, int status, int events)
{
    struct kernel_link *link = poll->data;
    (void)status;
    (void)events;
    (void)uv_poll_stop(poll);
    kernel_link_flush(link);
}

void kernel_link_flush(struct kernel_link *link)
{
    struct buf *out = &link->outgoing;
    int fd = link->is_started ? job_streams(link->job)->control_in : -1;
    size_t done = 0;
    while (fd >= 0 && done < out->len) {
        ssize_t n = write(fd, out->data + done, out->len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            watch(link, WATCH_INPUT, fd, UV_WRITABLE, on_writable);
        if (n < 0) // else it reads no more, and will end
            break;
        done += (size_t)n;
    }
    buf_consume(out, done);
    if (out->len == 0)
        link->acks = 0;
    if (out->len == 0 && link->c->is_half && link->c->current != NULL)
        cell_on_sent(link->c);
    if (out->len == 0 && out->cap > OUTGOING_KEEP)
        buf_done(out);
}

struct buf *kernel_link_outgoing(struct kernel_link *link)
{
    return &link->outgoing;
}

// --- frames

// Reads and hears all there is. Whether it has ended.
static bool hear(struct kernel_link *link)
{
    for (size_t total = 0; link->c != NULL && total < HEAR_MAX;) {
        char *at = NULL;
        size_t room = 0;
        int fd = job_streams(link->job)->control_out;
        if (fd < 0 || frame_reader_reserve(&link->reader, &at, &room) < 0)
            return true;
        count_frames(link, frame_reader_size(&link->reader));
        if (link->c->s->contexts->frames > FRAMES_MAX) {
            kernel_hear_broke(link, "too much at once");
            return true;
        }
        ssize_t n = read(fd, at, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 || errno != EAGAIN;
        frame_reader_commit(&link->reader, (size_t)n);
        link->is_drained = false;
        total += (size_t)n;
        kernel_hear_frames(link);
        if ((size_t)n < room) // another read would only find nothing
            return false;
    }
    return false;
}

static void on_control(uv_poll_t *poll, int status, int events)
{
    struct kernel_link *link = poll->data;
    struct context *c = link->c;
    (void)events;
    context_ref(c);
    if ((hear(link) || status < 0) && link->c != NULL)
        unwatch(link, WATCH_CONTROL);
    context_unref(c);
}

// What a cell wrote that only a daemon before us knew is not the next one's.
void kernel_link_settle(struct kernel_link *link)
{
    struct context *c = link->c;
    if (!link->is_strange)
        return;
    context_ref(c);
    link->is_strange = false;
    (void)hear(link);
    link->is_drained = false;
    if (link->c != NULL)
        kernel_link_drain(link);
    buf_reset(&c->idle_out);
    buf_reset(&c->idle_err);
    context_unref(c);
}

// --- time

static void start_timer(uv_timer_t *timer, uv_timer_cb fn, int64_t ms)
{
    uv_update_time(timer->loop); // the loop's own clock stands still while it works
    (void)uv_timer_start(timer, fn, (uint64_t)ms, 0);
}

static void on_deadline(uv_timer_t *timer)
{
    struct kernel_link *link = timer->data;
    struct context *c = link->c;
    struct err err = {0};
    if (c == NULL)
        return;
    context_ref(c);
    if (link->is_open) {
        cell_on_deadline(c);
    } else {
        (void)err_set(&err, ERR_UNAVAILABLE, "the kernel has not started in %d seconds",
                      CONTEXT_START_MS / 1000);
        context_failed(c, &err);
    }
    context_unref(c);
}

void kernel_link_set_deadline(struct kernel_link *link, int64_t ms)
{
    if (ms > 0)
        start_timer(&link->deadline, on_deadline, ms);
    else
        (void)uv_timer_stop(&link->deadline);
}

static void on_long(uv_timer_t *timer)
{
    struct kernel_link *link = timer->data;
    if (link->c != NULL && link->c->current != NULL)
        cell_on_long(link->c);
}

static void on_held(uv_timer_t *timer)
{
    struct kernel_link *link = timer->data;
    link->is_held = false;
    if (link->c != NULL)
        context_pump(link->c);
}

void kernel_link_hold(struct kernel_link *link, int64_t ms)
{
    link->is_held = true;
    start_timer(&link->side, on_held, ms);
}

void kernel_link_watch_long(struct kernel_link *link, bool on)
{
    if (on)
        start_timer(&link->side, on_long, CELL_LONG_MS);
    else
        (void)uv_timer_stop(&link->side);
}

bool kernel_link_is_free(const struct kernel_link *link)
{
    return link->is_open && !link->is_held;
}

void kernel_link_interrupt(struct kernel_link *link)
{
    struct err err = {0};
    if (job_signal(link->job, SIGINT, &err) < 0)
        log_line(LOG_WARN, "cannot interrupt a cell", "sandbox", link->c->s->row.id, "context",
                 link->c->row.id, "error", err.msg, NULL);
}

// --- what the job tells

void kernel_link_begin_ordinary(struct kernel_link *link)
{
    struct context *c = link->c;
    struct err err = {0};
    context_ref(c);
    kernel_link_end(link);
    if (context_begin(c, /* ordinary */ true, &err) < 0)
        context_failed(c, &err);
    context_unref(c);
}

static void begun(struct kernel_link *link)
{
    const struct job_streams *streams = job_streams(link->job);
    link->is_started = true;
    watch(link, WATCH_CONTROL, streams->control_out, UV_READABLE, on_control);
    start_timer(&link->watch, on_watch_time, WATCH_AFTER_MS);
    kernel_link_flush(link);
}

static void on_started(void *data, struct job *job)
{
    struct kernel_link *link = data;
    link->job = job;
    begun(link);
}

static void on_failed(void *data, const struct err *err)
{
    struct kernel_link *link = data;
    struct context *c = link->c;
    struct err copy = *err;
    if (!link->is_ordinary) {
        kernel_link_begin_ordinary(link);
        return;
    }
    if (err->sys_errno == ENOENT) // its directory is /, which is always there
        (void)language_missing(c->language, c->s, &copy);
    context_failed(c, &copy);
}

// It has ended before it was open.
static void ended_early(struct kernel_link *link, const struct context_death *death, bool lost)
{
    struct err err = {0};
    const char *said = buf_str(&link->c->idle_err);
    if (!link->is_ordinary && !lost) {
        kernel_link_begin_ordinary(link);
        return;
    }
    (void)err_set(&err, ERR_UNAVAILABLE, "the interpreter ended before it was ready (%s)%s%.100s",
                  death->detail, said[0] != '\0' ? ": " : "", said);
    context_failed(link->c, &err);
}

static void over(struct kernel_link *link, const struct job_end *end, bool lost)
{
    struct context *c = link->c;
    context_ref(c);
    (void)hear(link); // a frame may finish a cell here, and even the context
    link->is_drained = false;
    if (link->c != NULL)
        kernel_link_drain(link);
    if (link->c != NULL) {
        struct context_death death = context_death_of(c, end);
        job_forget(link->job);
        if (link->is_open)
            context_die(c, &death);
        else
            ended_early(link, &death, lost);
    }
    context_unref(c);
}

static void on_exited(void *data, const struct job_end *end)
{
    over(data, end, false);
}

static void on_lost(void *data, const struct job_end *end)
{
    over(data, end, true);
}

static const struct job_events events = {
    .started = on_started, .failed = on_failed, .exited = on_exited, .lost = on_lost};

// --- life

int kernel_link_start(struct context *c, bool ordinary, struct err *err)
{
    struct kernel_link *link = link_new(c);
    const struct kernel_start start = {.kind = c->language->kernel, .ordinary = ordinary};
    struct kernel_begun got = {0};
    c->link = link;
    if (kernel_start(c->s, &start, &events, link, &got, err) < 0) {
        kernel_link_release(link);
        return -1;
    }
    link->job = got.job;
    link->is_ordinary = got.is_ordinary;
    kernel_link_set_deadline(link, CONTEXT_START_MS);
    if (got.wants_boot) {
        struct kernel_source source = kernel_source(start.kind);
        (void)frame_put(&link->outgoing, "boot", 0, source.bytes, source.len);
    }
    if (got.is_started)
        begun(link);
    if (!kernel_hear_waits(link) && kernel_hear_open(link, /* with_tool */ false, err) < 0) {
        kernel_link_end(link);
        return -1;
    }
    return 0;
}

struct kernel_link *kernel_link_adopt(struct context *c, uint32_t exec)
{
    struct kernel_link *link = link_new(c);
    c->link = link;
    link->job = job_adopt(c->s, exec, &events, link);
    if (link->job == NULL) {
        kernel_link_release(link);
        return NULL;
    }
    link->is_ordinary = link->is_ready = link->is_asked = link->is_open = true;
    link->is_strange = true;
    frame_reader_resume(&link->reader);
    begun(link);
    return link;
}
