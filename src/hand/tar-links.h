// SPDX-License-Identifier: Apache-2.0
// Which files with several names are in an archive already, and by which. Bounded: what finds no
// room is in the archive once for each of its names. Begins as zeros.
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum {
    TAR_LINKS_MAX = 32768,
    TAR_LINKS_SLOTS = 2 * TAR_LINKS_MAX,
    TAR_LINKS_TEXT = 8 * 1024 * 1024,
};

struct tar_links {
    uint32_t n, text_len;
    struct {
        uint64_t dev, ino;
        uint32_t text; // where its name begins, plus 1; 0: free
    } slot[TAR_LINKS_SLOTS];
    char text[TAR_LINKS_TEXT];
};

const char *tar_links_find(const struct tar_links *links, dev_t dev, ino_t ino); // or NULL
void tar_links_add(struct tar_links *links, dev_t dev, ino_t ino, const char *name);
