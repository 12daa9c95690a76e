// SPDX-License-Identifier: Apache-2.0
// Which files a watch of the container family is about: lists of globs, of which one may be given.
// A glob has * and ? (within a name) and ** (across names), and means any run of whole names in the
// file's path from the root: "*.ts", "src/*.ts", "node_modules". One that the watched path itself
// has would mean everything: then it means what lies below. No state, any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "edge/body.h"

enum { FILTER_GLOBS_MAX = 64, FILTER_GLOB_MAX = 255 }; // of a list; bytes of one

struct filter {
    const char *const *include, *const *exclude; // end with NULL; NULL: none
    uint64_t in_root; // those of `exclude` that the watched path has, bit by bit
    const char *root;
    size_t root_len;
};

// The lists and the root must live as long as the filter. ERR_INVALID, and what is wrong with
// which.
int filter_init(struct filter *filter, const char *root, const struct body_strings *include,
                const struct body_strings *exclude, struct err *err);
bool filter_takes(const struct filter *filter, const char *path); // absolute, below the root
// Those of `exclude` that are about single names, for the hand: separated by commas.
void filter_names(const struct filter *filter, struct buf *ret);
bool filter_glob(const char *glob, const char *path);
