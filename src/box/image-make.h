// SPDX-License-Identifier: Apache-2.0
// Making images: from a distribution's packages, or from somebody's archive. Either there is a
// whole image in the end or nothing: what was half made is removed, at the latest by the next image
// command when we were killed. They wait for children; for a process with one thread that ignores
// SIGPIPE.
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    IMPORT_ENTRIES_MAX = 1000000,
    IMAGE_PACKAGES_MAX = 16 * 1024, // bytes of names
};
#define IMPORT_BYTES_MAX (UINT64_C(16) << 30)

// How the maker is watched and stopped.
struct image_watch {
    int stop_fd;                               // readable when the work shall end; -1 for never
    void (*say)(void *arg, const char *line);  // a line of progress; may be NULL
    void (*tick)(void *arg, const char *line); // one that the next takes the place of; may be NULL
    void *arg;
};

struct import_limits {
    uint64_t bytes;   // of the archive, unpacked
    uint64_t entries; // files, directories and links
};

// Unpacks a tar archive, plain or compressed by gzip, zstd, xz or bzip2 (its first bytes tell).
int image_import(int data_fd, const char *name, int archive_fd, const struct import_limits *limits,
                 const struct image_watch *watch, struct err *err);

// The recipe must say `from`.
struct recipe;
int image_build(int data_fd, const char *name, const struct recipe *recipe,
                const struct image_watch *watch, struct err *err);
// "debian:SUITE" or "host"
int image_from_check(const char *from, struct err *err);
// Appends a comma-separated list to another, each name checked.
int image_packages_add(struct buf *packages, const char *list, struct err *err);
