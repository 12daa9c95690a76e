// SPDX-License-Identifier: Apache-2.0
#include "box/watch.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>

static void tell(void (*fn)(void *arg, const char *line), void *arg, const char *fmt, va_list ap)
{
    char line[256];
    if (fn == NULL)
        return;
    (void)vsnprintf(line, sizeof line, fmt, ap);
    fn(arg, line);
}

void watch_say(const struct image_watch *watch, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tell(watch->say, watch->arg, fmt, ap);
    va_end(ap);
}

void watch_tick(const struct image_watch *watch, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tell(watch->tick, watch->arg, fmt, ap);
    va_end(ap);
}

bool watch_stopped(const struct image_watch *watch, struct err *err)
{
    struct pollfd stop = {.fd = watch->stop_fd, .events = POLLIN};
    if (poll(&stop, 1, 0) <= 0)
        return false;
    (void)err_set(err, ERR_UNAVAILABLE, "interrupted, nothing was kept");
    return true;
}

void line_cutter_feed(struct line_cutter *cutter, const char *data, size_t len,
                      void (*each)(void *arg, const char *line), void *arg)
{
    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        if (c == '\n' || c == '\r') {
            cutter->line[cutter->len] = '\0';
            if (cutter->len > 0)
                each(arg, cutter->line);
            cutter->len = 0;
        } else if (cutter->len < sizeof cutter->line - 1) {
            cutter->line[cutter->len++] = c >= ' ' && c <= '~' ? c : '?';
        }
    }
}
