// SPDX-License-Identifier: Apache-2.0
// A command whose output is streamed as it comes (perform.h), in pieces that never cut a character
// of several bytes, at its reader's pace: while that one is behind, the program waits. The call is
// an answer in events by then.
#pragma once

#include "api/perform.h"

// One piece, of a stream's bytes from `offset` on.
typedef void (*live_fn)(struct call *call, enum log_stream stream, uint64_t offset,
                        const char *bytes, size_t len);

struct live_request {
    struct perform_request run; // without `output`, `began` and `own`; `ended` is called when all
                                // of its pieces were told
    void (*began)(struct call *call); // the answer has begun: its first event. May be NULL
    live_fn piece;
};

// Until it has begun, what goes wrong is answered by `ended`, as an error (call->streaming is
// false).
void live_begin(struct call *call, const struct live_request *request);
