// SPDX-License-Identifier: Apache-2.0
// What a directory consisted of at its last sync (wire/pack-msg.h): read, looked up, written. Comes
// back from a store, so it is looked at as anybody's text.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/pack-msg.h"

struct index_entry {
    char kind; // f, l, d
    bool has_hash;
    uint32_t mode, uid, gid;
    uint64_t size;
    int64_t mtime_ns;
    uint8_t sha256[PACK_SHA256];
    const char *path;   // not escaped
    const char *target; // of a link, else ""
};

struct index {
    struct index_entry *entries; // by path
    size_t n, room;
    struct index_text *texts; // that paths and targets are in
};

void index_done(struct index *index); // an index of zeros is an empty one
// All of `text`, "" for none; ERR_INVALID for what is no index. Changes it, and keeps pointing into
// it.
int index_parse(struct index *index, char *text, size_t len, struct err *err);
const struct index_entry *index_find(const struct index *index, const char *path);
// Copies the entry, with its texts. 0 or -ENOMEM. Sorted only when index_sort is called.
int index_add(struct index *index, const struct index_entry *entry);
void index_sort(struct index *index);
// The whole text; look at out->failed.
void index_print(const struct index *index, struct buf *out);

// A path that is one: no part of it is "", "." or "..", and it is not too long.
bool index_is_path(const char *path);
void index_escape(struct buf *out, const char *text);
size_t index_escaped_len(const char *text);
size_t index_escaped_part(const char *text); // the longest between slashes
