// SPDX-License-Identifier: Apache-2.0
// When directories were changed: set last, since whatever is put into one changes it.
#pragma once

#include <stddef.h>
#include <time.h>

#include "base/err.h"

struct place;

struct times { // of zeros: empty
    char *data;
    size_t len, room;
};

int times_add(struct times *times, const char *path, const struct timespec *mtime); // or -ENOMEM
int times_apply(const struct times *times, struct place *place, struct err *err);
void times_done(struct times *times);
