// SPDX-License-Identifier: Apache-2.0
// A further cell in a context that runs, beside the same cell through ipykernel: a client of its
// own (bench/ipykernel-cells.py) runs one whenever it is told to, so that both take turns.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "code.h"

enum { WARM_UP = 50, QUIET_MS = 20, QUIET_SHARE = 10 };

// --- ipykernel

struct other {
    pid_t pid;
    int to, from;
};

static int64_t hear(struct other *o)
{
    char line[32];
    size_t len = 0;
    while (len < sizeof line - 1 && (len == 0 || line[len - 1] != '\n')) {
        ssize_t n = read(o->from, line + len, sizeof line - 1 - len);
        if (n == 0)
            die("ipykernel's client has ended");
        if (n < 0 && errno != EINTR)
            die("ipykernel's client: %m");
        len += n > 0 ? (size_t)n : 0;
    }
    line[len] = '\0';
    return strtoll(line, NULL, 10);
}

static void other_start(struct other *o, const char *program)
{
    int in[2], out[2];
    watchdog("ipykernel");
    if (pipe(in) < 0 || pipe(out) < 0)
        die("pipe: %m");
    o->pid = fork();
    if (o->pid < 0)
        die("fork: %m");
    if (o->pid == 0) {
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(out[1], STDOUT_FILENO);
        for (int i = 0; i < 2; i++) {
            (void)close(in[i]);
            (void)close(out[i]);
        }
        (void)execl("/usr/bin/python3", "python3", program, (char *)NULL);
        _exit(127);
    }
    fd_close(in[0]);
    fd_close(out[1]);
    o->to = in[1];
    o->from = out[0];
    (void)hear(o); // it is ready
}

static int64_t other_cell(struct other *o)
{
    if (write(o->to, "\n", 1) != 1)
        die("ipykernel's client: %m");
    return hear(o);
}

static void other_end(struct other *o)
{
    fd_close(o->to);
    while (waitpid(o->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    fd_close(o->from);
}

// --- ours

static int64_t one_cell(struct http_conn *c, const char *id)
{
    int64_t began = clock_ns();
    code_run(c, id, "{\"context\":\"c\",\"code\":\"1+1\"}", "\"text\":\"2\"");
    return clock_ns() - began;
}

static void measure(struct http_conn *c, const char *id, struct other *o, unsigned rounds,
                    unsigned quiet_ms, const char *line)
{
    struct series ours, theirs;
    series_init(&ours, "cell", rounds);
    series_init(&theirs, "ipykernel", rounds);
    for (unsigned i = 0; i < WARM_UP; i++) {
        (void)one_cell(c, id);
        (void)other_cell(o);
    }
    for (unsigned i = 0; i < 2 * rounds; i++) {
        watchdog("a cell");
        if (quiet_ms > 0)
            sleep_ms(quiet_ms);
        if ((i + i / 2) % 2 == 0)
            series_add(&theirs, other_cell(o));
        else
            series_add(&ours, one_cell(c, id));
    }
    series_done(&ours, line);
    series_done(&theirs, line);
}

void line_code_cell(const struct code_bench *b)
{
    static struct http_conn c;
    struct other o;
    char id[32], path[96];
    code_name(id, sizeof id, "cell");
    http_open(&c, &b->http);
    http_create(&c, id);
    (void)snprintf(path, sizeof path, "/sandbox/%s/contexts", id);
    (void)http_must(&c, "POST", path, "{\"id\":\"c\"}");
    other_start(&o, b->ipykernel);
    note("a further cell, %u rounds", b->cells);
    measure(&c, id, &o, b->cells, 0, "cell");
    note("the same after %d ms of quiet, %u rounds", QUIET_MS, b->cells / QUIET_SHARE);
    measure(&c, id, &o, b->cells / QUIET_SHARE, QUIET_MS, "cell-quiet");
    other_end(&o);
    http_destroy(&c, id);
    http_close(&c);
}
