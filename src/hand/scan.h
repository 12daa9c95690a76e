// SPDX-License-Identifier: Apache-2.0
// Finds a text in a file, a window of it at a time, so that neither the file nor its lines may be
// too large. Binary files (a NUL among the first bytes) have no matches.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scan_match {
    uint64_t offset;       // in the file
    uint64_t line, column; // from 1
    const char *text;      // the line, cut around the match to SCAN_TEXT bytes; may hold NULs
    size_t text_len;
};
enum { SCAN_TEXT = 1024 };

typedef int (*scan_fn)(void *data, const struct scan_match *match);

// What is looked for, for all scans of this process. At most HAND_DATA_MAX bytes.
void scan_for(const char *text, size_t len, bool no_case);
// Calls fn for each match in the first `max` bytes, until it answers other than 0; answers that, 0,
// or -errno. fd keeps its place.
int scan_file(int fd, uint64_t max, scan_fn fn, void *data);
