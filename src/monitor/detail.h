// SPDX-License-Identifier: Apache-2.0
// One sandbox looked into: its settings, what it uses, its processes, contexts and last events, as
// plain texts and figures. Holds no pointers.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/gather.h"
#include "cli/view.h"

enum { DETAIL_PROCESSES = 64, DETAIL_CONTEXTS = 32, DETAIL_EVENTS = 200 };

struct detail_process {
    char id[64], status[16], command[200];
    int64_t pid, age_s;
    double cpu_ms;
};

struct detail_context {
    char id[64], language[24], status[16];
    int64_t executions;
};

struct detail_event {
    char when[16]; // "10:29:03"
    char type[32], data[240];
};

struct detail {
    struct view_sandbox sandbox;
    bool gone;
    char image[80], network[200], secrets[200], languages[100];
    bool keep_alive, ephemeral;
    int64_t sleep_after_s, active_s, boxes, pids_max;
    double cpus;
    int64_t peak_memory, oom_kills, network_bytes, connections; // -1: it does not run
    struct detail_process processes[DETAIL_PROCESSES];
    size_t n_processes, all_processes;
    struct detail_context contexts[DETAIL_CONTEXTS];
    size_t n_contexts;
    struct detail_event events[DETAIL_EVENTS]; // the last ones, oldest first
    size_t n_events;
    int64_t last_event; // its number
};

// Makes `d`, which may be of an earlier time (then what is new is added) or of zeros, that of the
// sandbox now. -1: the server could not be asked; one that is not there any more is `gone`.
int detail_ask(struct detail *d, const char *id, const struct gather_way *way, struct err *err);
