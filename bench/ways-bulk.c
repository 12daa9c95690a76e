// SPDX-License-Identifier: Apache-2.0
// One large file, down and up, beside nginx. The client is the same for both: a connection of its
// own each time, the clock runs from connect to the last byte (or the answer). What is downloaded
// is discarded by the kernel (MSG_TRUNC), so that the client is not what is measured.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "ways.h"

enum { PIECE = 1024 * 1024, HEAD_MAX = 8 * 1024, SIDES = 3 };

struct answer {
    int status;
    uint64_t length;
    size_t early; // bytes of the body that came with the head
};

struct side ways_cay(const struct ways *w, const char *path)
{
    return (struct side){"cay", w->http.port, path, w->http.token};
}

// --- one request

static int open_side(const struct side *side)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons(side->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        die("connect to %s: %m", side->name);
    return fd;
}

static void send_head(int fd, const struct side *side, const char *method, uint64_t length)
{
    char head[1024], token[256] = "", body[64] = "";
    if (side->token != NULL)
        (void)snprintf(token, sizeof token, "Authorization: Bearer %s\r\n", side->token);
    if (length > 0)
        (void)snprintf(body, sizeof body, "Content-Length: %llu\r\n", (unsigned long long)length);
    int len = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s%s\r\n",
                       method, side->path, side->port, token, body);
    if (fd_write_all(fd, head, (size_t)len) < 0)
        die("%s: send: %m", side->name);
}

static struct answer read_head(int fd, const struct side *side)
{
    char head[HEAD_MAX];
    const char *end = NULL;
    size_t len = 0;
    while (end == NULL) {
        ssize_t n = recv(fd, head + len, sizeof head - 1 - len, 0);
        if (n <= 0)
            die("%s: no answer: %s", side->name, n < 0 ? strerrordesc_np(errno) : "it hangs up");
        len += (size_t)n;
        head[len] = '\0';
        end = strstr(head, "\r\n\r\n");
    }
    const char *length = strcasestr(head, "\r\nContent-Length:");
    struct answer answer = {
        .status = (int)strtol(head + strlen("HTTP/1.1 "), NULL, 10),
        .early = len - (size_t)(end + 4 - head),
    };
    if (length != NULL && length < end)
        answer.length = strtoull(length + strlen("\r\nContent-Length:"), NULL, 10);
    return answer;
}

static void discard(int fd, uint64_t bytes, const struct side *side)
{
    while (bytes > 0) {
        ssize_t n = recv(fd, NULL, bytes < PIECE ? bytes : PIECE, MSG_TRUNC);
        if (n == 0 || (n < 0 && errno != EINTR))
            die("%s: it ends early: %m", side->name);
        bytes -= n > 0 ? (uint64_t)n : 0;
    }
}

static void remove_file(const struct side *side)
{
    int fd = open_side(side);
    send_head(fd, side, "DELETE", 0);
    struct answer answer = read_head(fd, side);
    if (answer.status < 200 || answer.status > 299)
        die("%s: DELETE: %d", side->name, answer.status);
    fd_close(fd);
}

// --- down

int64_t ways_download(const struct ways *w, const struct side *side)
{
    int64_t began = clock_ns();
    int fd = open_side(side);
    send_head(fd, side, "GET", 0);
    struct answer answer = read_head(fd, side);
    if (answer.status != 200 || answer.length != w->bytes)
        die("%s: GET: %d, %llu bytes", side->name, answer.status,
            (unsigned long long)answer.length);
    discard(fd, answer.length - answer.early, side);
    int64_t took = clock_ns() - began;
    fd_close(fd);
    return took;
}

