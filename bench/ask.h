// SPDX-License-Identifier: Apache-2.0
// What the lines of the questions share. ask-bench is a client over HTTP, as server-bench. The
// model is a stand-in on this machine that answers at once; what is compared with are the same call
// to it, made by curl, and interpreters that are started bare.
#pragma once

#include "http-client.h"

// What the model is told to write; it runs bare as well.
#define ASK_CODE_FIRST "total = sum(range(1000))"
#define ASK_CODE_LAST  "print(total)"
#define ASK_CODE       ASK_CODE_FIRST "\n" ASK_CODE_LAST
#define ASK_CODE_SEEN  "total = " // of its first words: nothing else on a screen has them
#define ASK_OUTPUT     "499500"

enum { ASK_WORDS_MAX = 128 };

struct ask_bench {
    struct http_bench http;
    uint16_t model_port;
    const char *cay;      // the program
    const char *data;     // the server's data directory
    const char *question; // files: what the server sends to the model for a question,
    const char *talk;     // and for a turn of a conversation
    unsigned rounds;
    unsigned starts;  // rounds of what starts a Node
    unsigned bursts;  // of questions at once,
    unsigned at_once; // and how many these are
};

// --- ask-bench.c ---

// A question that was never asked before, so that it goes to the model; and as the body of a
// request.
const char *ask_words(void);
const char *ask_question(void);
bool ask_good(const struct http_answer *answer);
// Destroys the sandbox that an answer names.
void ask_clear(struct http_conn *c, const struct http_answer *answer);
// The pool is full, and has been left alone as at a user's pace.
void ask_prepare(struct http_conn *c);

// --- ask-model.c ---

// The same call that the server makes, by a client that does nothing else, on a connection that is
// kept.
struct model_conn {
    int fd;
    char *request;
    size_t len;
};

struct model_took {
    int64_t first, all; // until the first byte, and the last
};

void model_open(struct model_conn *c, const struct ask_bench *b, const char *body_file);
struct model_took model_call(struct model_conn *c);
void model_close(struct model_conn *c);
// And by curl, as a process each time.
int64_t model_curl(const struct ask_bench *b, const char *body_file);

// --- ask-watch.c ---

// A process beside the measurement, until it is asked what it has found.
struct watcher;
struct watcher *watch_health(const struct http_bench *b); // the longest wait for GET /health, ms
struct watcher *watch_memory(const struct http_bench *b); // the most of all processes, MiB
double watcher_done(struct watcher *w);

// --- the lines ---

void line_ask_question(const struct ask_bench *b);
void line_ask_talk(const struct ask_bench *b);
void line_ask_burst(const struct ask_bench *b);
void line_ask_terminal(const struct ask_bench *b);
