// SPDX-License-Identifier: Apache-2.0
// All that a cell wrote and showed, put together from its events.
#pragma once

#include "sandbox/context.h"

struct cell_whole {
    struct buf out, err; // bytes
    struct buf results;  // JSON objects, each with its "type", commas between them
    struct buf error;    // a JSON object; empty: none was told
    size_t text_size;    // of both streams as JSON
    size_t text_max, objects_max;
    bool is_cut;
};

// What the streams may take as JSON, and what the objects may.
void cell_whole_init(struct cell_whole *w, size_t text_max, size_t objects_max);
void cell_whole_read(struct cell_whole *w, struct cell *cell);
void cell_whole_done(struct cell_whole *w);
