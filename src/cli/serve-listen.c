// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"
#include "cli/serve.h"

enum { BACKLOG = 4096, SOCKET_FLAGS = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK };

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

// --- addresses ---

static int bad_address(const char *text, struct err *err)
{
    return err_set(err, ERR_INVALID,
                   "listen: '%.80s' is not an address and a port, as in 127.0.0.1:8787 or "
                   "[::1]:8787 (names other than localhost are not looked up)",
                   text);
}

// Splits "[::1]:80" and "127.0.0.1:80".
static int split(const char *text, char *ret_host, size_t size, uint16_t *ret_port, bool *ret_v6)
{
    struct err ignored;
    uint64_t port;
    const char *colon = strrchr(text, ':');
    bool v6 = text[0] == '[';
    if (colon == NULL || colon == text || (v6 && colon[-1] != ']') ||
        parse_u64(colon + 1, 0, UINT16_MAX, &port, &ignored) < 0)
        return -1;
    const char *from = v6 ? text + 1 : text, *to = v6 ? colon - 1 : colon;
    if (to <= from || (size_t)(to - from) >= size)
        return -1;
    (void)snprintf(ret_host, size, "%.*s", (int)(to - from), from);
    *ret_port = (uint16_t)port;
    *ret_v6 = v6;
    return 0;
}

static int parse_address(const char *text, union address *ret, struct err *err)
{
    char host[64];
    uint16_t port;
    bool v6;
    *ret = (union address){0};
    if (split(text, host, sizeof host, &port, &v6) < 0)
        return bad_address(text, err);
    if (v6) {
        ret->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
        return inet_pton(AF_INET6, host, &ret->v6.sin6_addr) == 1 ? 0 : bad_address(text, err);
    }
    ret->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    const char *number = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    return inet_pton(AF_INET, number, &ret->v4.sin_addr) == 1 ? 0 : bad_address(text, err);
}

static bool is_loopback(const union address *a)
{
    if (a->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
    return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
}

static uint16_t port_of(const union address *a)
{
    return ntohs(a->any.sa_family == AF_INET6 ? a->v6.sin6_port : a->v4.sin_port);
}

void listen_name(int fd, char *ret, size_t size)
{
    union address a = {0};
    char host[INET6_ADDRSTRLEN] = "?";
    socklen_t len = sizeof a;
    (void)getsockname(fd, &a.any, &len);
    if (a.any.sa_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &a.v6.sin6_addr, host, sizeof host);
    else
        (void)inet_ntop(AF_INET, &a.v4.sin_addr, host, sizeof host);
    (void)snprintf(ret, size, a.any.sa_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host, port_of(&a));
}

// --- who has a port ---

struct holder {
    pid_t pid; // 0 when it was not found
    char name[32];
};

// The inode of a socket that listens on the port, by the lines of /proc/net/tcp: number, address
// and port in hexadecimal, peer, state (0A listens), ..., inode. 0 if there is none.
static unsigned long find_inode(const char *table, uint16_t port)
{
    char line[512];
    unsigned long found = 0;
    FILE *f = fopen(table, "re");
    if (f == NULL)
        return 0;
    while (found == 0 && fgets(line, sizeof line, f) != NULL) {
        unsigned p, state;
        unsigned long inode;
        if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*s %*s %lu", &p, &state,
                   &inode) == 3 &&
            p == port && state == 0x0a)
            found = inode;
    }
    (void)fclose(f);
    return found;
}

static bool has_socket(const char *pid, const char *link)
{
    char path[64], target[64];
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir != NULL && !found && (e = readdir(dir)) != NULL;) {
        ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        found = strcmp(target, link) == 0;
    }
    if (dir != NULL)
        (void)closedir(dir);
    return found;
}

