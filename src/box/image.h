// SPDX-License-Identifier: Apache-2.0
// An image is a read-only root directory that boxes share, below DATA/images/NAME/. The image `host`
// is made up on first use: a small root of our own (etc, home, mount points), with the machine's /usr
// bound on it. Whoever calls image_open owns the descriptors in the result.
#pragma once

#include <stdbool.h>

#include "base/err.h"

enum {
    IMAGE_NAME_MAX = 64, // with the ending NUL
    IMAGE_BIND_MAX = 8,
};

struct image_bind {
    int fd;             // O_PATH | O_DIRECTORY of the tree on the host
    const char *target; // below the root, without a first slash: "usr". Static.
};

struct image {
    int root_fd; // O_PATH | O_DIRECTORY: the lowest overlay layer
    unsigned n_binds;
    struct image_bind binds[IMAGE_BIND_MAX]; // mounted read-only on top, in order
};

// [a-z0-9][a-z0-9._-]{0,62}, never "." or "..".
bool image_name_valid(const char *name);

// Opens an image; `host` is built or refreshed first when needed. Not found is ERR_NOT_FOUND with what to do.
int image_open(int data_fd, const char *name, struct image *ret, struct err *err);
void image_done(struct image *image);
