// SPDX-License-Identifier: Apache-2.0
// An image is a read-only root directory that boxes share: DATA/images/NAME/rootfs, with a few
// lines about it in DATA/images/NAME/meta. The image `host` is made up on first use: a small root
// of our own (etc, home, mount points), with the machine's /usr bound on it, made anew when what it
// was copied from has changed.
//
// Whoever calls image_open owns the descriptors in the result and keeps `lock_fd` open for as long
// as a box stands on the image: it is a shared lock, without which the image may be removed. One
// thread at a time; any number of processes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    IMAGE_NAME_MAX = 64, // with the ending NUL
    IMAGE_KIND_MAX = 64, // the same
    IMAGE_BIND_MAX = 8,
    IMAGE_COUNT_MAX = 4096, // that image_list tells of
};

#define IMAGE_HOST "host"

struct image_bind {
    int fd;             // O_PATH | O_DIRECTORY of the tree on the host
    const char *target; // below the root, without a first slash: "usr". Static.
};

struct image {
    int root_fd; // O_PATH | O_DIRECTORY: the lowest overlay layer
    int lock_fd; // holds the image; belongs to no box, must not be passed on
    unsigned n_binds;
    struct image_bind binds[IMAGE_BIND_MAX]; // laid over it, in order
};

// [a-z0-9][a-z0-9._-]{0,62}
bool image_name_valid(const char *name);
int image_name_check(const char *name, struct err *err); // the same, with what would do in err

// Opens an image; those of kind "host" have this machine's /usr. `host` itself is built or
// refreshed first when needed. Not found is ERR_NOT_FOUND with what to do.
int image_open(int data_fd, const char *name, struct image *ret, struct err *err);
void image_done(struct image *image);

struct image_info {
    char name[IMAGE_NAME_MAX];
    char kind[IMAGE_KIND_MAX]; // "host", "debian:bookworm", "import"
    uint64_t bytes;            // on disk
    int64_t made;              // seconds since 1970; 0 for a host image that nobody has used yet
};

// All images by name, `host` among them even before it is made. The caller frees *ret.
int image_list(int data_fd, struct image_info **ret, size_t *ret_n, struct err *err);
// ERR_CONFLICT while a box stands on it. `host` may be removed too: it is made again when it is
// wanted.
int image_remove(int data_fd, const char *name, struct err *err);
// Removes what a killed command left behind. What another process still works on stays.
int image_sweep(int data_fd, struct err *err);
