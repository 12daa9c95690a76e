// SPDX-License-Identifier: Apache-2.0
// 5 descriptors, sockets, terminals, and floods towards the network.
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

enum {
    SOCKETS = 65000,
    SOCKET_PROCESSES = 40,
    // An address that documentation owns: nobody is there to be flooded. The canary sends these
    // few.
    FLOOD_PACKETS = 8,
    FLOWS = 4000,
};

static enum outcome files_exhaust(const struct attempt *self)
{
    int made = 0;
    (void)self;
    if (world.files == 0)
        return cannot("needs --files");
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    while (made <= world.files * 2 && open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
        made++;
    if (made > world.files)
        return escaped("%d open files beside a limit of %d", made, world.files);
    return held("stopped at %d open files: %s", made, strerrorname_np(errno));
}

static enum outcome files_raise(const struct attempt *self)
{
    (void)self;
    if (world.files == 0)
        return cannot("needs --files");
    struct rlimit limit = {.rlim_cur = (rlim_t)world.files * 2,
                           .rlim_max = (rlim_t)world.files * 2};
    return judge_call("setrlimit(RLIMIT_NOFILE)", setrlimit(RLIMIT_NOFILE, &limit), REFUSALS);
}

// Memory is what sockets cost, so it is the memory limit that has to hold.
static enum outcome files_sockets(const struct attempt *self)
{
    (void)self;
    if (world.memory == 0 || world.memory > 64 << 20)
        return cannot("needs --memory of at most 64 MiB");
    int *total = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (total == MAP_FAILED)
        return cannot("mmap: %s", strerrorname_np(errno));
    for (int i = 0; i < SOCKET_PROCESSES; i++) {
        pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid == 0) {
            int pair[2];
            for (int n = 0; n < SOCKETS / SOCKET_PROCESSES; n += 2) {
                if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                    break;
                progress("%d sockets", __atomic_add_fetch(total, 2, __ATOMIC_SEQ_CST));
            }
            pause();
            _exit(0);
        }
    }
    int before = -1;
    while (before != __atomic_load_n(total, __ATOMIC_SEQ_CST)) {
        before = __atomic_load_n(total, __ATOMIC_SEQ_CST);
        usleep(400000);
    }
    if (before >= SOCKETS - SOCKET_PROCESSES * 2)
        return escaped("%d sockets in a box of %ld MiB", before, world.memory >> 20);
    return held("stopped at %d sockets of %d", before, SOCKETS);
}

static enum outcome files_terminals(const struct attempt *self)
{
    int made = 0;
    (void)self;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    while (made < 5000 && posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC) >= 0)
        made++;
    sleep(2); // the witnesses ask for one meanwhile
    return held("holds %d terminals", made);
}

static int connect_out(int type)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    to.sin_addr.s_addr = inet_addr("198.51.100.1");
    int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int r = connect(fd, (struct sockaddr *)&to, sizeof(to));
    if (r == 0 && type == SOCK_DGRAM)
        r = (int)send(fd, "cay", 3, 0);
    int error = errno;
    close(fd);
    errno = error;
    return r;
}

static enum outcome net_syn_flood(const struct attempt *self)
{
    int r = -1;
    (void)self;
    for (int i = 0; i < FLOOD_PACKETS; i++)
        r = connect_out(SOCK_STREAM);
    return judge_call("connect", r, REFUSALS_AND(ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL));
}

static enum outcome net_udp_flood(const struct attempt *self)
{
    int r = -1;
    (void)self;
    for (int i = 0; i < FLOOD_PACKETS; i++)
        r = connect_out(SOCK_DGRAM);
    return judge_call("send", r, REFUSALS_AND(ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL));
}

static enum outcome net_conntrack(const struct attempt *self)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int sent = 0;
    (void)self;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < FLOWS && fd >= 0; i++) {
        to.sin_port = htons((unsigned short)(20000 + i));
        sent += sendto(fd, "", 0, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to)) == 0;
    }
    if (fd >= 0)
        close(fd);
    return held("sent %d packets to as many ports", sent);
}

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    {.number = 5,
     .name = "files_exhaust",
     .tries = "opens twice the allowed number of files",
     .held_by = "RLIMIT_NOFILE, soft and hard",
     .canary = "files",
     .place = ALONE,
     .run = files_exhaust},
    {.number = 5,
     .name = "files_raise",
     .tries = "raises its own limit of open files",
     .held_by = "the hard limit, which only CAP_SYS_RESOURCE of the host may raise",
     .canary = "files",
     .place = ALONE,
     .run = files_raise},
    {.number = 5,
     .name = "files_sockets",
     .tries = "opens 65,000 sockets in 40 processes",
     .held_by = "memory limit, which counts what the kernel allocates for the box",
     .canary = "memory,files",
     .place = ALONE,
     .killed_is_held = true,
     .run = files_sockets},
    {.number = 5,
     .name = "files_terminals",
     .tries = "takes every terminal the machine has",
     .held_by = "a limit on the box's own devpts",
     .canary = "files,terminals",
     .place = OUTSIDE,
     .run = files_terminals},
    {.number = 5,
     .name = "net_syn_flood",
     .tries = "opens connections to the outside",
     .held_by = "a network namespace with nothing but loopback",
     .canary = "net",
     .needs = "route",
     .run = net_syn_flood},
    {.number = 5,
     .name = "net_udp_flood",
     .tries = "sends packets to the outside",
     .held_by = "a network namespace with nothing but loopback",
     .canary = "net",
     .needs = "route",
     .run = net_udp_flood},
    {.number = 5,
     .name = "net_conntrack",
     .tries = "starts 4,000 flows for the host to remember",
     .held_by = "the network namespace has a table of its own",
     .canary = "net",
     .needs = "conntrack",
     .place = OUTSIDE,
     .run = net_conntrack},
};
// clang-format on

const struct attempt_list files_attempts = ATTEMPTS(attempts);
