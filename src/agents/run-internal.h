// SPDX-License-Identifier: Apache-2.0
// A run, for run.c (its log) and run-end.c (its answer).
#pragma once

#include "agents/agents-internal.h"

struct entry {
    const char *type; // a literal
    size_t at, len;   // in the log's text
};

struct run {
    struct agents *agents; // NULL: it was closed
    unsigned refs;
    char id[RUN_ID_MAX];
    struct result_row row;
    struct model_usage usage;
    struct entry *entries;
    size_t n_entries, cap_entries;
    struct buf text;
    size_t counted; // bytes in agents->log_bytes
    bool is_closed; // run_end was called: its answer is being stored
    bool ended;     // and it is stored
    bool has_gap;
    bool is_again;
    unsigned status;
    int64_t retry_after_ms;
    struct buf body;
    void (*cancel)(void *data);
    void *cancel_data;
    bool cancelled;
    struct run_follower *followers, *telling; // the one that is told next
    struct run *next; // of those whose answers are being stored, or of those that are kept
};

void run_tell(struct run *run); // those who follow
void run_count_bytes(struct run *run);
bool run_is_task(const struct run *run);
