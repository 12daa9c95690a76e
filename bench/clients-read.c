// SPDX-License-Identifier: Apache-2.0
// Answers of the container protocol: JSON of any length, and events in chunks.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "clients.h"

enum { PIECE = 256 * 1024, LINE_LONG = 1024 };

// What has come of an answer and was not looked at yet. One answer is read at a time, to its end.
static char piece[PIECE];
static size_t at, len;

// What is looked for, how much of it was just there, and when it was whole.
struct search {
    const char *mark;
    size_t found;
    int64_t when;
};

// --- requests ---

static void begin(struct http_conn *c, const char *route, const char *fmt, va_list args)
{
    char path[128], body[HTTP_OUT_MAX];
    (void)snprintf(path, sizeof path, "/sandbox/clients/container%s", route);
    if (vsnprintf(body, sizeof body, fmt, args) >= (int)sizeof body)
        die("a body for %s is too long", route);
    int r = http_begin(c, "POST", path, body);
    if (r < 0)
        die("%s: %s", route, strerrordesc_np(-r));
}

void route_begin(struct http_conn *c, const char *route, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    begin(c, route, fmt, args);
    va_end(args);
}

void route_must(struct http_conn *c, const char *route, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    begin(c, route, fmt, args);
    va_end(args);
    if (route_read(c, "\"success\":true").marked == 0)
        die("%s: no success", route);
}

// --- answers ---

static void fill(struct http_conn *c)
{
    ssize_t n;
    do
        n = recv(c->fd, piece, sizeof piece, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        die("an answer ends early: %s", n < 0 ? strerrordesc_np(errno) : "it hangs up");
    at = 0;
    len = (size_t)n;
}

static void read_line(struct http_conn *c, char ret[LINE_LONG])
{
    size_t n = 0;
    for (;;) {
        if (at == len)
            fill(c);
        char byte = piece[at++];
        if (byte == '\n')
            break;
        if (byte != '\r' && n < LINE_LONG - 1)
            ret[n++] = byte;
    }
    ret[n] = '\0';
}

static void look(struct search *s, const char *bytes, size_t n)
{
    if (s->mark == NULL) {
        s->when = s->when == 0 && n > 0 ? clock_ns() : s->when;
        return;
    }
    for (size_t i = 0; i < n && s->when == 0; i++) {
        s->found = bytes[i] == s->mark[s->found] ? s->found + 1 : bytes[i] == s->mark[0];
        if (s->mark[s->found] == '\0')
            s->when = clock_ns();
    }
}

static void read_bytes(struct http_conn *c, size_t n, struct search *s)
{
    while (n > 0) {
        if (at == len)
            fill(c);
        size_t part = n < len - at ? n : len - at;
        if (s->when == 0)
            look(s, piece + at, part);
        at += part;
        n -= part;
    }
}

static size_t read_chunks(struct http_conn *c, struct search *s)
{
    char line[LINE_LONG];
    size_t sum = 0;
    for (;;) {
        read_line(c, line);
        size_t n = strtoul(line, NULL, 16);
        read_bytes(c, n, s);
        sum += n;
        read_line(c, line); // the chunk's end, or that of all
        if (n == 0)
            return sum;
    }
}

struct whole route_read(struct http_conn *c, const char *mark)
{
    char line[LINE_LONG];
    struct search search = {.mark = mark};
    size_t length = 0;
    bool chunked = false;
    read_line(c, line);
    int status = strncmp(line, "HTTP/1.1 ", 9) == 0 ? (int)strtol(line + 9, NULL, 10) : 0;
    for (read_line(c, line); line[0] != '\0'; read_line(c, line)) {
        if (strncasecmp(line, "Content-Length:", 15) == 0)
            length = strtoul(line + 15, NULL, 10);
        chunked = chunked || strncasecmp(line, "Transfer-Encoding: chunked", 26) == 0;
    }
    if (status != 200)
        die("an answer with status %d: %.*s", status, (int)(len - at), piece + at);
    if (chunked)
        length = read_chunks(c, &search);
    else
        read_bytes(c, length, &search);
    if (at != len)
        die("more came than was asked for");
    return (struct whole){.marked = search.when, .body = length};
}
