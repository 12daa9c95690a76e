// SPDX-License-Identifier: Apache-2.0
// The pipes, or the terminal, between a program and whoever asked for it.
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/guest-internal.h"

void streams_close(struct streams *s)
{
    for (int i = 0; i < EXEC_STREAMS; i++) {
        if (s->child[i] > 2)
            fd_close(s->child[i]);
        fd_close(s->ours[i]);
    }
}

static int open_terminal(struct streams *s, const struct guest_exec *msg)
{
    struct winsize size = {.ws_row = msg->rows, .ws_col = msg->cols};
    int unlock = 0;
    int master = openat(FD_PTS, "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0)
        return -errno;
    s->ours[s->n++] = master;
    if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return -errno;
    s->child[0] = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (s->child[0] < 0)
        return -errno;
    // It is the guest's, which nobody in the box is, and whoever has it may open it by its name.
    (void)fchmod(s->child[0], 0666);
    (void)ioctl(master, TIOCSWINSZ, &size);
    return 0;
}

enum pipe_end { READ_END, WRITE_END };

static int open_pipe(struct streams *s, int stream, enum pipe_end childs)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    s->child[stream] = ends[childs];
    s->ours[s->n++] = ends[!childs];
    return 0;
}

// It is the guest's, which nobody in the box is; /dev/stdin and its like open it by name.
static int open_named_pipe(struct streams *s, int stream, enum pipe_end childs)
{
    int r = open_pipe(s, stream, childs);
    if (r == 0)
        (void)fchmod(s->child[stream], 0666);
    return r;
}

int streams_open(struct streams *s, const struct guest_exec *msg)
{
    *s = (struct streams){
        .child = {FD_NULL, -1, -1, -1, -1},
        .ours = {-1,      -1, -1, -1, -1},
    };
    if (msg->flags & GUEST_EXEC_TTY)
        return open_terminal(s, msg);
    int r = open_named_pipe(s, 1, WRITE_END);
    if (r == 0)
        r = open_named_pipe(s, 2, WRITE_END);
    if (r == 0 && (msg->flags & GUEST_EXEC_STDIN))
        r = open_named_pipe(s, 0, READ_END);
    if (r == 0 && (msg->flags & GUEST_EXEC_CONTROL))
        r = open_pipe(s, 3, READ_END);
    if (r == 0 && (msg->flags & GUEST_EXEC_CONTROL))
        r = open_pipe(s, 4, WRITE_END);
    return r;
}
