// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

void series_init(struct series *s, const char *name, unsigned max)
{
    *s = (struct series){.name = name, .ns = calloc(max, sizeof *s->ns), .max = max};
    if (s->ns == NULL)
        die("no memory for %u rounds", max);
}

void series_add(struct series *s, int64_t ns)
{
    if (s->n < s->max)
        s->ns[s->n++] = ns;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Nearest rank, of a sorted series.
static int64_t percentile(const struct series *s, unsigned percent)
{
    unsigned rank = (s->n * percent + 99) / 100;
    return s->n == 0 ? 0 : s->ns[rank > 0 ? rank - 1 : 0];
}

void series_done(struct series *s, const char *line)
{
    qsort(s->ns, s->n, sizeof *s->ns, compare);
    (void)printf("time\t%s\t%s\t%u\t%lld\t%lld\t%lld\t%lld\n", line, s->name, s->n,
                 (long long)percentile(s, 10), (long long)percentile(s, 50),
                 (long long)percentile(s, 90), (long long)percentile(s, 99));
    (void)fflush(stdout);
    free(s->ns);
    *s = (struct series){0};
}

void print_value(const char *line, const char *name, double value)
{
    (void)printf("value\t%s\t%s\t%.6g\n", line, name, value);
    (void)fflush(stdout);
}
