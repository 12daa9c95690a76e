// SPDX-License-Identifier: Apache-2.0
// Cells as answers: all at once (code-result.c), or as a stream of events (code-stream.c). On the
// loop's thread.
#pragma once

#include "api/call.h"
#include "sandbox/context.h"

// Where in a cell's events: its place in the log, and how much of that one has been told.
struct code_place {
    uint64_t n, at;
};

// --- all at once

void code_reply(struct call *call, struct cell *cell); // it has ended
// The members of an object that tell of its end: success, reason, executionCount, duration, ...
void code_show_end(struct json *j, const struct cell_end *end, bool truncated);

// --- as it comes

// In which words a cell is told. `id` is that of the event: where to go on behind it.
struct code_words {
    void (*start)(struct call *call, const char *id, const struct cell *cell);
    // Whole characters, unless they never became whole. `stream`: "stdout", "stderr".
    void (*text)(struct call *call, const char *id, const char *stream, const char *data,
                 size_t len);
    // A part of an object, `at` bytes from its beginning; the last one has total == at + len.
    void (*object)(struct call *call, const char *id, const struct cell_event *part, size_t at);
    // The last one. `error`: the place of its CELL_ERROR; -1: there was none.
    void (*end)(struct call *call, const char *id, struct cell *cell, int64_t error);
    // It cannot be told to its end, for this reason: the last one. May be NULL.
    void (*cut)(struct call *call, const char *why);
    bool needs_reader; // the cell is ended when its reader goes
};
// Follows the cell from there. `start`: an event about the cell comes first.
void code_stream(struct call *call, struct cell *cell, struct code_place from, bool start);
void code_stream_as(struct call *call, struct cell *cell, struct code_place from, bool start,
                    const struct code_words *words);
// "12" or "12.345". 0 or -1.
int code_parse_place(const char *text, struct code_place *ret);
// "<cell>:12.345", the id of an event. 0 or -1. The cell's id is cut off in place.
int code_parse_id(char *id, struct code_place *ret);
