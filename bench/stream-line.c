// SPDX-License-Identifier: Apache-2.0
// 1 GiB of standard output: the same writer bare and in a box, one pipe between it and the same
// reading loop. And what `cay run` passes on to its own standard output, for information.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "client.h"

#define TOTAL (INT64_C(1) << 30)

enum { CHUNK = 64 * 1024 };

struct writer {
    const char *name;
    const char *const *argv;
};

static const char *const head_argv[] = {"/usr/bin/head", "-c", "1G", "/dev/zero", NULL};
static const char *const dd_argv[] = {"/usr/bin/dd", "if=/dev/zero", "bs=64k",
                                      "count=16384", "status=none",  NULL};
static const struct writer writers[] = {
    {"head", head_argv}, // writes of 8 KiB
    {"dd",   dd_argv  }, // of 64
};

static void read_all(int fd)
{
    static char bytes[CHUNK];
    int64_t total = 0;
    ssize_t n;
    while ((n = read(fd, bytes, sizeof bytes)) != 0) {
        if (n < 0 && errno != EINTR)
            die("read: %m");
        total += n > 0 ? n : 0;
    }
    if (total != TOTAL)
        die("%lld bytes came of %lld", (long long)total, (long long)TOTAL);
}

static int64_t bare(const char *const *argv)
{
    int ends[2], status;
    int64_t began = clock_ns();
    if (pipe2(ends, O_CLOEXEC) < 0)
        die("pipe: %m");
    pid_t pid = fork();
    if (pid < 0)
        die("fork: %m");
    if (pid == 0) {
        (void)dup2(ends[1], 1);
        (void)execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    fd_close(ends[1]);
    read_all(ends[0]);
    fd_close(ends[0]);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        die("%s failed", argv[0]);
    return clock_ns() - began;
}

static int64_t in_box(const struct box_handle *box, const char *const *argv)
{
    struct exec_spec spec = client_exec(argv);
    struct streams streams;
    int64_t began = clock_ns();
    box_start(box, &spec, &streams);
    read_all(streams.out);
    box_finish(box, &streams);
    return clock_ns() - began;
}

static void measure(const struct bench *b, const struct box_handle *box, const struct writer *w)
{
    const char *const cay[] = {b->cay,     "run",      "--data",   b->data,    "--", w->argv[0],
                               w->argv[1], w->argv[2], w->argv[3], w->argv[4], NULL};
    struct series pipe_times, box_times, run_times;
    char line[32];
    note("1 GiB from %s, %u rounds", w->name, b->few);
    series_init(&pipe_times, "bare", b->few);
    series_init(&box_times, "exec", b->few);
    series_init(&run_times, "run", b->few);
    for (unsigned i = 0; i < b->few; i++) {
        watchdog("1 GiB");
        series_add(&pipe_times, bare(w->argv));
        series_add(&box_times, in_box(box, w->argv));
        series_add(&run_times, bare(cay));
    }
    (void)snprintf(line, sizeof line, "stream-%s", w->name);
    series_done(&pipe_times, line);
    series_done(&box_times, line);
    series_done(&run_times, line);
}

void line_stream(const struct bench *b)
{
    struct client c;
    struct box_handle box;
    client_start(&c, b, 1, 0, 0);
    box_claim(&c, &box);
    for (unsigned i = 0; i < sizeof writers / sizeof *writers; i++)
        measure(b, &box, &writers[i]);
    box_destroy(&c, &box);
    box_gone(&c, &box);
    client_stop(&c);
}
