// SPDX-License-Identifier: Apache-2.0
// A command's output, written into its answer as it comes: much of it is never in memory twice, and
// most of the work is done while the command still runs. Between the family's own files; on the
// loop's thread.
#pragma once

#include "api/container/container.h"
#include "base/pieces.h"
#include "sandbox/exec.h"

struct gather {
    struct call *call; // whose answer it is: what there is no room for (call_hold) is dropped
    bool trims;        // as in a session: without NULs, and without the last newline
    bool base64;       // instead of text
    bool begun;
    bool newline; // the last that came, which may not be the last
    bool truncated;
    size_t taken; // bytes of standard output
    struct pieces pieces;
    struct container_answer answer; // "stdout" is open
    struct buf raw, err;            // where it cannot be written at once
    size_t err_size;                // as JSON
};

void gather_output(struct gather *g, enum log_stream stream, const char *bytes, size_t len);
// stdout, stderr and what belongs to them; the rest of the answer's members are the caller's, who
// ends it with container_end.
struct container_answer *gather_finish(struct gather *g);
void gather_drop(struct gather *g); // it is not wanted; also after gather_finish
