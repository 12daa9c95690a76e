// SPDX-License-Identifier: Apache-2.0
// What an idle box costs in memory: the kernel's own counters in /proc/meminfo before and after,
// divided by the boxes. The parts do not overlap: VmallocUsed has the kernel stacks in it, which
// KernelStack counts by themselves, so only the rest of it is taken; Slab is its two halves. What
// is not in the sum (page cache, which the kernel gives back) is printed beside it.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/fd.h"
#include "client.h"

enum { LOOKS = 21, SETTLE_MS = 300 };

enum field {
    SLAB_KEPT,
    SLAB_RECLAIMABLE,
    KERNEL_STACK,
    PAGE_TABLES,
    PERCPU,
    ANON,
    SHMEM,
    VMALLOC,
    NOT_IN_SUM,
    CACHED = NOT_IN_SUM,
    FREE,
    AVAILABLE,
    FIELD_MAX,
};

static const char *const names[FIELD_MAX] = {
    [SLAB_KEPT] = "SUnreclaim:",
    [SLAB_RECLAIMABLE] = "SReclaimable:",
    [KERNEL_STACK] = "KernelStack:",
    [PAGE_TABLES] = "PageTables:",
    [PERCPU] = "Percpu:",
    [ANON] = "AnonPages:",
    [SHMEM] = "Shmem:",
    [VMALLOC] = "VmallocUsed:",
    [CACHED] = "Cached:",
    [FREE] = "MemFree:",
    [AVAILABLE] = "MemAvailable:",
};

struct meminfo {
    double kib[FIELD_MAX];
};

static struct meminfo read_meminfo(void)
{
    char text[8192];
    struct meminfo m = {0};
    if (fd_read_file(AT_FDCWD, "/proc/meminfo", text, sizeof text) < 0)
        die("read /proc/meminfo: %m");
    for (unsigned i = 0; i < FIELD_MAX; i++) {
        const char *line = text;
        while (line != NULL && strncmp(line, names[i], strlen(names[i])) != 0) {
            line = strchr(line, '\n');
            line = line != NULL ? line + 1 : NULL;
        }
        if (line != NULL)
            m.kib[i] = strtod(line + strlen(names[i]), NULL);
    }
    m.kib[VMALLOC] -= m.kib[KERNEL_STACK];
    m.kib[CACHED] -= m.kib[SHMEM]; // which it includes
    return m;
}

// --- how much per box ---

// A look at the counters while the number of boxes grows.
struct look {
    unsigned boxes;
    struct meminfo info;
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The median of the slopes between all pairs of looks (Theil and Sen): what others on the machine
// take and give back meanwhile moves a few of the pairs, and so hardly the result.
static double slope(const struct look *looks, enum field f)
{
    static double slopes[LOOKS * LOOKS];
    unsigned n = 0;
    for (unsigned i = 0; i < LOOKS; i++) {
        for (unsigned j = i + 1; j < LOOKS; j++)
            slopes[n++] =
                (looks[j].info.kib[f] - looks[i].info.kib[f]) / (looks[j].boxes - looks[i].boxes);
    }
    qsort(slopes, n, sizeof *slopes, compare);
    return slopes[n / 2];
}

static void print_slopes(const struct look *looks)
{
    double sum = 0;
    for (enum field f = 0; f < FIELD_MAX; f++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%.*s", (int)strlen(names[f]) - 1, names[f]);
        double each = slope(looks, f);
        print_value("memory", name, each);
        sum += f < NOT_IN_SUM ? each : 0;
    }
    print_value("memory", "sum", sum);
}

static struct look look(unsigned boxes)
{
    sleep_ms(SETTLE_MS);
    return (struct look){.boxes = boxes, .info = read_meminfo()};
}

static void more_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

static void make(struct client *c, struct box_handle *boxes, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        watchdog("a box");
        box_claim(c, &boxes[i]);
    }
}

void line_memory(const struct bench *b)
{
    static struct look looks[LOOKS];
    struct client c;
    struct box_handle *boxes = calloc(b->boxes, sizeof *boxes), first;
    if (boxes == NULL)
        die("no memory for %u boxes", b->boxes);
    more_files();
    client_start(&c, b, b->boxes + 1, 0, 0);
    make(&c, &first, 1); // loads what all boxes share
    note("%u boxes", b->boxes);
    looks[0] = look(0);
    for (unsigned i = 1; i < LOOKS; i++) {
        unsigned from = looks[i - 1].boxes, to = b->boxes * i / (LOOKS - 1);
        make(&c, boxes + from, to - from);
        looks[i] = look(to);
    }
    print_slopes(looks);
    print_value("memory", "boxes", b->boxes);
    for (unsigned i = 0; i < b->boxes; i++) {
        watchdog("a box to go");
        box_destroy(&c, &boxes[i]);
        box_gone(&c, &boxes[i]);
    }
    client_stop(&c);
    free(boxes);
}
