// SPDX-License-Identifier: Apache-2.0
// box-bench --data DIR --cay PROGRAM [--quick] LINE...: measures lines of the benchmark. bench/run
// calls it and makes a table of what it prints.
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/title.h"
#include "base/weaken.h"
#include "bench.h"

enum { PATIENCE_S = 60 };

static const char *volatile waiting_for = "nothing";

void die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)fputs("box-bench: ", stderr);
    (void)vfprintf(stderr, fmt, args);
    (void)fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void note(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)fputs("  ", stderr);
    (void)vfprintf(stderr, fmt, args);
    (void)fputc('\n', stderr);
    va_end(args);
}

static void out_of_patience(int sig)
{
    static const char text[] = "box-bench: waited too long for ";
    (void)sig;
    (void)!write(2, text, sizeof text - 1);
    (void)!write(2, waiting_for, strlen(waiting_for));
    (void)!write(2, "\n", 1);
    _exit(1);
}

void watchdog(const char *what)
{
    waiting_for = what;
    (void)alarm(PATIENCE_S);
}

void sleep_ms(unsigned ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

struct line {
    const char *name;
    void (*run)(const struct bench *b);
};

static const struct line lines[] = {
    {"claim",   line_claim  },
    {"cold",    line_cold   },
    {"exec",    line_exec   },
    {"command", line_command},
    {"version", line_version},
    {"rate",    line_rate   },
    {"memory",  line_memory },
    {"stream",  line_stream },
};

static void run_line(const struct bench *b, const char *name)
{
    for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (strcmp(lines[i].name, name) == 0) {
            lines[i].run(b);
            (void)alarm(0);
            return;
        }
    }
    die("there is no line '%s'", name);
}

int main(int argc, char **argv)
{
    struct bench b = {.rounds = 400, .few = 20, .seconds = 10, .boxes = 1000};
    int i = 1;
    weaken_init();
    title_init(argc, argv);
    (void)signal(SIGALRM, out_of_patience);
    (void)signal(SIGPIPE, SIG_IGN);
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            b = (struct bench){b.data,       b.cay,      .rounds = 50, .few = 3,
                               .seconds = 2, .quick = 1, .boxes = 100};
        else if (strcmp(argv[i], "--data") == 0 && i + 1 < argc)
            b.data = argv[++i];
        else if (strcmp(argv[i], "--cay") == 0 && i + 1 < argc)
            b.cay = argv[++i];
        else
            die("usage: box-bench --data DIR --cay PROGRAM [--quick] LINE...");
    }
    if (b.data == NULL || b.cay == NULL)
        die("usage: box-bench --data DIR --cay PROGRAM [--quick] LINE...");
    for (; i < argc; i++)
        run_line(&b, argv[i]);
    return 0;
}
