// SPDX-License-Identifier: Apache-2.0
// The streams of a process: its pipes into its log, and what is sent to it into its standard input.
// Pumps and feeds are memory of their own, which libuv gives back when it has closed their handles;
// a closed one knows no process.
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/process-internal.h"

enum {
    TURN_MAX = 512 * 1024,      // moved from one pipe before others have their turn
    TTY_HOLDS_MAX = 256 * 1024, // more than a terminal has in its buffers
    FEED_MUCH = 64 * 1024,      // waiting input whose end is told
};

struct pump {
    uv_poll_t poll;
    struct process *process; // NULL: closing
    enum log_stream stream;
    int fd;
};

void process_settle(struct process *p)
{
    if (!p->alive || p->job != NULL || p->pumps[LOG_STDOUT] != NULL || p->pumps[LOG_STDERR] != NULL)
        return;
    p->alive = false;
    process_unref(p);
}

// --- output

static void pump_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void pump_close(struct process *p, enum log_stream stream)
{
    struct pump *pump = p->pumps[stream];
    if (pump == NULL)
        return;
    p->pumps[stream] = NULL;
    pump->process = NULL;
    uv_close((uv_handle_t *)&pump->poll, pump_closed);
    fd_close(TAKE_FD(pump->fd)); // the loop does not look at it any more
}

static void report_loss(struct process *p, const struct bytelog *log)
{
    if (p->loss_told || (log != NULL && bytelog_lost(log) == 0))
        return;
    p->loss_told = true;
    log_line(LOG_WARN, "output of a process cannot be stored, dropping it", "sandbox", p->s->row.id,
             "process", p->row.id, NULL);
}

