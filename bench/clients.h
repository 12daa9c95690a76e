// SPDX-License-Identifier: Apache-2.0
// What the lines of clients-bench share: the container protocol of one sandbox, and `bash -c` of
// the same command beside it.
#pragma once

#include "http-client.h"

struct clients {
    struct http_bench http;
    const char *dir; // for the bare commands' files
};

// --- answers of any length, and streams (clients-read.c) ---

// Sends a request to a route of the container protocol; the body is what snprintf makes.
void route_begin(struct http_conn *c, const char *route, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// Reads the whole answer, which must be a 200, and nothing of it is kept: nanoseconds on the clock
// when the first byte came that is behind `mark` (NULL: of the answer), and the length of its body.
struct whole {
    int64_t marked;
    size_t body;
};
struct whole route_read(struct http_conn *c, const char *mark);
// Both, for answers that do not matter; ends the process unless there is `"success":true` in it.
void route_must(struct http_conn *c, const char *route, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// --- bash (clients-bare.c) ---

struct bare_took {
    int64_t first, end; // nanoseconds to the first byte, and to the exit
    size_t bytes;
};

// fork, execve of `bash -c COMMAND` with its output in a pipe that is read to its end, waitpid.
struct bare_took bare_bash(const char *command);

// --- the lines ---

void line_sessions(const struct clients *b);
void line_execs(const struct clients *b);
void line_output(const struct clients *b);
void line_streams(const struct clients *b);
void line_files(const struct clients *b);
void line_processes(const struct clients *b);
void line_during(const struct clients *b);
