// SPDX-License-Identifier: Apache-2.0
// What a request says about parts and states of a file: ranges and entity tags, as RFC 9110 has
// them (sections 13 and 14). No state, any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum range_kind {
    RANGE_ALL,  // none was asked for, or one that is not understood: the whole
    RANGE_PART, // `from` and `len`
    RANGE_NONE, // it lies behind the end: 416
};

struct range {
    enum range_kind kind;
    uint64_t from, len;
};

// Of a Range header (NULL: none was sent) and a file of this size. Several ranges are the whole.
struct range range_read(const char *header, uint64_t size);

// Whether an If-Match or If-None-Match header names the tag (bare, without quotes): "*" does. With
// `strong` a tag marked as weak names nothing.
bool etag_listed(const char *header, const char *etag, bool strong);
// Whether a part may be sent to somebody with this If-Range header (NULL: none). Dates never do: a
// file may change twice in a second.
bool etag_in_range(const char *header, const char *etag);
// The one strong tag that a header has, without its quotes. 0, or -1 when it is something else.
int etag_read(const char *header, char *ret, size_t size);
// Whether what a stranger gave for a tag may stand between quotes in a header.
bool etag_is_plain(const char *etag, size_t size);
