// SPDX-License-Identifier: Apache-2.0
// Small calls: an exec while somebody else downloads a file that must come from the disk, and a
// file of 1 KB written and read.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "ways.h"

enum { WARM_UP = 20, COLD_MAX = 20, SMALL = 1024, EXECS_MAX = 100 * 1000 };

// --- an exec beside a download

// Nothing of the large file is in memory: the box forgets its pages, and the machine those of the
// volume, if it has any.
static void make_cold(const struct ways *w, struct http_conn *c)
{
    struct http_answer answer =
        http_must(c, "POST", "/sandbox/ways/exec",
                  "{\"argv\":[\"/workspace/ways-end\",\"cold\",\"/workspace/big\"]}");
    const char *out = strstr(answer.body, "\"stdout\":\"");
    if (!http_exec_good(&answer) || out == NULL)
        die("the file cannot be made cold: %.300s", answer.body);
    long stay = strtol(out + strlen("\"stdout\":\""), NULL, 10);
    if (stay > COLD_MAX)
        die("%ld of 1000 pages of the file stay in memory", stay);
    int fd = open(w->volume, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        die("%s: %m", w->volume);
    fd_close(fd);
}

static pid_t start_download(const struct ways *w)
{
    const struct side side = ways_cay(w, WAYS_FILES "big");
    pid_t pid = fork();
    if (pid < 0)
        die("fork: %m");
    if (pid == 0) {
        (void)ways_download(w, &side);
        _exit(0);
    }
    return pid;
}

static bool has_ended(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, WNOHANG) == 0)
        return false;
    if (status != 0)
        die("a download failed");
    return true;
}

static void timed_exec(struct http_conn *c, struct series *to)
{
    int64_t began = clock_ns();
    http_exec(c, "beside", HTTP_EXEC_TRUE);
    series_add(to, clock_ns() - began);
}

// Execs until the download has ended, and as many without it.
static void one_round(const struct ways *w, struct http_conn *c, struct series *with,
                      struct series *without, struct series *download)
{
    watchdog("an exec beside a download");
    make_cold(w, c);
    unsigned before = with->n;
    int64_t began = clock_ns();
    for (pid_t pid = start_download(w); !has_ended(pid);)
        timed_exec(c, with);
    series_add(download, clock_ns() - began);
    watchdog("an exec");
    for (unsigned i = before; i < with->n; i++)
        timed_exec(c, without);
}

void line_beside(const struct ways *w)
{
    static struct http_conn c;
    struct series with, without, download;
    http_open(&c, &w->http);
    series_init(&with, "with", EXECS_MAX);
    series_init(&without, "without", EXECS_MAX);
    series_init(&download, "the cold download", w->few);
    note("exec while a cold file is downloaded, %u rounds", w->few);
    for (unsigned i = 0; i < WARM_UP; i++)
        http_exec(&c, "beside", HTTP_EXEC_TRUE);
    for (unsigned i = 0; i < w->few; i++)
        one_round(w, &c, &with, &without, &download);
    series_done(&with, "beside");
    series_done(&without, "beside");
    series_done(&download, "beside");
    http_close(&c);
}

// --- a small file

static int64_t write_and_read(struct http_conn *c, char *text)
{
    static unsigned last;
    // Never the same twice: what is read is what was written.
    (void)snprintf(text, 12, "%011u", ++last);
    text[11] = '.';
    int64_t began = clock_ns();
    (void)http_must(c, "PUT", WAYS_FILES "small", text);
    struct http_answer answer = http_must(c, "GET", WAYS_FILES "small", NULL);
    int64_t took = clock_ns() - began;
    if (strcmp(answer.body, text) != 0)
        die("a small file is not what was written");
    return took;
}

void line_small(const struct ways *w)
{
    static struct http_conn c;
    char text[SMALL + 1];
    struct series ours, bare;
    memset(text, 'x', SMALL);
    text[SMALL] = '\0';
    http_open(&c, &w->http);
    series_init(&ours, "write and read", w->rounds);
    series_init(&bare, "bare", w->rounds);
    note("a file of 1 KB, written and read, %u rounds", w->rounds);
    for (unsigned i = 0; i < WARM_UP; i++)
        (void)write_and_read(&c, text);
    for (unsigned i = 0; i < 2 * w->rounds; i++) {
        watchdog("a small file");
        if ((i + i / 2) % 2 == 0)
            series_add(&bare, bare_true());
        else
            series_add(&ours, write_and_read(&c, text));
    }
    series_done(&ours, "small");
    series_done(&bare, "small");
    http_close(&c);
}
