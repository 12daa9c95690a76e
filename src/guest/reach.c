// SPDX-License-Identifier: Apache-2.0
// What reaches into the box from outside: sockets in its network namespace, and the hand, which
// does file work with the box's own eyes.
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/guest-internal.h"
#include "hand/hand.h"

enum { HAND_FILES = 1024, LISTEN_BACKLOG = 256 };

static void give(uint32_t id, int r, const int *fds, unsigned n, int held)
{
    struct guest_given msg = {
        .head = {.version = WIRE_VERSION, .type = GUEST_GIVEN, .id = id},
        .sys_errno = -r,
        .held = (uint32_t)held,
    };
    (void)wire_send(FD_SOCK, &msg, sizeof msg, NULL, 0, fds, r == 0 ? n : 0);
}

// --- the hand

// A fork with a copy of our memory, in which there is nothing that the box may not know.
static _Noreturn void become_hand(int sock)
{
    const struct rlimit files = {.rlim_cur = HAND_FILES, .rlim_max = HAND_FILES};
    const struct rlimit none = {.rlim_cur = 1, .rlim_max = 1};
    sigset_t empty;
    (void)setpgid(0, 0);
    if (guest_enter_box(0, 0) < 0 || setrlimit(RLIMIT_NOFILE, &files) < 0 ||
        setrlimit(RLIMIT_CORE, &none) < 0 || dup2(sock, FD_SOCK) < 0)
        _exit(1);
    (void)close_range(FD_SOCK + 1, ~0u, 0);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)sigemptyset(&empty);
    (void)sigprocmask(SIG_SETMASK, &empty, NULL);
    (void)umask(022);
    hand_main(FD_SOCK);
}

void guest_hand(const struct guest_plain *msg)
{
    int ends[2];
    int r = wire_pair(ends);
    if (r < 0) {
        give(msg->head.id, r, NULL, 0, 0);
        return;
    }
    // Straight to the kernel: what libc does around a fork is for threads, and it remembers our
    // pid.
    long pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        become_hand(ends[1]);
    r = pid < 0 ? -errno : 0;
    fd_close(ends[1]);
    give(msg->head.id, r, &ends[0], 1, 0);
    fd_close(ends[0]);
}

// --- sockets

// Loopback has decided when connect returns, but for a listener whose queue is full: then it is for
// whoever gets the socket to wait.
static int refused(int fd)
{
    int e = 0;
    socklen_t len = sizeof e;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len) < 0 ? -errno : -e;
}

static int dial(int family, uint16_t port, int *ret)
{
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in four = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int is_six = family == AF_INET6;
    auto_fd fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int r = is_six ? connect(fd, (struct sockaddr *)&six, sizeof six)
                   : connect(fd, (struct sockaddr *)&four, sizeof four);
    r = r == 0 ? 0 : errno == EINPROGRESS ? refused(fd) : -errno;
    if (r == 0)
        *ret = TAKE_FD(fd);
    return r;
}

void guest_dial(const struct guest_dial *msg)
{
    int fd = -1;
    int r = msg->port == 0 || msg->port > UINT16_MAX ? -EINVAL : 0;
    if (r == 0)
        r = dial(AF_INET, (uint16_t)msg->port, &fd);
    if (r == -ECONNREFUSED && dial(AF_INET6, (uint16_t)msg->port, &fd) == 0)
        r = 0;
    give(msg->head.id, r, &fd, 1, 0);
    fd_close(fd);
}

static int open_listener(int type, uint32_t port, int *ret)
{
    const int on = 1;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    auto_fd fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (port == 0 || port > UINT16_MAX)
        return -EINVAL;
    if (fd < 0)
        return -errno;
    // What was connected to it through an earlier one may still be waiting for its end.
    if (type == SOCK_STREAM)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    else
        (void)setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&any, sizeof any) < 0 ||
        (type == SOCK_STREAM && listen(fd, LISTEN_BACKLOG) < 0))
        return -errno;
    *ret = TAKE_FD(fd);
    return 0;
}

void guest_listen(struct guest *guest, const struct guest_listen *msg)
{
    int r = 0;
    if (!guest->listens) {
        auto_fd tcp = -1, udp = -1;
        r = open_listener(SOCK_STREAM, msg->tcp_port, &tcp);
        if (r == 0)
            r = open_listener(SOCK_DGRAM, msg->udp_port, &udp);
        if (r == 0) {
            guest->listen_tcp = TAKE_FD(tcp);
            guest->listen_udp = TAKE_FD(udp);
            guest->listens = 1;
        }
    }
    const int fds[] = {guest->listen_tcp, guest->listen_udp};
    give(msg->head.id, r, fds, 2, guest->holds);
}

// --- a socket in the box's files

// In a child that is root in the box, and nothing outside: the socket is ours, its name is there.
// Nobody can be asked to wait here: these are calls about the box's own disk.
static int name_socket(int fd)
{
    struct sockaddr_un here = {.sun_family = AF_UNIX, .sun_path = GUEST_SOCKET_PATH};
    (void)umask(022);
    if ((mkdir("/run", 0755) < 0 && errno != EEXIST) ||
        (mkdir(GUEST_SOCKET_DIR, 0755) < 0 && errno != EEXIST))
        return errno;
    if (unlink(GUEST_SOCKET_PATH) < 0 && errno != ENOENT)
        return errno;
    if (fd < 0)
        return 0;
    (void)umask(0111); // for everybody in the box
    if (bind(fd, (struct sockaddr *)&here, sizeof here) < 0 || listen(fd, LISTEN_BACKLOG) < 0)
        return errno;
    return 0;
}

static _Noreturn void become_namer(int fd)
{
    _exit(guest_enter_box(0, 0) < 0 ? errno : name_socket(fd));
}

// -1: only what is there is removed. 0 or -errno.
static int name_in_box(int fd)
{
    int status = 0;
    // We stand still meanwhile, as for an exec.
    long pid = syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        become_namer(fd);
    if (pid < 0)
        return -errno;
    if (waitpid((pid_t)pid, &status, 0) < 0)
        return -errno;
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}

static int open_unix(int *ret)
{
    auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = fd < 0 ? -errno : name_in_box(fd);
    if (r == 0)
        *ret = TAKE_FD(fd);
    return r;
}

void guest_listen_unix(struct guest *guest, const struct guest_listen_unix *msg)
{
    int r = 0;
    if (!msg->on && guest->listens_unix) {
        fd_close(guest->listen_unix);
        guest->listens_unix = 0;
        r = name_in_box(-1);
    } else if (msg->on && !guest->listens_unix) {
        r = open_unix(&guest->listen_unix);
        guest->listens_unix = r == 0;
    }
    give(msg->head.id, r, &guest->listen_unix, msg->on ? 1 : 0, 0);
}

// What steers the box's connections to the listener lives as long as a descriptor of it does.
void guest_hold(struct guest *guest, struct wire_fds *fds)
{
    for (unsigned i = 0; i < fds->n && !guest->holds; i++)
        guest->holds = wire_fds_take(fds, i) >= 0;
}
