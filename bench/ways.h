// SPDX-License-Identifier: Apache-2.0
// What the lines of ways-bench share: the ways in and out of a sandbox, over HTTP. bench/run has
// made the sandboxes and started all servers (ways.py); here they are used, round by round in
// turns.
#pragma once

#include <stdint.h>

#include "http-client.h"

// Of sandbox "ways": its large file, ways-end, and what is written. "beside" is another sandbox.
#define WAYS_FILES "/sandbox/ways/files/workspace/"

struct ways {
    struct http_bench http;
    uint16_t nginx, plain; // nginx on a volume like ours, and on the machine's own file system
    uint16_t direct;       // ways-end outside of any box
    uint16_t relay;        // leads there through socat
    const char *preview;   // host of the preview of ways-end in the box
    const char *volume;    // the file that our disks lie in
    uint64_t bytes;        // of the large file
    unsigned few;          // rounds with it
    unsigned rounds;       // of what takes milliseconds
    unsigned many;         // of what takes less
};

// --- ways-bulk.c ---

struct side {
    const char *name;
    uint16_t port;
    const char *path;
    const char *token; // NULL: none
};

int64_t ways_download(const struct ways *w, const struct side *side); // nanoseconds
struct side ways_cay(const struct ways *w, const char *path);

// --- the lines ---

void line_download(const struct ways *w);
void line_upload(const struct ways *w);
void line_beside(const struct ways *w); // ways-calls.c
void line_small(const struct ways *w);
void line_echo(const struct ways *w); // ways-echo.c
