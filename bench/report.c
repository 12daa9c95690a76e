// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { PATIENCE_S = 60 };

static const char *program_name = "bench";
static const char *volatile waiting_for = "nothing";

static void say(const char *before, const char *fmt, va_list args)
{
    (void)fputs(before, stderr);
    (void)vfprintf(stderr, fmt, args);
    (void)fputc('\n', stderr);
}

void die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)fprintf(stderr, "%s: ", program_name);
    say("", fmt, args);
    va_end(args);
    exit(1);
}

void note(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say("  ", fmt, args);
    va_end(args);
}

static void tell(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
}

static void out_of_patience(int sig)
{
    (void)sig;
    tell(program_name);
    tell(": waited too long for ");
    tell(waiting_for);
    tell("\n");
    _exit(1);
}

void report_begin(const char *name)
{
    program_name = name;
    (void)signal(SIGALRM, out_of_patience);
    (void)signal(SIGPIPE, SIG_IGN);
}

void watchdog(const char *what)
{
    waiting_for = what;
    (void)alarm(PATIENCE_S);
}

void watchdog_off(void)
{
    (void)alarm(0);
}

void sleep_ms(unsigned ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}
