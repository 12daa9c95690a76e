// SPDX-License-Identifier: Apache-2.0
// Asks a server how it does, all that `cay monitor` shows of it: health, figures, sandboxes, what
// those that run use, the last requests. A server that lacks one of them (an older one), or refuses
// it, is shown without. Owns what was answered (gather_done). One thread at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/remote.h"

enum {
    GATHER_SANDBOXES = 1000, // a page
    GATHER_USAGE = 64,       // sandboxes that are asked for what they use, each time
    GATHER_REQUESTS = 50,
    GATHER_ANSWER_MAX = 32 * 1024 * 1024,
};

// How it is asked: with a deadline and a way to stop, where that is wanted.
struct gather_way {
    struct remote *remote;
    int wake_fd; // as in struct http_call; NULL: nobody
    int (*on_wake)(void *data, struct err *err);
    void (*before)(void *data); // each request; may be NULL
    void *data;
};
// One request, with JSON for an answer. `ret` was inited with gather_answer_init.
int gather_ask(const struct gather_way *way, const char *method, const char *target,
               struct answer *ret, struct err *err);
void gather_answer_init(struct answer *answer);

struct gathered {
    int64_t taken_ns, health_ns; // when it began; how long the server took to say that it is there
    struct answer health, stats, sandboxes, requests;
    struct answer usage[GATHER_USAGE];
    size_t n_usage;
    bool has_stats, has_requests;
};
void gather_init(struct gathered *g);
void gather_done(struct gathered *g);
// -1: the server could not be asked, or lets nobody in. `from`: the place among the running
// sandboxes from which on their usage is asked for.
int gather(struct gathered *g, const struct gather_way *way, size_t from, struct err *err);
// One sandbox's entry in the usage that was asked for; NULL: it was not.
const struct json_node *gather_usage_of(const struct gathered *g, const char *id);
