// SPDX-License-Identifier: Apache-2.0
// Many sandboxes are asked for at the same moment, each on a connection of its own, and used at
// once. Ready is one whose first exec has answered. Before it, the same alone, for the single
// figure.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "http-client.h"

enum step {
    STEP_CREATE, // waits for the answer to POST /sandbox
    STEP_EXEC,   // waits for that of its first exec
    STEP_DONE,
};

struct member {
    struct http_conn conn;
    char id[32];
    enum step step;
    bool failed;
};

static void fail(struct member *m, const char *what, const char *why)
{
    note("%s of %s failed: %.200s", what, m->id, why);
    m->failed = true;
    m->step = STEP_DONE;
}

static void start(struct member *m, unsigned round, unsigned i)
{
    char body[128];
    (void)snprintf(m->id, sizeof m->id, "burst-%u-%u", round, i);
    (void)snprintf(body, sizeof body, "{\"id\":\"%s\",\"keepAlive\":true}", m->id);
    m->step = STEP_CREATE;
    m->failed = false;
    if (http_begin(&m->conn, "POST", "/sandbox", body) < 0)
        fail(m, "create", "the connection broke");
}

static void go_on(struct member *m)
{
    struct http_answer answer;
    char path[96];
    int r = http_more(&m->conn, &answer);
    if (r == 0)
        return;
    if (r < 0) {
        fail(m, m->step == STEP_CREATE ? "create" : "exec", "the connection broke");
    } else if (m->step == STEP_EXEC) {
        m->step = STEP_DONE;
        if (!http_exec_good(&answer))
            fail(m, "exec", answer.body);
    } else if (answer.status < 200 || answer.status > 299) {
        fail(m, "create", answer.body);
    } else {
        (void)snprintf(path, sizeof path, "/sandbox/%s/exec", m->id);
        m->step = STEP_EXEC;
        if (http_begin(&m->conn, "POST", path, HTTP_EXEC_TRUE) < 0)
            fail(m, "exec", "the connection broke");
    }
}

static unsigned wait_for(struct member *m, struct pollfd *fds, unsigned n)
{
    unsigned left = 0;
    for (unsigned i = 0; i < n; i++) {
        fds[i] =
            (struct pollfd){.fd = m[i].step == STEP_DONE ? -1 : m[i].conn.fd, .events = POLLIN};
        left += m[i].step != STEP_DONE;
    }
    if (left == 0 || poll(fds, n, -1) < 0)
        return left;
    for (unsigned i = 0; i < n; i++) {
        if (fds[i].fd >= 0 && fds[i].revents != 0)
            go_on(&m[i]);
    }
    return left;
}

static int64_t one_burst(struct member *m, struct pollfd *fds, unsigned n, unsigned round)
{
    int64_t began = clock_ns();
    for (unsigned i = 0; i < n; i++)
        start(&m[i], round, i);
    while (wait_for(m, fds, n) > 0)
        ;
    return clock_ns() - began;
}

// Takes them away again, and waits for the pool.
static unsigned clear(struct member *m, unsigned n)
{
    unsigned failed = 0;
    for (unsigned i = 0; i < n; i++) {
        failed += m[i].failed;
        if (m[i].failed) { // its connection may be in any state
            http_close(&m[i].conn);
            http_open(&m[i].conn, m[0].conn.b);
        } else {
            http_destroy(&m[i].conn, m[i].id);
        }
    }
    http_settle(&m[0].conn);
    return failed;
}

void line_http_burst(const struct http_bench *b)
{
    enum { ROUNDS = 10 };
    struct member *m = calloc(b->burst, sizeof *m);
    struct pollfd *fds = calloc(b->burst, sizeof *fds);
    struct series single, all;
    unsigned failed = 0, rounds = b->few < ROUNDS ? b->few : ROUNDS;
    if (m == NULL || fds == NULL)
        die("no memory for %u connections", b->burst);
    series_init(&single, "one", rounds * 5);
    series_init(&all, "all", rounds);
    for (unsigned i = 0; i < b->burst; i++)
        http_open(&m[i].conn, b);
    note("%u sandboxes at once, %u rounds", b->burst, rounds);
    http_settle(&m[0].conn);
    for (unsigned i = 0; i < rounds * 6; i++) {
        watchdog("sandboxes at once");
        int is_all = i % 6 == 5;
        int64_t ns = one_burst(m, fds, is_all ? b->burst : 1, i);
        series_add(is_all ? &all : &single, ns);
        failed += clear(m, is_all ? b->burst : 1);
    }
    series_done(&single, "burst");
    series_done(&all, "burst");
    print_value("burst", "sandboxes", b->burst);
    print_value("burst", "failed", failed);
    for (unsigned i = 0; i < b->burst; i++)
        http_close(&m[i].conn);
    free(m);
    free(fds);
}
