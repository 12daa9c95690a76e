// SPDX-License-Identifier: Apache-2.0
// What the API counts of itself, for GET /stats and /metrics: how long answers took, since when it
// runs, how busy the machine is. Belongs to the API. On the loop's thread.
#pragma once

#include <stdint.h>

#include "sandbox/sandbox.h"

struct api;
struct stats;

struct stats *stats_new(void);
void stats_free(struct stats *stats); // takes NULL
void stats_tick(struct stats *stats); // now and then
void stats_answered(struct stats *stats, int64_t took_ns);
const struct timing *stats_timing(const struct stats *stats); // of answers, since it runs