void line_download(const struct ways *w)
{
    const struct side sides[SIDES] = {
        ways_cay(w, WAYS_FILES "big"),
        {"nginx",                  w->nginx, "/big", NULL},
        {"nginx without a volume", w->plain, "/big", NULL},
    };
    struct series series[SIDES];
    note("download of a large file, %u rounds", w->few);
    for (unsigned i = 0; i < SIDES; i++) {
        watchdog("a download");
        series_init(&series[i], sides[i].name, w->few);
        (void)ways_download(w, &sides[i]); // warms the cache
    }
    for (unsigned i = 0; i < SIDES * w->few; i++) {
        watchdog("a download");
        unsigned side = (i + i / SIDES) % SIDES;
        series_add(&series[side], ways_download(w, &sides[side]));
    }
    for (unsigned i = 0; i < SIDES; i++)
        series_done(&series[i], "download");
}

// --- up

static int64_t upload(const struct side *side, uint64_t bytes)
{
    static char piece[PIECE];
    int64_t began = clock_ns();
    int fd = open_side(side);
    send_head(fd, side, "PUT", bytes);
    for (uint64_t left = bytes; left > 0;) {
        ssize_t n = send(fd, piece, left < PIECE ? left : PIECE, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            die("%s: it takes no more: %m", side->name);
        left -= n > 0 ? (uint64_t)n : 0;
    }
    struct answer answer = read_head(fd, side);
    if (answer.status < 200 || answer.status > 299)
        die("%s: PUT: %d", side->name, answer.status);
    int64_t took = clock_ns() - began;
    fd_close(fd);
    return took;
}

// In KiB, of the daemon's /proc/PID/status.
static uint64_t memory_of(pid_t pid, const char *name)
{
    char path[64], text[4096];
    (void)snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        die("%s: %m", path);
    const char *at = strstr(text, name);
    if (at == NULL)
        die("%s has no %s", path, name);
    return strtoull(at + strlen(name), NULL, 10);
}

// The most that the daemon had resident during one upload, beside what it had before; small ones
// before it have had what is used at all brought in.
static void measure_memory(const struct ways *w, const struct side *side)
{
    enum { WARM_UP = 4, WARM_UP_BYTES = 8 * 1024 * 1024 };
    char path[64];
    pid_t pid = http_daemon(&w->http);
    for (unsigned i = 0; i < WARM_UP; i++)
        (void)upload(side, WARM_UP_BYTES);
    (void)snprintf(path, sizeof path, "/proc/%d/clear_refs", pid);
    if (fd_write_file(AT_FDCWD, path, "5") < 0) // the peak begins anew
        die("%s: %m", path);
    uint64_t before = memory_of(pid, "VmRSS:"), anon = memory_of(pid, "RssAnon:");
    (void)upload(side, w->bytes);
    print_value("upload", "peak", ((double)memory_of(pid, "VmHWM:") - (double)before) / 1024);
    print_value("upload", "anon", ((double)memory_of(pid, "RssAnon:") - (double)anon) / 1024);
    print_value("upload", "resident", (double)before / 1024);
}

// What the last one wrote is gone, and nothing waits to be written any more.
static void settle(const struct side *side)
{
    remove_file(side);
    sync();
    watchdog("an upload");
}

void line_upload(const struct ways *w)
{
    const struct side sides[SIDES] = {
        ways_cay(w, WAYS_FILES "put"),
        {"nginx",                  w->nginx, "/put", NULL},
        {"nginx without a volume", w->plain, "/put", NULL},
    };
    struct series series[SIDES];
    note("upload of a large file, %u rounds", w->few);
    watchdog("an upload");
    measure_memory(w, &sides[0]);
    settle(&sides[0]);
    for (unsigned i = 0; i < SIDES; i++)
        series_init(&series[i], sides[i].name, w->few);
    for (unsigned i = 0; i < SIDES * w->few; i++) {
        unsigned side = (i + i / SIDES) % SIDES;
        series_add(&series[side], upload(&sides[side], w->bytes));
        settle(&sides[side]);
    }
    for (unsigned i = 0; i < SIDES; i++)
        series_done(&series[i], "upload");
}
