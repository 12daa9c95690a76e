// SPDX-License-Identifier: Apache-2.0
// 24 terminals.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

// A terminal of the attempt's own, which becomes its controlling one: the runner has made it the
// leader of a session without any. What it types there reaches nobody else.
static int own_terminal(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || unlockpt(master) < 0)
        return -1;
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
        return -1;
    return slave;
}

static enum outcome tty_request(const struct attempt *self)
{
    const unsigned long *request = self->arg;
    char byte = 'x';
    int fd = own_terminal();
    if (fd < 0)
        return cannot("no terminal: %s", strerrorname_np(errno));
    return judge_call("ioctl", syscall(SYS_ioctl, fd, *request, &byte), REFUSALS);
}

static enum outcome tty_of_host(const struct attempt *self)
{
    char path[64];
    (void)self;
    if (world.host.pts < 0)
        return cannot("the host's witness has no terminal");
    snprintf(path, sizeof(path), "/dev/pts/%d", world.host.pts);
    int fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    enum outcome outcome = judge_call(path, fd, REFUSALS_AND(ENOENT, EIO));
    if (fd >= 0)
        close(fd);
    return outcome;
}

static enum outcome tty_console(const struct attempt *self)
{
    static const char *const names[] = {"/dev/tty0", "/dev/tty1", "/dev/ttyS0", "/dev/vcs"};
    int error = 0;
    (void)self;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        int fd = open(names[i], O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0) {
            close(fd);
            return escaped("%s opens", names[i]);
        }
        error = errno;
    }
    return held("consoles: %s", strerrorname_np(error));
}

// The kernel looks at 32 bits of a request; a filter that compares 64 can be fooled.
static const unsigned long sti = TIOCSTI, sti_high = TIOCSTI | 1ul << 32, lin = TIOCLINUX,
                           lin_high = TIOCLINUX | 1ul << 32;

#define TTY(called, what, request, machine)                                                        \
    {                                                                                              \
        .number = 24, .name = called, .tries = what,                                               \
        .held_by = "the filter looks at the low 32 bits of the request", .canary = "seccomp",      \
        .needs = machine, .run = tty_request, .arg = &request                                      \
    }

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    TTY("tty_sti", "types into its terminal (TIOCSTI)", sti, "tiocsti"),
    TTY("tty_sti_high", "the same with a high bit set in the request", sti_high, "tiocsti"),
    TTY("tty_linux", "pastes into its terminal (TIOCLINUX)", lin, NULL),
    TTY("tty_linux_high", "the same with a high bit set in the request", lin_high, NULL),
    {.number = 24,
     .name = "tty_of_host",
     .tries = "opens a terminal that a process of the host holds",
     .held_by = "a devpts of its own",
     .canary = "dev,caps,userns",
     .run = tty_of_host},
    { .number = 24,
     .name = "tty_console",
     .tries = "opens the host's consoles",
     .held_by = "a /dev of our own",
     .canary = "dev,caps,userns",
     .needs = "file:/dev/tty1",
     .run = tty_console},
};
// clang-format on

const struct attempt_list tty_attempts = ATTEMPTS(attempts);
