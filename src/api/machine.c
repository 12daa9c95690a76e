// SPDX-License-Identifier: Apache-2.0
#include "api/machine.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

enum {
    LOOK_NS = 500 * NS_PER_MS,
    FIELDS = 8, // user nice system idle iowait irq softirq steal; guests' are in the first two
    IDLE = 3,
    IOWAIT = 4,
    TEXT_MAX = 8 * 1024,
};

// The beginning of a file of /proc. Its length grows with the processors; what is of use is at its
// beginning.
static int read_beginning(const char *path, char *ret, size_t size)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? fd_read_all(fd, ret, size - 1) : -1;
    ret[n > 0 ? n : 0] = '\0';
    return n > 0 ? 0 : -1;
}

int machine_read_ticks(const char *text, uint64_t *ret_busy, uint64_t *ret_all)
{
    unsigned long long t[FIELDS] = {0};
    uint64_t all = 0;
    if (strncmp(text, "cpu ", 4) != 0) // the first line is that of all together
        return -1;
    int n = sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
                   &t[4], &t[5], &t[6], &t[7]);
    if (n <= IDLE)
        return -1;
    for (unsigned i = 0; i < FIELDS; i++)
        all += t[i];
    *ret_all = all;
    *ret_busy = all - t[IDLE] - t[IOWAIT];
    return 0;
}

uint64_t machine_read_memory(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            return (uint64_t)strtoull(line + len + 1, NULL, 10) * 1024; // "kB" are KiB
    }
    return 0;
}

void machine_look(struct machine *machine)
{
    char text[TEXT_MAX];
    uint64_t busy, all;
    int64_t now = clock_ns();
    bool first = machine->seen_ns == 0;
    if (!first && now - machine->seen_ns < LOOK_NS)
        return;
    if (read_beginning("/proc/stat", text, sizeof text) < 0 ||
        machine_read_ticks(text, &busy, &all) < 0)
        return;
    // Counters of idle time may step back a little.
    bool forward = all > machine->all && busy >= machine->busy;
    if (first)
        machine->cpu_percent = -1;
    else if (forward)
        machine->cpu_percent =
            100.0 * (double)(busy - machine->busy) / (double)(all - machine->all);
    if (machine->cpu_percent > 100)
        machine->cpu_percent = 100;
    machine->seen_ns = now;
    machine->busy = busy;
    machine->all = all;
}

unsigned machine_cpus(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1;
}

void machine_memory(struct machine_memory *ret)
{
    char text[TEXT_MAX];
    *ret = (struct machine_memory){0};
    if (read_beginning("/proc/meminfo", text, sizeof text) < 0)
        return;
    ret->total = machine_read_memory(text, "MemTotal");
    ret->available = machine_read_memory(text, "MemAvailable");
}
