// SPDX-License-Identifier: Apache-2.0
// What the image `host` takes from the machine's /etc, and by which rules. One table says what;
// nothing else is ever read. A file is copied only when everybody on the machine may read it
// anyway, a link only when it points to where boxes find the same thing (/usr, or what is copied
// with it).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum host_rule {
    HOST_CONFIG, // files, directories, and links within the row or into /usr
    HOST_LINKS,  // links into /usr or within the row, nothing else
    HOST_CERTS, // certificates in PEM, never a key; links among them and to where CAs are installed
    HOST_RULE_MAX,
};

// The whole copy, all rows together, stops here.
enum {
    HOST_ENTRIES_MAX = 8192,
    HOST_DEPTH_MAX = 8,
    HOST_FILE_MAX = 8 * 1024 * 1024,
    HOST_BYTES_MAX = 48 * 1024 * 1024,
};

struct host_copy {
    int from_fd;       // the machine's root
    int to_fd;         // the new root; its etc/ exists
    struct buf *stamp; // notes what the copy was made from (host-stamp.h)
    unsigned entries;
    uint64_t bytes;
};

// A number that is another one when the table is: an image made by another table is stale.
uint64_t host_copy_rows(void);
// 0 or -errno; only trouble with writing counts.
int host_copy_etc(struct host_copy *copy);

// Whether a link that lies at /etc/`path` and says `target` is copied as part of row `row`
// ("ssl/certs").
bool host_link_allowed(enum host_rule rule, const char *row, const char *path, const char *target);
// Whether this file holds certificates and no key.
bool host_is_certificate(const char *text, size_t len);
