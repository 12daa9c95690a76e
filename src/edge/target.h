// SPDX-License-Identifier: Apache-2.0
// A request's target taken apart: "/sandbox/a%20b/logs?offset=1" is the segments "sandbox", "a b",
// "logs" and the parameter offset=1. Escapes are decoded once, after the text was split, so that
// nothing that was encoded can become a separator. What could be read in two ways is refused: an
// encoded slash or NUL, a "." or ".." segment however it is written, an empty segment, a parameter
// that is there twice, text that is not UTF-8.
//
// In a query "+" is a space, as every form encoder writes it (a plus is "%2B"); in a path it is
// itself. A parameter without "=" is the empty text. The root "/" has no segments.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "edge/limits.h"

struct target_query {
    const char *name;
    const char *value;
};

enum { TARGET_PARAMS_MAX = 4 }; // of a pattern

struct target {
    size_t n_segments;
    size_t n_query;
    const char **segments;
    struct target_query query[EDGE_QUERY_MAX];
    char *text;     // what the pointers point into, behind `segments` in one piece of memory
    char *rest;     // what a "{path*}" of target_match stands for,
    size_t rest_at; // from this segment on
};

// ERR_INVALID for a target that makes no sense. `ret` needs target_done on success only.
int target_parse(struct target *ret, const char *raw, struct err *err);
void target_done(struct target *target); // one of zeros is fine

const char *target_query(const struct target *target, const char *name); // NULL if it is not there

// Whether the segments are those of "/sandbox/{id}/exec", where "{id}" stands for any one of them,
// and "{path*}" at the end for one or more, which come as one text with slashes in between. Those
// go to ret_params in order, as many as there are in the pattern; only if it matches.
bool target_match(struct target *target, const char *pattern, const char **ret_params);
