// SPDX-License-Identifier: Apache-2.0
// What the makers of images share about children that talk: lines of progress, and lines kept
// because one of them may be the reason of a failure.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "box/image-make.h"

void watch_say(const struct image_watch *watch, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void watch_tick(const struct image_watch *watch, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
// Whether we were asked to stop; fills err if so.
bool watch_stopped(const struct image_watch *watch, struct err *err);

// Cuts a stream of bytes into lines, bytes that no terminal should see replaced. Longer lines are
// cut.
struct line_cutter {
    char line[200];
    size_t len;
};

// Calls `each` for every line that `data` completes.
void line_cutter_feed(struct line_cutter *cutter, const char *data, size_t len,
                      void (*each)(void *arg, const char *line), void *arg);
