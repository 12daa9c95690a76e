// SPDX-License-Identifier: Apache-2.0
// Trees of a call's sandbox as tar archives, of any size, for the families that have them. On the
// loop's thread.
#pragma once

#include "api/files.h"

struct archive_out {
    const char *path;
    const char *type;     // the answer's media type
    uint32_t flags;       // HAND_PLAIN
    const char *excludes; // as of struct hand_tar; NULL: none
};
// Answers with the archive. Texts are copied, but for the type.
void archive_send(struct call *call, const struct archive_out *out);

struct archive_in {
    const char *path; // what it is unpacked below; made if it is not there
    bool owner;       // owners as the archive has them; else root
    void (*reply)(struct call *call, const struct hand_ended *ended); // all of it is there
};
// The request's body is the archive.
void archive_take(struct call *call, const struct archive_in *in);
