// SPDX-License-Identifier: Apache-2.0
#include "model/price.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

// Nano-dollars for one token: dollars for a million of them, times a thousand.
struct rates {
    int32_t input, output, write, write_1h, read;
};

struct model_row {
    const char *id;
    int32_t max_output; // tokens
    struct rates rates;
    // Above so many tokens of prompt everything costs LONG_FACTOR times as much.
    int32_t long_prompt;
};

enum { SEARCH_COST = 10 * 1000 * 1000, NAME_MAX_LEN = 127, DATE_LEN = 8 };
enum { NEVER = 0, LONG_FACTOR = 5 };
enum { OUT_128K = 128 * 1000, OUT_64K = 64 * 1000 };

// The first is the dearest in every column: what is not in the table costs as much.
static const struct model_row table[] = {
    {"claude-fable-5",    OUT_64K,  {10000, 50000, 12500, 20000, 1000}, NEVER     },
    {"claude-mythos-5",   OUT_64K,  {10000, 50000, 12500, 20000, 1000}, NEVER     },
    {"claude-fable-5-1",  OUT_64K,  {10000, 50000, 12500, 20000, 250},  NEVER     },
    {"claude-mythos-5-1", OUT_64K,  {10000, 50000, 12500, 20000, 250},  NEVER     },
    {"claude-fable-5-2",  OUT_128K, {8000, 40000, 10000, 16000, 200},   NEVER     },
    {"claude-mythos-5-2", OUT_128K, {8000, 40000, 10000, 16000, 200},   NEVER     },
    {"claude-opus-5-5",   OUT_128K, {4000, 20000, 5000, 8000, 200},     NEVER     },
    {"claude-opus-5",     OUT_64K,  {5000, 25000, 6250, 10000, 500},    NEVER     },
    {"claude-opus-4-8",   OUT_64K,  {5000, 25000, 6250, 10000, 500},    NEVER     },
    {"claude-opus-4-7",   OUT_64K,  {5000, 25000, 6250, 10000, 500},    NEVER     },
    {"claude-opus-4-6",   OUT_64K,  {5000, 25000, 6250, 10000, 500},    NEVER     },
    {"claude-opus-4-5",   OUT_64K,  {5000, 25000, 6250, 10000, 500},    NEVER     },
    {"claude-sonnet-5-5", OUT_128K, {2000, 10000, 2500, 4000, 100},     NEVER     },
    {"claude-sonnet-5",   OUT_64K,  {2000, 10000, 2500, 4000, 200},     NEVER     },
    {"claude-sonnet-4-6", OUT_64K,  {3000, 15000, 3750, 6000, 300},     NEVER     },
    {"claude-sonnet-4-5", OUT_64K,  {3000, 15000, 3750, 6000, 300},     NEVER     },
    {"claude-haiku-4-5",  OUT_64K,  {1000, 5000, 1250, 2000, 100},      NEVER     },
    {"claude-haiku-5-5",  OUT_128K, {100, 500, 125, 200, 10},           100 * 1000},
};

static const struct {
    const char *name, *id;
} aliases[] = {
    {"sonnet", "claude-sonnet-5-5"},
    {"opus",   "claude-opus-5-5"  },
    {"haiku",  "claude-haiku-5-5" },
    {"fable",  "claude-fable-5-2" },
};

const char *model_resolve(const char *name)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(name, aliases[i].name) == 0)
            return aliases[i].id;
    return name;
}

static bool ends_with(const char *text, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len >= n && memcmp(text + len - n, end, n) == 0;
}

// Without the mark of the large context, which costs nothing more.
static size_t plain_len(const char *name)
{
    size_t len = strlen(name);
    return ends_with(name, len, "[1m]") ? len - strlen("[1m]") : len;
}

bool model_name_valid(const char *name)
{
    size_t len = plain_len(name);
    if (len == 0 || strlen(name) > NAME_MAX_LEN || !isalnum((unsigned char)name[0]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && strchr("._:@/-", name[i]) == NULL)
            return false;
    return true;
}

static bool is_date(const char *text, size_t len)
{
    if (len != DATE_LEN + 1 || (text[0] != '-' && text[0] != '@'))
        return false;
    for (size_t i = 1; i < len; i++)
        if (!isdigit((unsigned char)text[i]))
            return false;
    return true;
}

static const struct model_row *find(const char *id)
{
    size_t len = plain_len(id);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        size_t n = strlen(table[i].id);
        if (len >= n && memcmp(id, table[i].id, n) == 0 && (len == n || is_date(id + n, len - n)))
            return &table[i];
    }
    return NULL;
}

// Sums that never wrap: what is told may be nonsense, and a budget must not begin anew by it.
static int64_t sum(int64_t a, int64_t b)
{
    int64_t r = 0;
    return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}

static int64_t price(int64_t n, int64_t rate)
{
    int64_t r = 0;
    if (n <= 0)
        return 0;
    return __builtin_mul_overflow(n, rate, &r) ? INT64_MAX : r;
}

static int64_t count(int64_t n)
{
    return n > 0 ? n : 0;
}

int64_t model_usage_prompt(const struct model_usage *usage)
{
    int64_t n = sum(count(usage->input), count(usage->cache_write));
    return sum(sum(n, count(usage->cache_write_1h)), count(usage->cache_read));
}

int64_t model_cost(const char *id, const struct model_usage *usage, bool *ret_known)
{
    const struct model_row *row = find(id);
    if (ret_known != NULL)
        *ret_known = row != NULL;
    if (row == NULL)
        row = &table[0];
    const struct rates *rates = &row->rates;
    int64_t cost = price(usage->input, rates->input);
    cost = sum(cost, price(usage->output, rates->output));
    cost = sum(cost, price(usage->cache_write, rates->write));
    cost = sum(cost, price(usage->cache_write_1h, rates->write_1h));
    cost = sum(cost, price(usage->cache_read, rates->read));
    if (row->long_prompt != NEVER && model_usage_prompt(usage) > row->long_prompt)
        cost = price(cost, LONG_FACTOR);
    return sum(cost, price(usage->searches, SEARCH_COST));
}

int64_t model_max_output(const char *id)
{
    const struct model_row *row = find(id);
    return row != NULL ? row->max_output : OUT_64K;
}

int64_t model_usage_tokens(const struct model_usage *usage)
{
    return sum(model_usage_prompt(usage), count(usage->output));
}

int64_t model_cost_add(int64_t a, int64_t b)
{
    return sum(a, b);
}

void model_usage_add(struct model_usage *to, const struct model_usage *one)
{
    to->input = sum(to->input, count(one->input));
    to->output = sum(to->output, count(one->output));
    to->cache_write = sum(to->cache_write, count(one->cache_write));
    to->cache_write_1h = sum(to->cache_write_1h, count(one->cache_write_1h));
    to->cache_read = sum(to->cache_read, count(one->cache_read));
    to->searches = sum(to->searches, count(one->searches));
    to->fetches = sum(to->fetches, count(one->fetches));
}
