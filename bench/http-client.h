// SPDX-License-Identifier: Apache-2.0
// A client of the server over HTTP, on plain sockets: a connection that is kept, one request at a
// time, one write and one read each when all goes well. It adds next to nothing to what it
// measures, and knows only as much of HTTP as our own answers need (they carry a length). An error
// of a connection ends the process, except where the lines look after it themselves (http_begin,
// http_more).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench.h"

enum { HTTP_IN_MAX = 16 * 1024, HTTP_OUT_MAX = 2 * 1024 };

struct http_bench {
    uint16_t port;
    const char *token;
    pid_t keeper;     // of the server: parent of the daemon
    unsigned rounds;  // of what takes milliseconds
    unsigned few;     // of what takes a good part of a second
    unsigned burst;   // sandboxes made at once
    unsigned many;    // sandboxes that run at once
    unsigned seconds; // that these are worked
};

struct http_conn {
    const struct http_bench *b;
    int fd;
    size_t len; // of what has come
    char in[HTTP_IN_MAX];
};

struct http_answer {
    int status;
    const char *body; // ends with a NUL; in the connection, until the next request
};

// --- one connection ---

int http_connect(struct http_conn *c, const struct http_bench *b, bool wait); // 0 or -errno
void http_open(struct http_conn *c, const struct http_bench *b); // blocking; ends the process
void http_close(struct http_conn *c);
// Sends a request. `body` may be NULL. 0 or -errno.
int http_begin(struct http_conn *c, const char *method, const char *path, const char *body);
// Reads what there is: 1 with a whole answer, 0 when more must come, -errno (-EPIPE: it was
// closed).
int http_more(struct http_conn *c, struct http_answer *ret);
// Both, on a blocking connection.
struct http_answer http_call(struct http_conn *c, const char *method, const char *path,
                             const char *body);
// http_call that ends the process unless the status is 2xx.
struct http_answer http_must(struct http_conn *c, const char *method, const char *path,
                             const char *body);

// --- what the lines ask for ---

#define HTTP_EXEC_TRUE "{\"argv\":[\"true\"]}"

bool http_exec_good(const struct http_answer *answer);                 // 200 and exit code 0
void http_create(struct http_conn *c, const char *id);                 // never falls asleep
void http_exec(struct http_conn *c, const char *id, const char *body); // must be good
void http_destroy(struct http_conn *c, const char *id);
// The first number after "name": in an answer; -1 when there is none.
double http_number(const struct http_answer *answer, const char *name);
// Until as many boxes are ready as were at the first call.
void http_settle(struct http_conn *c);

pid_t http_daemon(const struct http_bench *b); // now; 0 while there is none

// --- the lines ---

void line_http_first(const struct http_bench *b);
void line_http_exec(const struct http_bench *b);
void line_http_session(const struct http_bench *b);
void line_http_burst(const struct http_bench *b);
void line_http_many(const struct http_bench *b);
// With b->many sandboxes "many-0", "many-1"... running.
void measure_restart(const struct http_bench *b);
