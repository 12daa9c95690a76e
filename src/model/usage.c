// SPDX-License-Identifier: Apache-2.0
#include "model/usage.h"

#include <string.h>

// More than any message has; beyond it a count is nonsense and its price would be, too.
static const int64_t count_max = INT64_C(1) << 40;

static const struct {
    const char *group, *name;
} fields[USAGE_FIELD_MAX] = {
    [USAGE_INPUT] = {"",                "input_tokens"               },
    [USAGE_OUTPUT] = {"",                "output_tokens"              },
    [USAGE_CACHE_WRITE] = {"",                "cache_creation_input_tokens"},
    [USAGE_CACHE_READ] = {"",                "cache_read_input_tokens"    },
    [USAGE_CACHE_WRITE_1H] = {"cache_creation",  "ephemeral_1h_input_tokens"  },
    [USAGE_SEARCHES] = {"server_tool_use", "web_search_requests"        },
    [USAGE_FETCHES] = {"server_tool_use", "web_fetch_requests"         },
};

enum usage_field usage_field_find(const char *group, const char *name)
{
    for (unsigned i = 0; i < USAGE_FIELD_MAX; i++)
        if (strcmp(group, fields[i].group) == 0 && strcmp(name, fields[i].name) == 0)
            return (enum usage_field)i;
    return USAGE_FIELD_MAX;
}

void usage_told_set(struct usage_told *told, enum usage_field field, int64_t value)
{
    if (field == USAGE_FIELD_MAX || value < 0)
        return;
    told->mask |= 1u << field;
    told->value[field] = value < count_max ? value : count_max;
}

void usage_told_merge(struct usage_told *told, const struct usage_told *later)
{
    for (unsigned i = 0; i < USAGE_FIELD_MAX; i++)
        if ((later->mask & 1u << i) != 0)
            usage_told_set(told, (enum usage_field)i, later->value[i]);
}

void usage_told_read(struct usage_told *told, const struct json_node *usage)
{
    for (unsigned i = 0; i < USAGE_FIELD_MAX; i++) {
        const struct json_node *from =
            *fields[i].group == '\0' ? usage : json_get(usage, fields[i].group);
        usage_told_set(told, (enum usage_field)i, json_int(json_get(from, fields[i].name), -1));
    }
}

void usage_told_sum(const struct usage_told *told, struct model_usage *ret)
{
    int64_t all = told->value[USAGE_CACHE_WRITE], hour = told->value[USAGE_CACHE_WRITE_1H];
    *ret = (struct model_usage){
        .input = told->value[USAGE_INPUT],
        .output = told->value[USAGE_OUTPUT],
        .cache_write = all > hour ? all - hour : 0,
        .cache_write_1h = hour,
        .cache_read = told->value[USAGE_CACHE_READ],
        .searches = told->value[USAGE_SEARCHES],
        .fetches = told->value[USAGE_FETCHES],
    };
}
