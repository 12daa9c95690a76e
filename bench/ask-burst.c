// SPDX-License-Identifier: Apache-2.0
// Many questions in the same moment, each on a connection of its own. Half of the rounds have
// somebody beside them who asks for /health all the time; in the others memory is looked at, which
// takes so much of the machine that their times do not count.
#include <poll.h>
#include <stdlib.h>

#include "ask.h"
#include "base/clock.h"

enum { PLATEAU_MS = 1000 };

struct member {
    struct http_conn conn;
    struct http_answer answer;
    bool waits, failed;
};

struct burst {
    const struct ask_bench *b;
    struct member *members;
    struct pollfd *fds;
    unsigned failed;
};

static void end(struct member *m, const char *trouble)
{
    m->waits = false;
    m->failed = trouble != NULL;
    if (trouble != NULL)
        note("a question failed: %.200s", trouble);
}

static void start(struct member *m)
{
    m->waits = true;
    if (http_begin(&m->conn, "POST", "/execute", ask_question()) < 0)
        end(m, "the connection broke");
}

static void go_on(struct member *m)
{
    int r = http_more(&m->conn, &m->answer);
    if (r < 0)
        end(m, "the connection broke");
    else if (r > 0)
        end(m, ask_good(&m->answer) ? NULL : m->answer.body);
}

static unsigned wait_for(struct burst *u)
{
    unsigned left = 0, n = u->b->at_once;
    for (unsigned i = 0; i < n; i++) {
        struct member *m = &u->members[i];
        u->fds[i] = (struct pollfd){.fd = m->waits ? m->conn.fd : -1, .events = POLLIN};
        left += m->waits;
    }
    if (left == 0 || poll(u->fds, n, -1) < 0)
        return left;
    for (unsigned i = 0; i < n; i++) {
        if (u->fds[i].fd >= 0 && u->fds[i].revents != 0)
            go_on(&u->members[i]);
    }
    return left;
}

static int64_t all_at_once(struct burst *u)
{
    int64_t began = clock_ns();
    for (unsigned i = 0; i < u->b->at_once; i++)
        start(&u->members[i]);
    while (wait_for(u) > 0)
        ;
    return clock_ns() - began;
}

static void clear(struct burst *u)
{
    for (unsigned i = 0; i < u->b->at_once; i++) {
        struct member *m = &u->members[i];
        u->failed += m->failed;
        if (!m->failed) {
            ask_clear(&m->conn, &m->answer);
            continue;
        }
        http_close(&m->conn); // it may be in any state
        http_open(&m->conn, &u->b->http);
    }
}

static double measure_memory(struct burst *u)
{
    struct watcher *w = watch_memory(&u->b->http);
    (void)all_at_once(u);
    sleep_ms(PLATEAU_MS); // their sandboxes are still awake
    double most = watcher_done(w);
    clear(u);
    return most;
}

static double max(double a, double b)
{
    return a > b ? a : b;
}

void line_ask_burst(const struct ask_bench *b)
{
    struct burst u = {
        .b = b,
        .members = calloc(b->at_once, sizeof *u.members),
        .fds = calloc(b->at_once, sizeof *u.fds),
    };
    struct series all;
    double health = 0, memory = 0;
    if (u.members == NULL || u.fds == NULL)
        die("no memory for %u connections", b->at_once);
    series_init(&all, "all", b->bursts);
    for (unsigned i = 0; i < b->at_once; i++)
        http_open(&u.members[i].conn, &b->http);
    note("%u questions at once, %u rounds", b->at_once, b->bursts);
    for (unsigned i = 0; i < b->bursts; i++) {
        ask_prepare(&u.members[0].conn);
        struct watcher *w = watch_health(&b->http);
        series_add(&all, all_at_once(&u));
        health = max(health, watcher_done(w));
        clear(&u);
        ask_prepare(&u.members[0].conn);
        memory = max(memory, measure_memory(&u));
    }
    series_done(&all, "burst");
    print_value("burst", "questions", b->at_once);
    print_value("burst", "rounds", 2.0 * b->bursts);
    print_value("burst", "failed", u.failed);
    print_value("burst", "memory", memory);
    print_value("burst", "health", health);
    for (unsigned i = 0; i < b->at_once; i++)
        http_close(&u.members[i].conn);
    free(u.members);
    free(u.fds);
}
