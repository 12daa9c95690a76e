// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/run.h"

enum {
    CHUNK = 64 * 1024,
    BIG_PIPE = 1024 * 1024,
};

static struct termios saved_mode;
static bool mode_is_raw;

void io_raw(bool on)
{
    if (on && tcgetattr(0, &saved_mode) == 0) {
        struct termios raw = saved_mode;
        cfmakeraw(&raw);
        mode_is_raw = tcsetattr(0, TCSADRAIN, &raw) == 0;
    } else if (!on && mode_is_raw) {
        (void)tcsetattr(0, TCSADRAIN, &saved_mode);
        mode_is_raw = false;
    }
}

void io_resize(const struct run_io *io)
{
    struct winsize size;
    if (io->tty && ioctl(1, TIOCGWINSZ, &size) == 0)
        (void)ioctl(io->out, TIOCSWINSZ, &size);
}

void io_init(struct run_io *io, struct guest_event *started, const struct run_options *options,
             struct run_result *result)
{
    *io = (struct run_io){
        .in = TAKE_FD(started->in),
        .out = TAKE_FD(started->out),
        .err = TAKE_FD(started->err),
        .tty = options->tty,
        .keep_out = options->json ? &result->out : NULL,
        .keep_err = options->json ? &result->err : NULL,
        .keep_left = options->output,
    };
    const int ends[] = {io->in, io->out, io->err};
    for (int i = 0; i < 3; i++) {
        if (ends[i] >= 0)
            (void)fd_set_nonblock(ends[i], 1);
    }
}

// --- one direction ---

enum moved {
    MOVED_SOME,
    MOVED_NONE, // not now
    MOVED_END,
};

// Where neither side can be spliced (a terminal, a file opened for appending): through a buffer no
// larger than what a pipe that polled writable surely takes.
static enum moved copy(int from, int to)
{
    char bytes[PIPE_BUF];
    ssize_t n = read(from, bytes, sizeof bytes);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? MOVED_NONE : MOVED_END;
    if (n == 0)
        return MOVED_END;
    for (ssize_t done = 0; done < n;) {
        ssize_t w = write(to, bytes + done, (size_t)(n - done));
        if (w >= 0) {
            done += w;
        } else if (errno == EAGAIN) {
            struct pollfd wait = {.fd = to, .events = POLLOUT};
            (void)poll(&wait, 1, -1);
        } else if (errno != EINTR) {
            return MOVED_END;
        }
    }
    return MOVED_SOME;
}

static enum moved pass(int from, int to)
{
    ssize_t n = splice(from, NULL, to, NULL, BIG_PIPE, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (n > 0)
        return MOVED_SOME;
    if (n == 0)
        return MOVED_END;
    if (errno == EINVAL)
        return copy(from, to);
    return errno == EAGAIN || errno == EINTR ? MOVED_NONE : MOVED_END;
}

static enum moved keep(struct run_io *io, int from, struct buf *to)
{
    char bytes[CHUNK];
    ssize_t n = read(from, bytes, sizeof bytes);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? MOVED_NONE : MOVED_END;
    if (n == 0)
        return MOVED_END;
    size_t take = (uint64_t)n < io->keep_left ? (size_t)n : (size_t)io->keep_left;
    if (buf_append(to, bytes, take) < 0 || take < (size_t)n)
        io->truncated = true;
    io->keep_left -= take;
    return MOVED_SOME;
}

static void move_output(struct run_io *io, int *from, int to, struct buf *kept)
{
    enum moved moved = kept != NULL ? keep(io, *from, kept) : pass(*from, to);
    if (moved == MOVED_END) {
        fd_close(*from);
        *from = -1;
    }
}

static void move_input(struct run_io *io)
{
    int to = io->tty ? io->out : io->in;
    if ((io->tty ? copy(0, to) : pass(0, to)) != MOVED_END)
        return;
    io->ours_in_ended = true;
    if (!io->tty) {
        fd_close(io->in);
        io->in = -1;
    }
}

// --- all of them ---

static unsigned add(struct pollfd *fds, unsigned n, int fd, short events)
{
    fds[n] = (struct pollfd){.fd = fd, .events = events};
    return n + 1;
}

unsigned io_poll(struct run_io *io, struct pollfd *fds)
{
    unsigned n = 0;
    if (!io->ours_in_ended && (io->in >= 0 || (io->tty && io->out >= 0)))
        n = add(fds, n, 0, POLLIN);
    if (io->out >= 0)
        n = add(fds, n, io->out, POLLIN);
    if (io->err >= 0)
        n = add(fds, n, io->err, POLLIN);
    if (io->in >= 0) // only to hear that nobody reads any more
        n = add(fds, n, io->in, 0);
    return n;
}

static bool writable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, 0) > 0;
}

void io_move(struct run_io *io, const struct pollfd *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (fds[i].revents == 0)
            continue;
        if (fds[i].fd == 0) {
            move_input(io);
        } else if (fds[i].fd == io->in) {
            fd_close(io->in);
            io->in = -1;
        } else if (fds[i].fd == io->out) {
            if (io->keep_out != NULL || writable(1))
                move_output(io, &io->out, 1, io->keep_out);
        } else if (fds[i].fd == io->err) {
            if (io->keep_err != NULL || writable(2))
                move_output(io, &io->err, 2, io->keep_err);
        }
    }
}

static void drain(struct run_io *io, int *from, int to, struct buf *kept)
{
    struct pollfd p = {.fd = *from, .events = POLLIN};
    while (*from >= 0 && poll(&p, 1, 0) > 0 && p.revents != 0) {
        struct pollfd out = {.fd = to, .events = POLLOUT};
        if (kept == NULL)
            (void)poll(&out, 1, -1);
        move_output(io, from, to, kept);
    }
}

void io_drain(struct run_io *io)
{
    drain(io, &io->out, 1, io->keep_out);
    drain(io, &io->err, 2, io->keep_err);
}

void io_done(struct run_io *io)
{
    fd_close(io->in);
    fd_close(io->out);
    fd_close(io->err);
    io->in = io->out = io->err = -1;
}
