// SPDX-License-Identifier: Apache-2.0
// A watch of files in a sandbox as server-sent events, whatever words they are told in. A reader
// that stops makes us stop reading; then changes pile up where the kernel in the box counts them,
// and when it drops some it says so (HAND_OVERFLOW). On the loop's thread.
#pragma once

#include "api/files.h"

enum { WATCH_GLOBS_MAX = 4096 }; // bytes of a list of globs

struct watch_ops {
    // The stream has begun: from now on nothing is missed.
    void (*begun)(struct call *call);
    // HAND_CREATED to HAND_ROOT_GONE; texts behind it. The path is relative to what is watched.
    void (*change)(struct call *call, const struct hand_change *change);
    // It is over; the stream is ended after this. `err` is NULL after HAND_ROOT_GONE.
    void (*over)(struct call *call, const struct err *err);
    void (*fail)(struct call *call, const struct err *err); // it could not begin: to be answered
};

struct watch_call {        // call->state begins with this
    struct file_call file; // its path is what is watched
    const struct watch_ops *ops;
    bool recursive;
    bool begun;
    // Globs on names, separated by commas, at most WATCH_GLOBS_MAX bytes; they live as long as the
    // call. NULL: none.
    const char *include, *exclude;
};

void watch_start(struct call *call); // in a sandbox that runs
// "create", "modify", "delete", "move_from", "move_to", "attrib"; NULL of any other.
const char *watch_kind_name(uint32_t kind);