static struct holder find_holder(uint16_t port)
{
    struct holder h = {0};
    char link[48], path[48];
    unsigned long inode = find_inode("/proc/net/tcp", port);
    if (inode == 0)
        inode = find_inode("/proc/net/tcp6", port);
    DIR *dir = inode != 0 ? opendir("/proc") : NULL;
    (void)snprintf(link, sizeof link, "socket:[%lu]", inode);
    for (struct dirent *e; dir != NULL && h.pid == 0 && (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] < '0' || e->d_name[0] > '9' || !has_socket(e->d_name, link))
            continue;
        h.pid = (pid_t)strtol(e->d_name, NULL, 10);
        (void)snprintf(path, sizeof path, "/proc/%d/comm", h.pid);
        if (fd_read_file(AT_FDCWD, path, h.name, sizeof h.name) > 0)
            h.name[strcspn(h.name, "\n")] = '\0';
    }
    if (dir != NULL)
        (void)closedir(dir);
    return h;
}

static int in_use(const char *text, const struct holder *h, struct err *err)
{
    if (h->pid == 0)
        return err_set(err, ERR_CONFLICT, "listen: %s is in use: choose another port with --listen",
                       text);
    return err_set(err, ERR_CONFLICT,
                   "listen: %s is in use by process %d (%s): end it, or choose another port with "
                   "--listen",
                   text, h->pid, h->name);
}

// --- binding ---

static int bind_tcp(const union address *a)
{
    int one = 1;
    auto_fd fd = socket(a->any.sa_family, SOCKET_FLAGS, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0)
        return -errno;
    socklen_t len = a->any.sa_family == AF_INET6 ? sizeof a->v6 : sizeof a->v4;
    if (bind(fd, &a->any, len) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return TAKE_FD(fd);
}

int listen_tcp(const char *text, bool anywhere, struct err *err)
{
    enum { PATIENCE_MS = 3000, LOOK_MS = 20 };
    union address a;
    if (parse_address(text, &a, err) < 0)
        return -1;
    if (!is_loopback(&a) && !anywhere)
        return err_set(
            err, ERR_DENIED,
            "listen: %.80s can be reached from outside, and what is sent there can be "
            "read on the way: put a proxy that does TLS in front and say --behind-proxy, "
            "or listen on 127.0.0.1",
            text);
    int64_t until = clock_ns() + PATIENCE_MS * NS_PER_MS;
    for (;;) {
        int fd = bind_tcp(&a);
        if (fd >= 0)
            return fd;
        if (fd != -EADDRINUSE)
            return err_sys(err, -fd, "listen: %.80s", text);
        // The daemon of a keeper that was killed is about to end, or so far gone already that its
        // descriptors are not seen any more.
        struct holder h = find_holder(port_of(&a));
        bool passes = h.pid == 0 || strcmp(h.name, "cayd") == 0;
        if (!passes || clock_ns() > until)
            return in_use(text, &h, err);
        (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
    }
}

// --- the unix socket ---

static bool is_answered(const struct sockaddr_un *a)
{
    auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && (connect(fd, (const struct sockaddr *)a, sizeof *a) == 0 || errno == EAGAIN);
}

static int clear_way(const struct sockaddr_un *a, bool ours, struct err *err)
{
    struct stat st;
    if (lstat(a->sun_path, &st) < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "socket: '%s'", a->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, ERR_CONFLICT, "socket: '%s' exists and is not a socket: move it away",
                       a->sun_path);
    if (!ours && is_answered(a))
        return err_set(err, ERR_CONFLICT,
                       "socket: something answers on '%s': end it, or choose another with --socket",
                       a->sun_path);
    return unlink(a->sun_path) < 0 ? err_sys(err, errno, "socket: remove '%s'", a->sun_path) : 0;
}

int listen_unix(const char *path, gid_t gid, bool ours, struct err *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path)
        return err_set(
            err, ERR_INVALID,
            "socket: '%.60s...' is too long for a socket (%zu characters at most): choose "
            "another with --socket",
            path, sizeof a.sun_path - 1);
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    if (clear_way(&a, ours, err) < 0)
        return -1;
    auto_fd fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
    if (fd < 0)
        return err_sys(err, errno, "socket");
    mode_t mask = umask(0777); // nobody's until it has its group
    int r = bind(fd, (const struct sockaddr *)&a, sizeof a) < 0 ? -errno : 0;
    (void)umask(mask);
    if (r == 0 && (lchown(path, 0, gid) < 0 || chmod(path, 0660) < 0 || listen(fd, BACKLOG) < 0))
        r = -errno;
    return r < 0 ? err_sys(err, -r, "socket: '%s'", path) : TAKE_FD(fd);
}
