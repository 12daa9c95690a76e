// SPDX-License-Identifier: Apache-2.0
// The index of a stored workspace (wire/pack-msg.h) as text in memory, and paths as parts of keys.
// An index comes from cay-pack or from the store, neither of which is believed. No state, any
// thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/pack-msg.h"

// --- paths

// As it stands in keys: control characters, '%', and what is no part of UTF-8 as %XX. Appends.
void path_escape(const char *raw, size_t len, struct buf *ret);
// The reverse; what is no escape stands for itself. The length, or -1: too long, or no path
// (record_path_valid).
ssize_t path_unescape(const char *text, size_t len, char ret[PACK_PATH_MAX]);
// A path as somebody wrote it: as it is shown (escaped), or as it is. -1: no path.
ssize_t path_read(const char *text, char ret[PACK_PATH_MAX]);

// --- the index

struct index_line {
    const char *text; // the whole line, with its end
    size_t text_len;
    char kind; // f, l, d
    uint64_t size;
    int64_t mtime_ns;
    uint32_t mode;
    uint8_t sha256[PACK_SHA256]; // of f
    char path[PACK_PATH_MAX];    // as it is on the disk
    size_t path_len;
};

struct index_reader {
    const char *at, *end;
};

// 0, or -1: this is no index.
int index_open(struct index_reader *reader, const char *text, size_t len);
int index_next(struct index_reader *reader, struct index_line *ret); // 1, 0, -1: damaged

struct index_sums {
    uint64_t files, bytes;
};
// All of it is sound.
int index_check(const char *text, size_t len, struct index_sums *ret, struct err *err);

// Without the lines that contradict a file at `path`, or none there: its own, those below it, and
// those of what is above it and no directory. In place; whether any was dropped.
bool index_drop(char *text, size_t *len, const char *path);

// Appends the same names, but of every file a size and a SHA-256 that none has: whoever compares
// with that takes all for changed. False: too long.
bool index_distrust(const char *text, size_t len, struct buf *ret);
