// SPDX-License-Identifier: Apache-2.0
// Follows the log of a process into a streamed answer: as server-sent events, or as the bytes of
// one stream. Nothing is kept in between: what the reader has not taken yet stays in the log, and
// what may not be cut (a character of several bytes) is simply not read yet.
#pragma once

#include "api/call.h"
#include "sandbox/process.h"

// How it is told, where not as the native API does: events of another family's streams.
struct follow_words {
    void (*start)(struct call *call, struct process *p);
    void (*piece)(struct call *call, struct process *p, enum log_stream stream, const char *data,
                  size_t len); // whole characters, or what is none
    // This many bytes of it are not there: a hole in the log, or what could not be kept.
    void (*lost)(struct call *call, struct process *p, enum log_stream stream, uint64_t n);
    void (*exit)(struct call *call, struct process *p, bool truncated); // after any `lost`
    // It ends here without that, for this reason; the reader is still there.
    void (*broken)(struct call *call, struct process *p, const char *why);
};

struct follow_request {
    bool wanted[LOG_STREAMS];
    uint64_t offset[LOG_STREAMS];
    bool live;                        // until the process ends; else what there is now
    bool raw;                         // bytes, of one stream
    bool start;                       // an event about the process comes first
    const struct follow_words *words; // NULL: ours
};

void follow_begin(struct call *call, struct process *p, const struct follow_request *request);

// "<process>.<offset of stdout>.<offset of stderr>": the id of an event. 0 or -1. The name is cut
// off in place.
int follow_parse_id(char *id, uint64_t offset[LOG_STREAMS]);
int follow_parse_offsets(const char *text, uint64_t offset[LOG_STREAMS]); // "12.34"

// How many of the bytes that were read `at` a place of the log are told as one piece: all but for a
// character that is not complete. 0: that is all there is, and its rest will come. `is_last`:
// nothing comes after these.
size_t follow_piece(const struct bytelog *log, uint64_t at, const char *data, size_t len,
                    bool is_last);
// One piece of a stream as an object's members: "offset", "data", perhaps "encoding".
void follow_show(struct json *j, uint64_t at, const char *data, size_t len);
