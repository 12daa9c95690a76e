// SPDX-License-Identifier: Apache-2.0
// Models, what they are called for short, and what their tokens cost: one table (price.c). Money is
// counted in nano-dollars, which are whole: a token of a million for $0.10 is 100 of them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct model_usage { // tokens, but for the last two: requests of server tools
    int64_t input, output;
    // Beside `input`, not in it; and the two kinds of writing beside each other (together they are
    // what the API calls cache_creation_input_tokens).
    int64_t cache_write, cache_write_1h, cache_read;
    int64_t searches, fetches;
};

// "sonnet", "opus", "haiku", "fable" -> the id of the newest; anything else is an id already.
const char *model_resolve(const char *name);
// [A-Za-z0-9][A-Za-z0-9._:@/-]*, of at most 127 characters, maybe with a "[1m]" behind it.
bool model_name_valid(const char *name);
// What that usage costs. Ids that are not in the table are priced like the dearest that is: a
// budget shall not be passed by a name. `ret_known` (may be NULL): it is in the table, also with a
// date behind it ("claude-sonnet-4-5-20250929").
int64_t model_cost(const char *id, const struct model_usage *usage, bool *ret_known);
int64_t model_cost_add(int64_t a, int64_t b);                // never wraps
int64_t model_max_output(const char *id);                    // tokens
int64_t model_usage_tokens(const struct model_usage *usage); // all of them together
int64_t model_usage_prompt(const struct model_usage *usage); // those that were read
void model_usage_add(struct model_usage *sum, const struct model_usage *one);
