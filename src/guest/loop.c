// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/guest-internal.h"
#include "guest/guest.h"

static struct guest the_guest;

static union {
    struct wire_head head;
    struct guest_root root;
    struct guest_exec exec;
    struct guest_signal signal;
    struct guest_plain plain;
    struct guest_forget forget;
    struct guest_dial dial;
    struct guest_listen listen;
    struct guest_listen_unix listen_unix;
    struct guest_adopt adopt;
    char bytes[WIRE_MSG_MAX];
} inbox;

_Noreturn void guest_die(const char *step, int sys_errno)
{
    struct guest_error msg = {
        .head = {.version = WIRE_VERSION, .type = GUEST_ERROR},
        .sys_errno = sys_errno,
    };
    (void)snprintf(msg.step, sizeof msg.step, "%s", step);
    (void)wire_send(FD_SOCK, &msg, sizeof msg, NULL, 0, NULL, 0);
    _exit(1);
}

// Interrupts ppoll; the work is done in the loop.
static void on_child(int sig)
{
    (void)sig;
}

static void handle(struct guest *guest, size_t len, struct wire_fds *fds)
{
    switch (inbox.head.type) {
    case GUEST_ROOT:
        if (len == sizeof inbox.root && guest->slot == 0)
            guest_take_root(guest, &inbox.root, fds);
        break;
    case GUEST_EXEC:
        if (len >= sizeof inbox.exec && guest->slot != 0)
            guest_exec(guest, &inbox.exec, len, fds);
        break;
    case GUEST_SIGNAL:
        if (len == sizeof inbox.signal)
            guest_signal(guest, &inbox.signal);
        break;
    case GUEST_LIST:
        if (len == sizeof inbox.plain)
            guest_list(guest, inbox.head.id);
        break;
    case GUEST_FORGET:
        if (len == sizeof inbox.forget)
            guest_forget(guest, &inbox.forget);
        break;
    case GUEST_HAND:
        if (len == sizeof inbox.plain && guest->slot != 0)
            guest_hand(&inbox.plain);
        break;
    case GUEST_DIAL:
        if (len == sizeof inbox.dial && guest->slot != 0)
            guest_dial(&inbox.dial);
        break;
    case GUEST_LISTEN:
        if (len == sizeof inbox.listen && guest->slot != 0)
            guest_listen(guest, &inbox.listen);
        break;
    case GUEST_LISTEN_UNIX:
        if (len == sizeof inbox.listen_unix && guest->slot != 0)
            guest_listen_unix(guest, &inbox.listen_unix);
        break;
    case GUEST_ADOPT:
        if (len == sizeof inbox.adopt && guest->slot != 0)
            guest_adopt(guest, &inbox.adopt, fds);
        break;
    case GUEST_HOLD:
        if (len == sizeof inbox.plain && guest->slot != 0)
            guest_hold(guest, fds);
        break;
    default: // from a newer daemon: it hears nothing back and knows
        break;
    }
    wire_fds_close(fds);
}

static void receive(struct guest *guest)
{
    struct wire_fds fds;
    ssize_t n = wire_recv(FD_SOCK, &inbox, sizeof inbox, &fds, MSG_DONTWAIT);
    if (n > 0)
        handle(guest, (size_t)n, &fds);
    else if (n == 0 || n == -ECONNRESET)
        _exit(0); // nobody is left who could want this box
}

// What our ancestors ignored, programs in the box would ignore too. Straight to the kernel, because
// libc keeps some signals to itself.
static void forget_ignored(void)
{
    const struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        unsigned long mask;
    } dfl = {0};
    for (int sig = 1; sig <= 64; sig++)
        (void)syscall(SYS_rt_sigaction, sig, &dfl, NULL, sizeof dfl.mask);
}

_Noreturn void guest_main(const struct guest_boot *boot)
{
    struct sigaction child = {.sa_handler = on_child, .sa_flags = SA_NOCLDSTOP};
    sigset_t all, none;
    (void)sigfillset(&all);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    forget_ignored();
    (void)sigaction(SIGCHLD, &child, NULL);
    guest_boot(boot);

    struct pollfd poll = {.fd = FD_SOCK, .events = POLLIN};
    sigset_t waiting = all;
    (void)sigdelset(&waiting, SIGCHLD);
    for (;;) {
        int n = ppoll(&poll, 1, NULL, &waiting);
        // A child that ended while we worked has interrupted ppoll at once: reap first, then
        // listen.
        guest_reap(&the_guest);
        if (n > 0)
            receive(&the_guest);
    }
}
