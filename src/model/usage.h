// SPDX-License-Identifier: Apache-2.0
// What an answer told of its usage, field by field: a later telling takes the place of an earlier
// one, and what is null, or no count, was not told. Shared by whoever reads answers.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json-in.h"
#include "model/price.h"

enum usage_field {
    USAGE_INPUT,
    USAGE_OUTPUT,
    USAGE_CACHE_WRITE, // of both kinds
    USAGE_CACHE_READ,
    USAGE_CACHE_WRITE_1H,
    USAGE_SEARCHES,
    USAGE_FETCHES,
    USAGE_FIELD_MAX,
};

struct usage_told {
    unsigned mask; // 1u << field
    int64_t value[USAGE_FIELD_MAX];
};

// Which field that is, USAGE_FIELD_MAX: none. `group` is "" for those of the object itself.
enum usage_field usage_field_find(const char *group, const char *name);
void usage_told_set(struct usage_told *told, enum usage_field field, int64_t value);
void usage_told_merge(struct usage_told *told, const struct usage_told *later);
// Takes what the object tells; any node, also NULL.
void usage_told_read(struct usage_told *told, const struct json_node *usage);
void usage_told_sum(const struct usage_told *told, struct model_usage *ret);
