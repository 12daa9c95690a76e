// SPDX-License-Identifier: Apache-2.0
#include "http-client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

enum { SETTLE_MAX_S = 30 };

// --- one connection ---

int http_connect(struct http_conn *c, const struct http_bench *b, bool wait)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons(b->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int on = 1;
    int type = SOCK_STREAM | SOCK_CLOEXEC | (wait ? 0 : SOCK_NONBLOCK);
    c->b = b;
    c->len = 0;
    c->fd = socket(AF_INET, type, 0);
    if (c->fd < 0)
        return -errno;
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS)
        return 0;
    int r = -errno;
    http_close(c);
    return r;
}

void http_open(struct http_conn *c, const struct http_bench *b)
{
    int r = http_connect(c, b, true);
    if (r < 0)
        die("connect to port %u: %s", b->port, strerrordesc_np(-r));
}

void http_close(struct http_conn *c)
{
    fd_close(c->fd);
    c->fd = -1;
}

int http_begin(struct http_conn *c, const char *method, const char *path, const char *body)
{
    char out[HTTP_OUT_MAX];
    size_t body_len = body != NULL ? strlen(body) : 0;
    char content[96] = "";
    if (body != NULL)
        (void)snprintf(content, sizeof content,
                       "Content-Type: application/json\r\nContent-Length: %zu\r\n", body_len);
    int len =
        snprintf(out, sizeof out,
                 "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nAuthorization: Bearer %s\r\n%s\r\n%s",
                 method, path, c->b->port, c->b->token, content, body != NULL ? body : "");
    if (len < 0 || (size_t)len >= sizeof out)
        die("a request for %s is too long", path);
    c->len = 0;
    ssize_t n = send(c->fd, out, (size_t)len, MSG_NOSIGNAL);
    if (n < 0)
        return -errno;
    return n == len ? 0 : -EAGAIN; // small: a socket that takes only part of it is not well
}

// --- answers ---

// Of the whole answer, head and body; 0 while the head is not there.
static size_t answer_len(struct http_conn *c, struct http_answer *ret)
{
    char *end = memmem(c->in, c->len, "\r\n\r\n", 4);
    if (end == NULL)
        return 0;
    *end = '\0';
    const char *length = strcasestr(c->in, "\r\nContent-Length:");
    if (strncmp(c->in, "HTTP/1.1 ", 9) != 0 || length == NULL)
        die("an answer that this client does not understand: %.200s", c->in);
    ret->status = (int)strtol(c->in + 9, NULL, 10);
    ret->body = end + 4;
    unsigned long body = strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
    *end = '\r';
    return (size_t)(end + 4 - c->in) + body;
}

int http_more(struct http_conn *c, struct http_answer *ret)
{
    ssize_t n = recv(c->fd, c->in + c->len, sizeof c->in - 1 - c->len, 0);
    if (n <= 0)
        return n == 0 ? -EPIPE : errno == EAGAIN || errno == EINTR ? 0 : -errno;
    c->len += (size_t)n;
    c->in[c->len] = '\0';
    size_t whole = answer_len(c, ret);
    if (whole >= sizeof c->in || (whole == 0 && c->len == sizeof c->in - 1))
        die("an answer is too long");
    if (whole > 0 && c->len > whole)
        die("more came than was asked for: %.200s", c->in + whole);
    return whole > 0 && c->len == whole;
}

struct http_answer http_call(struct http_conn *c, const char *method, const char *path,
                             const char *body)
{
    struct http_answer answer;
    int r = http_begin(c, method, path, body);
    while (r == 0)
        r = http_more(c, &answer);
    if (r < 0)
        die("%s %s: %s", method, path, strerrordesc_np(-r));
    return answer;
}

struct http_answer http_must(struct http_conn *c, const char *method, const char *path,
                             const char *body)
{
    struct http_answer answer = http_call(c, method, path, body);
    if (answer.status < 200 || answer.status > 299)
        die("%s %s: %d %.300s", method, path, answer.status, answer.body);
    return answer;
}

// --- what the lines ask for ---

bool http_exec_good(const struct http_answer *answer)
{
    return answer->status == 200 && http_number(answer, "exitCode") == 0;
}

void http_create(struct http_conn *c, const char *id)
{
    char body[128];
    (void)snprintf(body, sizeof body, "{\"id\":\"%s\",\"keepAlive\":true}", id);
    (void)http_must(c, "POST", "/sandbox", body);
}

void http_exec(struct http_conn *c, const char *id, const char *body)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/sandbox/%s/exec", id);
    struct http_answer answer = http_call(c, "POST", path, body);
    if (!http_exec_good(&answer))
        die("%s: %d %.300s", path, answer.status, answer.body);
}

void http_destroy(struct http_conn *c, const char *id)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/sandbox/%s", id);
    (void)http_must(c, "DELETE", path, NULL);
}

double http_number(const struct http_answer *answer, const char *name)
{
    char key[64];
    (void)snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(answer->body, key);
    if (at == NULL)
        return -1;
    at += strlen(key);
    char *end;
    double value = strtod(at, &end);
    return end == at ? -1 : value;
}

void http_settle(struct http_conn *c)
{
    static double wanted = -1;
    int64_t until = clock_ns() + SETTLE_MAX_S * NS_PER_S;
    for (;;) {
        struct http_answer answer = http_must(c, "GET", "/health", NULL);
        double ready = http_number(&answer, "ready");
        if (wanted < 0)
            wanted = ready;
        if (ready >= wanted)
            return;
        if (clock_ns() > until)
            die("the pool has %.0f boxes and had %.0f", ready, wanted);
        sleep_ms(1);
    }
}

// --- the daemon ---

static bool is_daemon(long pid)
{
    char path[64], name[32];
    (void)snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    return fd_read_file(AT_FDCWD, path, name, sizeof name) > 0 && strcmp(name, "cayd\n") == 0;
}

pid_t http_daemon(const struct http_bench *b)
{
    static char text[256 * 1024]; // a keeper is the parent of every guest
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", b->keeper, b->keeper);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        die("%s: %m", path);
    char *rest = text;
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        long pid = strtol(word, NULL, 10);
        if (pid > 0 && is_daemon(pid))
            return (pid_t)pid;
    }
    return 0;
}
