// SPDX-License-Identifier: Apache-2.0
// Three channels between the program's streams and ours, none of which may ever make us wait: a
// timeout must fire while a terminal is stopped or nobody reads. A channel waits either for
// something to read or, once it has found something and could not pass it on, for room to write.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/run.h"

enum {
    CHUNK = 64 * 1024,
    AT_ONCE = 1024 * 1024,
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
        (void)ioctl(io->program[1], TIOCSWINSZ, &size);
}

// --- making them ---

// Another way to the same pipe or terminal, which may be made non-blocking without doing that to
// whoever shares ours. A file never blocks; what cannot be opened again is used as it is.
static int open_ours(int fd)
{
    struct stat st;
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fstat(fd, &st) < 0 || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
        return fcntl(fd, F_DUPFD_CLOEXEC, 3);
    int mode = fd == 0 ? O_RDONLY : O_WRONLY;
    int again = open(path, mode | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return again >= 0 ? again : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

void io_init(struct run_io *io, struct guest_event *started, const struct run_options *options,
             struct run_result *result)
{
    *io = (struct run_io){
        .program = {TAKE_FD(started->in), TAKE_FD(started->out), TAKE_FD(started->err)},
        .tty = options->tty,
        .keep_left = options->output,
    };
    for (int i = 0; i < 3; i++) {
        io->ours[i] = open_ours(i);
        if (io->program[i] >= 0)
            (void)fd_set_nonblock(io->program[i], 1);
    }
    int input = io->tty ? io->program[1] : io->program[0];
    io->channels[0] = (struct channel){.from = io->ours[0], .to = input};
    io->channels[1] = (struct channel){.from = io->program[1], .to = io->ours[1]};
    io->channels[2] = (struct channel){.from = io->program[2], .to = io->ours[2]};
    if (options->json) {
        io->channels[1].keep = &result->out;
        io->channels[2].keep = &result->err;
    }
    for (int i = 0; i < 3; i++)
        io->channels[i].ended = io->channels[i].from < 0 || io->channels[i].to < 0;
}

void io_done(struct run_io *io)
{
    for (int i = 0; i < 3; i++) {
        fd_close(io->ours[i]);
        fd_close(io->program[i]);
        io->ours[i] = io->program[i] = -1;
    }
}

// --- moving ---

enum moved {
    MOVED_SOME,
    MOVED_NONE, // nothing there, or no room
    MOVED_END,
};

static enum moved failed(void)
{
    return errno == EAGAIN || errno == EINTR ? MOVED_NONE : MOVED_END;
}

static enum moved flush(struct channel *c)
{
    while (c->done < c->len) {
        ssize_t n = write(c->to, c->pending + c->done, c->len - c->done);
        if (n < 0)
            return failed();
        c->done += (size_t)n;
    }
    c->done = c->len = 0;
    return MOVED_SOME;
}

// Through a buffer, where a side cannot be spliced: a terminal, a file opened for appending.
static enum moved copy(struct channel *c)
{
    ssize_t n = read(c->from, c->pending, sizeof c->pending);
    if (n < 0)
        return failed();
    if (n == 0)
        return MOVED_END;
    c->len = (size_t)n;
    return flush(c);
}

static enum moved pass(struct channel *c)
{
    if (c->len > 0)
        return flush(c);
    if (c->no_splice)
        return copy(c);
    ssize_t n = splice(c->from, NULL, c->to, NULL, AT_ONCE, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (n > 0)
        return MOVED_SOME;
    if (n == 0)
        return MOVED_END;
    if (errno != EINVAL)
        return failed();
    c->no_splice = true;
    return copy(c);
}

static enum moved keep(struct run_io *io, struct channel *c)
{
    char bytes[CHUNK];
    ssize_t n = read(c->from, bytes, sizeof bytes);
    if (n < 0)
        return failed();
    if (n == 0)
        return MOVED_END;
    size_t take = (uint64_t)n < io->keep_left ? (size_t)n : (size_t)io->keep_left;
    if (buf_append(c->keep, bytes, take) < 0 || take < (size_t)n)
        io->truncated = true;
    io->keep_left -= take;
    return MOVED_SOME;
}

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

// The program's stream is closed, so that it sees the end of its input, or that nobody reads it any
// more. A terminal's master stays open: closing it would hang the program up, which may well open
// it again.
static void end(struct run_io *io, struct channel *c)
{
    int which = (int)(c - io->channels);
    c->ended = true;
    if (io->tty)
        return;
    fd_close(io->program[which]);
    io->program[which] = -1;
}

static enum moved move(struct run_io *io, struct channel *c)
{
    enum moved moved = c->keep != NULL ? keep(io, c) : pass(c);
    if (moved == MOVED_END)
        end(io, c);
    c->wants_room = moved == MOVED_NONE && (c->len > 0 || is_readable(c->from));
    return moved;
}

// --- all of them ---

unsigned io_poll(struct run_io *io, struct pollfd *fds)
{
    unsigned n = 0;
    for (int i = 0; i < 3; i++) {
        struct channel *c = &io->channels[i];
        if (c->ended)
            continue;
        fds[n++] = c->wants_room ? (struct pollfd){.fd = c->to, .events = POLLOUT}
                                 : (struct pollfd){.fd = c->from, .events = POLLIN};
    }
    return n;
}

void io_move(struct run_io *io, const struct pollfd *fds, unsigned n)
{
    unsigned next = 0;
    for (int i = 0; i < 3 && next < n; i++) {
        if (io->channels[i].ended)
            continue;
        if (fds[next++].revents != 0)
            (void)move(io, &io->channels[i]);
    }
}

// What the program printed before it ended is still to be had; we wait for whoever reads ours, not
// for those who hold the program's end open.
void io_drain(struct run_io *io)
{
    enum {
        TURNS = 32
    }; // more than a full pipe takes: whatever comes after that is not the program's
    for (int i = 1; i < 3; i++) {
        struct channel *c = &io->channels[i];
        for (int turn = 0; !c->ended && (c->len > 0 || (turn < TURNS && is_readable(c->from)));) {
            struct pollfd room = {.fd = c->to, .events = POLLOUT};
            if (move(io, c) != MOVED_NONE)
                turn++;
            else if (c->wants_room)
                (void)poll(&room, 1, -1);
        }
    }
}
