// SPDX-License-Identifier: Apache-2.0
// ways-end: the far end of what the ways in and out are measured with. One small static program, so
// that the same one runs in a box and beside nginx or socat:
//
//   serve PORT                  HTTP with 20 bytes to say, and WebSockets that say them back
//   source PORT BYTES           sends as many to whoever connects
//   drain HOST:PORT BYTES [VIA] reads as many, from there or by CONNECT through the proxy that the
//                               variable VIA names; prints the nanoseconds from connect to end
//   cold FILE                   has the kernel forget its pages; prints how many stay, of a
//   thousand
#include "ways-end.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"
#include "bench.h"

enum { PIECE = 256 * 1024 };

static char piece[PIECE];

static uint64_t number(const char *text, uint64_t max)
{
    struct err err = {0};
    uint64_t n;
    if (parse_u64(text, 1, max, &n, &err) < 0)
        die("'%s': %s", text, err.msg);
    return n;
}

// --- connections

int end_listen(uint16_t port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 512) < 0)
        die("listen on port %u: %m", port);
    return fd;
}

// "HOST:PORT", and the host is an address.
static int connect_to(const char *text)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    char host[64];
    const char *colon = strrchr(text, ':');
    if (colon == NULL)
        die("'%s' has no port", text);
    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    to.sin_port = htons((uint16_t)number(colon + 1, UINT16_MAX));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || inet_pton(AF_INET, host, &to.sin_addr) != 1 ||
        connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        die("connect to %s: %m", text);
    return fd;
}

// --- a source, and what drains it

static void send_all(int fd, uint64_t bytes)
{
    while (bytes > 0) {
        ssize_t n = send(fd, piece, bytes < PIECE ? bytes : PIECE, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return; // whoever reads says what it missed
        bytes -= n > 0 ? (uint64_t)n : 0;
    }
}

static void source(uint16_t port, uint64_t bytes)
{
    int listener = end_listen(port);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        send_all(fd, bytes);
        (void)shutdown(fd, SHUT_WR);
        fd_close(fd);
    }
}

static int connect_via(const char *target, const char *variable)
{
    char head[512];
    const char *proxy = getenv(variable);
    if (proxy == NULL || strncmp(proxy, "http://", 7) != 0)
        die("%s names no proxy", variable);
    (void)snprintf(head, sizeof head, "%.*s", (int)strcspn(proxy + 7, "/"), proxy + 7);
    int fd = connect_to(head);
    int len =
        snprintf(head, sizeof head, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target);
    if (fd_write_all(fd, head, (size_t)len) < 0)
        die("send CONNECT: %m");
    // A byte at a time: what follows the head is not ours to count here.
    size_t n = 0;
    while (n < sizeof head - 1 && (n < 4 || memcmp(head + n - 4, "\r\n\r\n", 4) != 0)) {
        if (read(fd, head + n, 1) != 1)
            die("the proxy ends: %.*s", (int)n, head);
        n++;
    }
    head[n] = '\0';
    if (strncmp(head, "HTTP/1.1 200", 12) != 0)
        die("CONNECT: %s", head);
    return fd;
}

static void drain(const char *target, uint64_t bytes, const char *variable)
{
    int64_t began = clock_ns();
    int fd = variable != NULL ? connect_via(target, variable) : connect_to(target);
    uint64_t got = 0;
    for (ssize_t n; (n = read(fd, piece, PIECE)) != 0;) {
        if (n < 0 && errno != EINTR)
            die("read: %m");
        got += n > 0 ? (uint64_t)n : 0;
    }
    if (got != bytes)
        die("%llu bytes came, not %llu", (unsigned long long)got, (unsigned long long)bytes);
    (void)printf("%lld\n", (long long)(clock_ns() - began));
}

// --- a cold file

static void cold(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0 || fstat(fd, &st) < 0 ||
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        die("%s: %m", path);
    size_t pages = ((size_t)st.st_size + 4095) / 4096, stay = 0;
    unsigned char *in = malloc(pages);
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (in == NULL || at == MAP_FAILED || mincore(at, (size_t)st.st_size, in) < 0)
        die("%s: %m", path);
    for (size_t i = 0; i < pages; i++)
        stay += in[i] & 1;
    (void)printf("%zu\n", stay * 1000 / pages);
}

int main(int argc, char **argv)
{
    report_begin("ways-end");
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        end_serve((uint16_t)number(argv[2], UINT16_MAX));
    else if (argc == 4 && strcmp(argv[1], "source") == 0)
        source((uint16_t)number(argv[2], UINT16_MAX), number(argv[3], UINT64_MAX));
    else if ((argc == 4 || argc == 5) && strcmp(argv[1], "drain") == 0)
        drain(argv[2], number(argv[3], UINT64_MAX), argv[4]);
    else if (argc == 3 && strcmp(argv[1], "cold") == 0)
        cold(argv[2]);
    else
        die("see the top of ways-end.c for what it can do");
    return 0;
}
