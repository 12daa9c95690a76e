// SPDX-License-Identifier: Apache-2.0
// Processes that watch while others are measured: how long GET /health takes at worst, and how much
// memory the server has with all that it started.
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ask.h"
#include "base/clock.h"
#include "base/fd.h"

enum { PIDS_MAX = 256 * 1024, HEALTH_EVERY_MS = 2, KIB_OF_A_MIB = 1024 };

struct watcher { // shared with its process
    pid_t pid;
    atomic_bool began, stop;
    double most;
};

typedef double look_fn(const struct http_bench *b);

static void watch(struct watcher *w, look_fn *look, const struct http_bench *b)
{
    while (!w->stop) {
        double now = look(b);
        w->most = now > w->most ? now : w->most;
        w->began = true;
    }
}

static struct watcher *start(look_fn *look, const struct http_bench *b)
{
    struct watcher *w =
        mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w == MAP_FAILED)
        die("mmap: %m");
    pid_t pid = fork();
    if (pid < 0)
        die("fork: %m");
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        watch(w, look, b);
        _exit(0);
    }
    w->pid = pid;
    while (!w->began) {
        sleep_ms(1);
        if (waitpid(pid, NULL, WNOHANG) != 0)
            die("what watches has failed");
    }
    return w;
}

double watcher_done(struct watcher *w)
{
    int status = 0;
    w->stop = true;
    if (waitpid(w->pid, &status, 0) != w->pid || status != 0)
        die("what watched has ended with status 0x%x", (unsigned)status);
    double most = w->most;
    (void)munmap(w, sizeof *w);
    return most;
}

// --- /health

static double ask_health(const struct http_bench *b)
{
    static struct http_conn c = {.fd = -1};
    if (c.fd < 0)
        http_open(&c, b);
    int64_t began = clock_ns();
    (void)http_must(&c, "GET", "/health", NULL);
    double ms = (double)(clock_ns() - began) / (double)NS_PER_MS;
    sleep_ms(HEALTH_EVERY_MS);
    return ms;
}

struct watcher *watch_health(const struct http_bench *b)
{
    return start(ask_health, b);
}

// --- memory

// KiB behind a name in a file of a process; 0 when it has gone.
static double kib_of(long pid, const char *file, const char *name)
{
    char path[64], text[8192];
    (void)snprintf(path, sizeof path, "/proc/%ld/%s", pid, file);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        return 0;
    const char *at = strstr(text, name);
    return at != NULL ? strtod(at + strlen(name), NULL) : 0;
}

// Pages, each divided by how many share it, and the tables of pages.
static double kib_of_tree(long pid)
{
    char path[64];
    double kib = kib_of(pid, "smaps_rollup", "Pss:") + kib_of(pid, "status", "VmPTE:");
    char *text = malloc(PIDS_MAX);
    (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", pid, pid);
    if (text == NULL)
        die("no memory");
    if (fd_read_file(AT_FDCWD, path, text, PIDS_MAX) > 0) {
        char *rest = text;
        for (char *word; (word = strsep(&rest, " ")) != NULL;) {
            long child = strtol(word, NULL, 10);
            kib += child > 0 ? kib_of_tree(child) : 0;
        }
    }
    free(text);
    return kib;
}

static double look_at_memory(const struct http_bench *b)
{
    return kib_of_tree(b->keeper) / KIB_OF_A_MIB;
}

struct watcher *watch_memory(const struct http_bench *b)
{
    return start(look_at_memory, b);
}
