// SPDX-License-Identifier: Apache-2.0
#include "cli/spinner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

enum { PERIOD_NS = 100 * 1000 * 1000, FRAMES = 10 };

static bool speaks_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"}; // the first that is set
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0')
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
    }
    return false;
}

void spinner_init(struct spinner *spinner, bool wanted)
{
    const char *term = getenv("TERM");
    bool can = isatty(STDERR_FILENO) && term != NULL && strcmp(term, "dumb") != 0;
    *spinner = (struct spinner){.timer = -1, .utf8 = speaks_utf8()};
    if (wanted && can) // without a timer there is none: no reason to stop
        spinner->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
}

void spinner_done(struct spinner *spinner)
{
    spinner_stop(spinner);
    if (spinner->timer > 0)
        fd_close(spinner->timer);
    spinner->timer = -1;
}

int spinner_fd(const struct spinner *spinner)
{
    return spinner->timer;
}

static void set_timer(const struct spinner *spinner, long period_ns)
{
    const struct timespec period = {.tv_nsec = period_ns};
    const struct itimerspec when = {.it_interval = period, .it_value = period};
    (void)timerfd_settime(spinner->timer, 0, &when, NULL);
}

void spinner_start(struct spinner *spinner, const char *text)
{
    if (spinner->timer < 0)
        return;
    if (spinner->text == NULL || strcmp(spinner->text, text) != 0)
        spinner->since_ns = clock_ns();
    spinner->text = text;
    if (!spinner->is_running)
        set_timer(spinner, PERIOD_NS);
    spinner->is_running = true;
}

void spinner_stop(struct spinner *spinner)
{
    if (!spinner->is_running)
        return;
    set_timer(spinner, 0);
    if (spinner->is_drawn)
        (void)fd_write_all(STDERR_FILENO, "\r\033[K", 4);
    spinner->is_running = spinner->is_drawn = false;
}

void spinner_tick(struct spinner *spinner)
{
    static const char *const dots[FRAMES] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
    static const char *const strokes[4] = {"|", "/", "-", "\\"};
    uint64_t times;
    char line[160];
    if (spinner->timer < 0 || read(spinner->timer, &times, sizeof times) < 0 ||
        !spinner->is_running)
        return;
    const char *frame = spinner->utf8 ? dots[spinner->frame % FRAMES] : strokes[spinner->frame % 4];
    spinner->frame++;
    int n = snprintf(line, sizeof line, "\r%s %.60s %.1fs\033[K", frame, spinner->text,
                     (double)(clock_ns() - spinner->since_ns) / 1e9);
    (void)fd_write_all(STDERR_FILENO, line, (size_t)n);
    spinner->is_drawn = true;
}
