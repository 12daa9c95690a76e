// SPDX-License-Identifier: Apache-2.0
// Files by the container protocol, beside the commands that do the same; and a read while a
// command runs in the same session.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "clients.h"

enum { WARM_UP = 20, LISTED = 20, READS_MAX = 100 * 1000, PAUSE_MS = 2 };

struct operation {
    const char *line, *route;
    const char *command; // the path goes behind it
    const char *name;
    bool is_fresh;    // each round has a name of its own
    const char *more; // fields
};

#define TEN     "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define KILOBYTE                                                                                   \
    HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED                \
        "of 1 KB, as it is."

static const struct operation operations[] = {
    {"write",  "/api/write",      "printf %s '" KILOBYTE "' > ", "new",    true,
     ",\"content\":\"" KILOBYTE "\""                                                               },
    {"read",   "/api/read",       "cat ",                        "small",  false, ""               },
    {"exists", "/api/exists",     "test -e ",                    "small",  false, ""               },
    {"mkdir",  "/api/mkdir",      "mkdir ",                      "made",   true,  ""               },
    {"list",   "/api/list-files", "ls -l ",                      "listed", false, ",\"options\":{}"},
};

// --- the same operation on both sides ---

static void name_of(const struct operation *op, char ret[32])
{
    static unsigned last;
    if (op->is_fresh)
        (void)snprintf(ret, 32, "%s-%u", op->name, ++last);
    else
        (void)snprintf(ret, 32, "%s", op->name);
}

static int64_t ours(struct http_conn *c, const struct operation *op)
{
    char name[32];
    name_of(op, name);
    int64_t began = clock_ns();
    route_must(c, op->route, "{\"path\":\"/workspace/%s\",\"sessionId\":\"main\"%s}", name,
               op->more);
    return clock_ns() - began;
}

static int64_t bare(const struct clients *b, const struct operation *op)
{
    char name[32], command[2048];
    name_of(op, name);
    (void)snprintf(command, sizeof command, "%s%s/%s", op->command, b->dir, name);
    return bare_bash(command).end;
}

// Both sides have the same files.
static void prepare(const struct clients *b, struct http_conn *c)
{
    char command[3072];
    (void)snprintf(command, sizeof command,
                   "cd %s && mkdir listed && touch listed/f{1..%d} && printf %%s '%s' > small",
                   b->dir, LISTED, KILOBYTE);
    (void)bare_bash(command);
    route_must(c, "/api/write",
               "{\"path\":\"/workspace/small\",\"content\":\"%s\",\"sessionId\":\"main\"}",
               KILOBYTE);
    route_must(c, "/api/execute",
               "{\"command\":\"mkdir /workspace/listed && touch /workspace/listed/f{1..%d}\","
               "\"sessionId\":\"main\"}",
               LISTED);
}

static void measure(const struct clients *b, struct http_conn *c, const struct operation *op)
{
    struct series mine, theirs;
    series_init(&mine, "ours", b->http.rounds);
    series_init(&theirs, "bare", b->http.rounds);
    for (unsigned i = 0; i < WARM_UP; i++) {
        (void)ours(c, op);
        (void)bare(b, op);
    }
    for (unsigned i = 0; i < 2 * b->http.rounds; i++) {
        watchdog(op->line);
        if ((i + i / 2) % 2 == 0)
            series_add(&theirs, bare(b, op));
        else
            series_add(&mine, ours(c, op));
    }
    series_done(&mine, op->line);
    series_done(&theirs, op->line);
}

void line_files(const struct clients *b)
{
    static struct http_conn c;
    http_open(&c, &b->http);
    prepare(b, &c);
    note("files, %u rounds each", b->http.rounds);
    for (unsigned i = 0; i < sizeof operations / sizeof *operations; i++)
        measure(b, &c, &operations[i]);
    http_close(&c);
}

// --- a read while a command runs ---

static bool has_come(const struct http_conn *c)
{
    struct pollfd poll_fd = {.fd = c->fd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) > 0;
}

static void read_one(struct http_conn *c, struct series *to)
{
    static const char small[] = "{\"path\":\"/workspace/small\",\"sessionId\":\"main\"}";
    int64_t began = clock_ns();
    route_must(c, "/api/read", "%s", small);
    series_add(to, clock_ns() - began);
    sleep_ms(PAUSE_MS);
}

void line_during(const struct clients *b)
{
    static struct http_conn busy, c;
    struct series with, without;
    http_open(&busy, &b->http);
    http_open(&c, &b->http);
    series_init(&with, "during", READS_MAX);
    series_init(&without, "without", READS_MAX);
    note("a read while `sleep 1` runs in the session, %u rounds", b->http.few);
    route_must(&c, "/api/write",
               "{\"path\":\"/workspace/small\",\"content\":\"%s\",\"sessionId\":\"main\"}",
               KILOBYTE);
    for (unsigned i = 0; i < b->http.few; i++) {
        watchdog("a read while a command runs");
        unsigned before = with.n;
        route_begin(&busy, "/api/execute", "{\"command\":\"sleep 1\",\"sessionId\":\"main\"}");
        sleep_ms(100);
        while (!has_come(&busy))
            read_one(&c, &with);
        (void)route_read(&busy, NULL);
        for (unsigned n = before; n < with.n; n++)
            read_one(&c, &without);
    }
    series_done(&with, "during");
    series_done(&without, "during");
    http_close(&busy);
    http_close(&c);
}