// For a process whose log could not be made: it must not hang.
static ssize_t discard(int fd)
{
    static char nowhere[64 * 1024];
    ssize_t n = read(fd, nowhere, sizeof nowhere);
    if (n < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    return n;
}

// The log is made with the first byte: many programs write none. That is still in the pipe then,
// for a daemon that dies to lose nothing. 1 when it is there, 0 at the end of the stream, or
// -EAGAIN.
static int make_log(struct pump *pump)
{
    struct err err = {0};
    struct process *p = pump->process;
    struct pollfd look = {.fd = pump->fd, .events = POLLIN};
    if (poll(&look, 1, 0) <= 0)
        return -EAGAIN;
    if (!(look.revents & POLLIN))
        return 0;
    if (process_open_log(p, pump->stream, &err) == 0)
        return 1;
    p->log_failed = true;
    log_line(LOG_ERROR, "cannot make a process's log, dropping its output", "sandbox", p->s->row.id,
             "process", p->row.id, "error", err.msg, NULL);
    return 1;
}

static ssize_t move_piece(struct pump *pump, size_t max)
{
    struct process *p = pump->process;
    if (p->logs[pump->stream] == NULL && !p->log_failed) {
        int r = make_log(pump);
        if (r <= 0)
            return r;
    }
    struct bytelog *log = p->logs[pump->stream];
    if (log == NULL)
        return discard(pump->fd);
    if (p->spool != NULL)
        return spool_move(p->spool, log, pump->fd);
    return bytelog_splice(log, pump->fd, max);
}

// Moves at most about `max` bytes. Whether the stream has ended.
static bool move_some(struct pump *pump, size_t max, size_t *ret_moved)
{
    struct process *p = pump->process;
    size_t moved = 0;
    ssize_t n = 1;
    while (moved < max && n > 0) {
        n = move_piece(pump, max - moved);
        moved += n > 0 ? (size_t)n : 0;
    }
    if (moved > 0)
        report_loss(p, p->logs[pump->stream]);
    *ret_moved = moved;
    return n <= 0 && n != -EAGAIN;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct pump *pump = poll->data;
    struct process *p = pump->process;
    (void)events;
    if (p == NULL)
        return;
    (void)process_ref(p);
    size_t moved = 0;
    if (move_some(pump, TURN_MAX, &moved) || status < 0)
        pump_close(p, pump->stream);
    if (moved > 0)
        process_tell(p, /*deleted=*/false);
    process_settle(p);
    process_unref(p);
}

void pump_open(struct process *p, enum log_stream stream, int fd)
{
    if (fd < 0)
        return;
    struct pump *pump = calloc(1, sizeof *pump);
    if (pump == NULL)
        abort();
    pump->fd = fd;
    pump->stream = stream;
    pump->process = p;
    pump->poll.data = pump;
    if (uv_poll_init(fleet_loop(p->s->fleet), &pump->poll, fd) < 0) {
        log_line(LOG_ERROR, "cannot read a process's output", "sandbox", p->s->row.id, "process",
                 p->row.id, NULL);
        fd_close(fd);
        free(pump);
        return;
    }
    p->pumps[stream] = pump;
    (void)uv_poll_start(&pump->poll, UV_READABLE, on_readable);
}

void pump_drain(struct process *p, enum log_stream stream)
{
    struct pump *pump = p->pumps[stream];
    int waiting = 0;
    size_t moved;
    if (pump == NULL)
        return;
    if (p->row.tty != NULL) // whose number is not of all its buffers
        waiting = TTY_HOLDS_MAX;
    else if (ioctl(pump->fd, FIONREAD, &waiting) < 0 || waiting < 0)
        waiting = 0;
    if (move_some(pump, (size_t)waiting + 1, &moved)) // the one more finds the end
        pump_close(p, stream);
}

// --- input

struct feed {
    uv_poll_t poll;
    struct process *process; // NULL: not open, or closing
    int fd;
    bool polling;
    bool end;  // close when all is written
    bool much; // has waited: those who watch want to know when it is written
    struct buf queue;
};

static void feed_free(struct feed *feed)
{
    buf_done(&feed->queue);
    free(feed);
}

static void feed_closed(uv_handle_t *handle)
{
    feed_free(handle->data);
}

struct feed *feed_new(size_t max)
{
    struct feed *feed = calloc(1, sizeof *feed);
    if (feed == NULL)
        abort();
    feed->fd = -1;
    feed->poll.data = feed;
    buf_init(&feed->queue, max);
    return feed;
}

void feed_close(struct process *p)
{
    struct feed *feed = p->feed;
    if (feed == NULL)
        return;
    p->feed = NULL;
    if (feed->process == NULL) {
        feed_free(feed);
        return;
    }
    feed->process = NULL;
    uv_close((uv_handle_t *)&feed->poll, feed_closed);
    fd_close(TAKE_FD(feed->fd));
}

// The program has read all, or reads no more: the guest need not keep its end either.
static void feed_end(struct process *p)
{
    feed_close(p);
    if (p->job != NULL)
        job_close_stdin(p->job);
}

// Writes what goes. False when the program reads no more.
static bool write_some(struct feed *feed)
{
    while (feed->queue.len > 0) {
        ssize_t n = write(feed->fd, feed->queue.data, feed->queue.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        buf_consume(&feed->queue, (size_t)n);
    }
    return true;
}

static void on_writable(uv_poll_t *poll, int status, int events);

static void feed_go(struct process *p)
{
    struct feed *feed = p->feed;
    if (!write_some(feed) || (feed->queue.len == 0 && feed->end)) {
        feed_end(p);
        return;
    }
    bool wanted = feed->queue.len > 0;
    if (wanted && !feed->polling)
        (void)uv_poll_start(&feed->poll, UV_WRITABLE, on_writable);
    else if (!wanted && feed->polling)
        (void)uv_poll_stop(&feed->poll);
    feed->polling = wanted;
    if (!wanted)
        buf_done(&feed->queue); // gives its memory back, and stays usable
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
    struct feed *feed = poll->data;
    (void)events;
    if (feed->process == NULL)
        return;
    struct process *p = process_ref(feed->process);
    if (status < 0)
        feed_end(p);
    else
        feed_go(p);
    if (p->feed != feed || (feed->much && feed->queue.len == 0)) {
        if (p->feed == feed)
            feed->much = false;
        process_tell(p, /*deleted=*/false);
    }
    process_unref(p);
}

void feed_open(struct process *p, int fd)
{
    struct feed *feed = p->feed;
    if (feed == NULL || fd < 0 || uv_poll_init(fleet_loop(p->s->fleet), &feed->poll, fd) < 0) {
        fd_close(fd);
        feed_end(p);
        return;
    }
    feed->fd = fd;
    feed->process = p;
    feed_go(p);
}

int feed_write(struct process *p, const void *data, size_t len, bool end, struct err *err)
{
    struct feed *feed = p->feed;
    if (feed->end)
        return err_set(err, ERR_CONFLICT, "the end of standard input was sent before");
    if (len > feed->queue.max - feed->queue.len)
        return err_set(err, ERR_EXHAUSTED,
                       "the process has not read what was sent before; try again later");
    if (buf_append(&feed->queue, data, len) < 0) // all of it fits, so none of it was taken
        return err_set(err, ERR_EXHAUSTED, "no memory for standard input");
    feed->end = end;
    if (feed->process != NULL)
        feed_go(p);
    if (p->feed != NULL && p->feed->queue.len >= FEED_MUCH)
        p->feed->much = true;
    return 0;
}

size_t process_stdin_waiting(const struct process *p)
{
    return p->feed != NULL ? p->feed->queue.len : 0;
}

// --- a terminal's size

static int tty_of(const struct process *p)
{
    return p->pumps[LOG_STDOUT] != NULL ? p->pumps[LOG_STDOUT]->fd : -1;
}

int process_set_size(struct process *p, uint16_t rows, uint16_t cols)
{
    const struct winsize size = {.ws_row = rows, .ws_col = cols};
    return ioctl(tty_of(p), TIOCSWINSZ, &size) < 0 ? -errno : 0;
}

int process_get_size(const struct process *p, uint16_t *ret_rows, uint16_t *ret_cols)
{
    struct winsize size;
    if (ioctl(tty_of(p), TIOCGWINSZ, &size) < 0)
        return -errno;
    *ret_rows = size.ws_row;
    *ret_cols = size.ws_col;
    return 0;
}
