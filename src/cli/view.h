// SPDX-License-Identifier: Apache-2.0
// What `cay monitor` shows, taken out of the server's answers: plain figures and bounded texts, in
// which nothing is left that a terminal would obey. Holds no answer any more; view_done frees it.
// One thread at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/gather.h"

enum view_latency {
    VIEW_REQUESTS,
    VIEW_CREATE,
    VIEW_WAKE,
    VIEW_EXEC,
    VIEW_CELL,
    VIEW_GENERATION,
    VIEW_SANDBOX,
    VIEW_LATENCIES,
};
extern const char *const view_latency_names[VIEW_LATENCIES]; // as GET /stats has them

struct view_latency_row {
    int64_t count;        // -1: not told
    double p50, p90, p99; // ms; -1: nothing to tell
};

struct view_sandbox {
    char id[132];
    char status[16];
    char label[128]; // "team=web stage=test"
    int64_t age_s;   // -1: not known
    bool has_usage;
    double cpu_ms;      // since it runs
    double cpu_percent; // of one processor; -1: seen once only
    int64_t seen_ns;    // when that was
    int64_t memory, memory_max, disk, disk_max, pids;
};

struct view_request {
    char id[48];
    char question[256];
    char state[16];
    char error[40]; // its error_code; "": none
    bool success;
    int64_t generation_ms, sandbox_ms, total_ms, tokens, age_s; // -1: not known
    double cost;                                                // dollars
};

struct view {
    char status[24], version[32];
    double health_ms;
    int64_t uptime_ms; // -1: not told
    bool all;          // an admin's: figures are the whole server's
    // the machine
    int64_t cpus, memory_total, memory_available; // -1: not told
    double cpu_percent, load[3];
    // boxes and sandboxes
    int64_t boxes_max, ready, boxes_running, waiting, parked_python, parked_javascript;
    int64_t running, sleeping;
    struct view_latency_row latency[VIEW_LATENCIES];
    // models, and the way out
    int64_t model_requests, model_errors, model_open, model_tokens;
    double model_cost;
    int64_t egress_allowed, egress_denied, egress_bytes, egress_open;
    struct view_sandbox *sandboxes;
    size_t n_sandboxes;
    bool more_sandboxes; // than are listed
    struct view_request *requests;
    size_t n_requests;
};

// `before` may be NULL: else what was used is compared with it.
void view_make(struct view *ret, const struct gathered *g, const struct view *before);
void view_done(struct view *view); // takes zeros
// One of them alone; `usage` and `before` may be NULL.
void view_sandbox_read(struct view_sandbox *s, const struct json_node *node,
                       const struct json_node *usage, int64_t seen_ns,
                       const struct view_sandbox *before);
// A member's words, plain and on one line, cut between characters; "" where there are none.
void view_text(char *ret, size_t size, const struct json_node *node, const char *key);
