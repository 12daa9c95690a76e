// SPDX-License-Identifier: Apache-2.0
// Ten million bytes, printed in lines of 80 by a cell and by the same program under exec, both read
// as server-sent events by the same client. Time runs from the request to the last event; that from
// the first of the output on, without the start of exec's Python, is printed beside it. The bytes
// are counted: a letter that nothing else in the events has.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "code.h"

enum { PIECE = 256 * 1024, LETTER = '#', LINES = 125000, LINE_LETTERS = 79 };

#define PROGRAM "for i in range(125000): print('#'*79)"

struct stream {
    const char *path, *body;
    char *piece;
    unsigned long letters;
    char last[8]; // the end of what has come
};

struct took {
    int64_t all, output;
};

static void send_request(struct http_conn *c, const struct stream *s)
{
    char out[HTTP_OUT_MAX];
    int len = snprintf(out, sizeof out,
                       "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nAuthorization: Bearer %s\r\n"
                       "Accept: text/event-stream\r\nContent-Type: application/json\r\n"
                       "Content-Length: %zu\r\n\r\n%s",
                       s->path, c->b->port, c->b->token, strlen(s->body), s->body);
    if (len < 0 || (size_t)len >= sizeof out || send(c->fd, out, (size_t)len, MSG_NOSIGNAL) != len)
        die("%s: send: %m", s->path);
}

static void count(struct stream *s, const char *bytes, size_t len)
{
    const char *end = bytes + len;
    for (const char *at = bytes; (at = memchr(at, LETTER, (size_t)(end - at))) != NULL;) {
        while (at < end && *at == LETTER)
            s->letters++, at++;
    }
    // The last chunk is an empty one.
    size_t keep = len < 5 ? len : 5;
    memmove(s->last, s->last + keep, 5 - keep);
    memcpy(s->last + 5 - keep, end - keep, keep);
}

static struct took run(struct http_conn *c, struct stream *s)
{
    struct took took = {0};
    int64_t began = clock_ns(), first = 0;
    s->letters = 0;
    memset(s->last, 0, sizeof s->last);
    send_request(c, s);
    while (memcmp(s->last, "0\r\n\r\n", 5) != 0) {
        ssize_t n = recv(c->fd, s->piece, PIECE, 0);
        if (n == 0 || (n < 0 && errno != EINTR))
            die("%s: it ends early: %m", s->path);
        if (n > 0)
            count(s, s->piece, (size_t)n);
        if (first == 0 && s->letters > 0)
            first = clock_ns();
    }
    took.all = clock_ns() - began;
    took.output = clock_ns() - first;
    if (s->letters != (unsigned long)LINES * LINE_LETTERS)
        die("%s: %lu of %lu letters came", s->path, s->letters,
            (unsigned long)LINES * LINE_LETTERS);
    return took;
}

void line_code_print(const struct code_bench *b)
{
    static struct http_conn c;
    static char piece[PIECE];
    struct series cell, exec, cell_output, exec_output;
    char id[32], code_path[64], exec_path[64], contexts[64];
    code_name(id, sizeof id, "print");
    (void)snprintf(code_path, sizeof code_path, "/sandbox/%s/code", id);
    (void)snprintf(exec_path, sizeof exec_path, "/sandbox/%s/exec", id);
    (void)snprintf(contexts, sizeof contexts, "/sandbox/%s/contexts", id);
    struct stream ours = {code_path, "{\"context\":\"c\",\"code\":\"" PROGRAM "\"}", piece, 0, ""};
    struct stream other = {exec_path, "{\"argv\":[\"/usr/bin/python3\",\"-c\",\"" PROGRAM "\"]}",
                           piece, 0, ""};
    series_init(&cell, "cell", b->prints);
    series_init(&exec, "exec", b->prints);
    series_init(&cell_output, "cell's output", b->prints);
    series_init(&exec_output, "exec's output", b->prints);
    http_open(&c, &b->http);
    http_create(&c, id);
    (void)http_must(&c, "POST", contexts, "{\"id\":\"c\"}");
    note("ten million bytes printed, %u rounds", b->prints);
    for (unsigned i = 0; i < b->prints; i++) {
        watchdog("what is printed");
        struct took took = run(&c, &other);
        series_add(&exec, took.all);
        series_add(&exec_output, took.output);
        took = run(&c, &ours);
        series_add(&cell, took.all);
        series_add(&cell_output, took.output);
    }
    print_value("print", "bytes", (double)LINES * (LINE_LETTERS + 1));
    series_done(&cell, "print");
    series_done(&exec, "print");
    series_done(&cell_output, "print");
    series_done(&exec_output, "print");
    http_destroy(&c, id);
    http_close(&c);
}
