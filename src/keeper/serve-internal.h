// SPDX-License-Identifier: Apache-2.0
// What serve.c knows of the daemon, and upgrade.c of a change of programs. Times are those of
// clock_ns, 0 for never.
#pragma once

#include <stdint.h>

#include "keeper/keeper-internal.h"

struct serve {
    const struct keeper_serving *config;
    int signals; // signalfd
    int daemon;  // pidfd, -1 when there is none
    int has_started;
    int serving; // this daemon takes requests
    int told;    // so did one before, and whoever waits for us was told
    int64_t started_ns;
    int64_t start_due_ns; // of the next
    int64_t greet_due_ns; // at the latest
    int64_t kill_due_ns;
    int64_t respawn_due_ns; // of the spawner, where it has ended
    int64_t upgrade_due_ns; // at the latest
    unsigned quick_deaths;  // in a row
    unsigned stops;         // how often we were told to stop
    int upgrading;          // a new program takes over as soon as all boxes are at rest
    unsigned generation, refused;
    char why[160]; // the last upgrade was refused
    int failed;
    struct err err;
};

// serve.c
void serve_resume_work(struct keeper *k); // no upgrade after all

// upgrade.c
void serve_tell_status(struct keeper *k);
void serve_refuse_upgrade(struct keeper *k, const struct err *why);
void serve_upgrade(struct keeper *k); // does not return when all goes well

// state.c
// A descriptor that holds what a new program has to know. It, and all that it tells of, stay open
// when one is executed.
int state_save(const struct keeper *k, struct err *err);
int state_load_early(struct keeper *k, int fd, struct err *err); // before any box is there
int state_load_boxes(struct keeper *k, int fd, struct err *err);
