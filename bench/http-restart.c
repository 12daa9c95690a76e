// SPDX-License-Identifier: Apache-2.0
// The daemon is killed while somebody connects again and again. No connect may be refused; how long
// it takes until one is answered, and until an exec is, is what is measured.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "http-client.h"

enum {
    ROUNDS = 5,
    PROBES_MAX = 4096,
    PROBE_EVERY_MS = 2,
    BEFORE_MS = 20, // probes before the kill
    APART_MS = 1500,
};

struct probe {
    struct http_conn conn;
    bool exec;  // else /health
    bool after; // the kill
    bool over;
};

struct restart {
    const struct http_bench *b;
    struct probe *probes[PROBES_MAX];
    struct pollfd fds[PROBES_MAX];
    unsigned n;
    int64_t killed;
    int64_t health, exec; // when the first was answered
    unsigned refused;     // connects
    unsigned broken;      // requests of connections that the old daemon had, or that went wrong
    unsigned unwell;      // answers that were not 200, after the kill
};

static void add_probe(struct restart *r, bool exec)
{
    if (r->n == PROBES_MAX)
        return;
    struct probe *p = calloc(1, sizeof *p);
    if (p == NULL)
        die("no memory");
    r->probes[r->n++] = p;
    p->exec = exec;
    p->after = r->killed != 0;
    int e = http_connect(&p->conn, r->b, false);
    if (e < 0) {
        r->refused++;
        note("connect: %s", strerrordesc_np(-e));
        p->over = true;
        return;
    }
    e = exec ? http_begin(&p->conn, "POST", "/sandbox/many-0/exec", HTTP_EXEC_TRUE)
             : http_begin(&p->conn, "GET", "/health", NULL);
    if (e < 0) {
        r->broken++;
        p->over = true;
    }
}

static void end_probe(struct probe *p)
{
    p->over = true;
    http_close(&p->conn);
}

static void take_answer(struct restart *r, struct probe *p)
{
    struct http_answer answer;
    int n = http_more(&p->conn, &answer);
    if (n == 0)
        return;
    bool good = n > 0 && (p->exec ? http_exec_good(&answer) : answer.status == 200);
    if (n < 0) {
        r->refused += p->after && n == -ECONNREFUSED;
        r->broken += !(p->after && n == -ECONNREFUSED);
    } else if (!good) {
        r->unwell += p->after;
    }
    if (good && p->after && p->exec && r->exec == 0)
        r->exec = clock_ns();
    if (good && p->after && !p->exec && r->health == 0)
        r->health = clock_ns();
    bool again = p->exec && p->after && !good;
    end_probe(p);
    if (again)
        add_probe(r, true);
}

static unsigned poll_probes(struct restart *r)
{
    unsigned open = 0;
    for (unsigned i = 0; i < r->n; i++) {
        struct probe *p = r->probes[i];
        r->fds[i] = (struct pollfd){.fd = p->over ? -1 : p->conn.fd, .events = POLLIN};
        open += !p->over;
    }
    unsigned n = r->n;
    if (poll(r->fds, n, PROBE_EVERY_MS) <= 0)
        return open;
    for (unsigned i = 0; i < n; i++) {
        if (r->fds[i].fd >= 0 && r->fds[i].revents != 0)
            take_answer(r, r->probes[i]);
    }
    return open;
}

static void forget(struct restart *r)
{
    for (unsigned i = 0; i < r->n; i++) {
        if (!r->probes[i]->over)
            http_close(&r->probes[i]->conn);
        free(r->probes[i]);
    }
    r->n = 0;
}

static void one_restart(struct restart *r)
{
    pid_t daemon = http_daemon(r->b);
    r->killed = r->health = r->exec = 0;
    if (daemon == 0)
        die("there is no daemon");
    int64_t began = clock_ns(), last = 0;
    unsigned open = 1;
    while (open > 0 || r->health == 0 || r->exec == 0) {
        int64_t now = clock_ns();
        if (r->killed == 0 && now - began > BEFORE_MS * NS_PER_MS) {
            if (kill(daemon, SIGKILL) < 0)
                die("kill the daemon: %m");
            r->killed = clock_ns();
            add_probe(r, true);
        }
        if (now - last >= PROBE_EVERY_MS * NS_PER_MS && (r->health == 0 || r->exec == 0)) {
            add_probe(r, false);
            last = now;
        }
        open = poll_probes(r);
    }
    forget(r);
}

// How many sandboxes do not answer any more.
static unsigned count_lost(const struct http_bench *b)
{
    static struct http_conn c;
    unsigned lost = 0;
    char path[64];
    http_open(&c, b);
    for (unsigned i = 0; i < b->many; i++) {
        watchdog("an exec after a restart");
        (void)snprintf(path, sizeof path, "/sandbox/many-%u/exec", i);
        struct http_answer answer = http_call(&c, "POST", path, HTTP_EXEC_TRUE);
        lost += !http_exec_good(&answer);
    }
    http_close(&c);
    return lost;
}

void measure_restart(const struct http_bench *b)
{
    static struct restart r;
    struct series health, exec;
    r.b = b;
    series_init(&health, "/health", ROUNDS);
    series_init(&exec, "exec", ROUNDS);
    note("the daemon is killed, %d rounds", ROUNDS);
    for (unsigned i = 0; i < ROUNDS; i++) {
        watchdog("an answer after a restart");
        sleep_ms(APART_MS); // one that lives too briefly is started later
        one_restart(&r);
        series_add(&health, r.health - r.killed);
        series_add(&exec, r.exec - r.killed);
    }
    series_done(&health, "restart");
    series_done(&exec, "restart");
    print_value("restart", "refused", r.refused);
    print_value("restart", "broken", r.broken);
    print_value("restart", "unwell", r.unwell);
    print_value("restart", "lost", count_lost(b));
}
