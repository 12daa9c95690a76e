// SPDX-License-Identifier: Apache-2.0
// The call to the model alone, as the server makes it: by a small client on a connection that
// stays, and by curl.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "ask.h"
#include "base/clock.h"
#include "base/fd.h"

enum { BODY_MAX = 64 * 1024, PIECE = 64 * 1024, TAIL = 5 };

#define KEY     "x-api-key: sk-ant-stand-in"
#define VERSION "anthropic-version: 2023-06-01"
#define TYPE    "content-type: application/json"

static char *read_body(const char *file)
{
    char *body = malloc(BODY_MAX);
    if (body == NULL || fd_read_file(AT_FDCWD, file, body, BODY_MAX) <= 0)
        die("%s: %m", file);
    return body;
}

static int connect_to(uint16_t port)
{
    struct http_bench there = {.port = port, .token = ""};
    struct http_conn *c = calloc(1, sizeof *c);
    if (c == NULL)
        die("no memory");
    http_open(c, &there);
    int fd = c->fd;
    free(c);
    return fd;
}

void model_open(struct model_conn *c, const struct ask_bench *b, const char *body_file)
{
    char *body = read_body(body_file);
    int len = asprintf(&c->request,
                       "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nAccept: */*\r\n" TYPE
                       "\r\n" VERSION "\r\n" KEY "\r\nContent-Length: %zu\r\n\r\n%s",
                       b->model_port, strlen(body), body);
    if (len < 0)
        die("no memory");
    c->len = (size_t)len;
    c->fd = connect_to(b->model_port);
    free(body);
}

// Keeps the last bytes of all that has come.
static void keep_tail(char tail[TAIL], const char *bytes, size_t len)
{
    size_t keep = len < TAIL ? len : TAIL;
    memmove(tail, tail + keep, TAIL - keep);
    memcpy(tail + TAIL - keep, bytes + len - keep, keep);
}

struct model_took model_call(struct model_conn *c)
{
    static char piece[PIECE];
    char tail[TAIL] = "";
    struct model_took took = {0};
    int64_t began = clock_ns();
    if (send(c->fd, c->request, c->len, MSG_NOSIGNAL) != (ssize_t)c->len)
        die("a request to the stand-in: %m");
    while (memcmp(tail, "0\r\n\r\n", TAIL) != 0) {
        ssize_t n = recv(c->fd, piece, sizeof piece, 0);
        if (n <= 0)
            die("the stand-in's answer ends early: %m");
        if (took.first == 0) {
            took.first = clock_ns() - began;
            if (strncmp(piece, "HTTP/1.1 200 ", 13) != 0)
                die("the stand-in: %.300s", piece);
        }
        keep_tail(tail, piece, (size_t)n);
    }
    took.all = clock_ns() - began;
    return took;
}

void model_close(struct model_conn *c)
{
    fd_close(c->fd);
    free(c->request);
    *c = (struct model_conn){.fd = -1};
}

int64_t model_curl(const struct ask_bench *b, const char *body_file)
{
    char url[64], data[512];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/v1/messages", b->model_port);
    (void)snprintf(data, sizeof data, "@%s", body_file);
    const char *const argv[] = {"/usr/bin/curl", "-q", "-sf", "-H", TYPE, "-H", VERSION, "-H", KEY,
                                "--data-binary", data, url,   NULL};
    return bare_command(argv);
}
