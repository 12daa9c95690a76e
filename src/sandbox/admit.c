// SPDX-License-Identifier: Apache-2.0
// Whether there is room: for one more sandbox of a tenant, for one more box on the machine. What is
// asked for and not there yet counts already, so that a hundred requests at once do not all find
// the last place.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/sandbox-internal.h"

int admit_sandbox(struct fleet *fleet, const struct tenant *tenant, uint64_t disk, struct err *err)
{
    (void)fleet;
    if (tenant->max_sandboxes > 0 && tenant->sandboxes >= tenant->max_sandboxes)
        return err_set(
            err, ERR_EXHAUSTED,
            "the quota of %lld sandboxes is used up: destroy some, or ask for a larger one",
            (long long)tenant->max_sandboxes);
    if (tenant->max_disk > 0 && tenant->disk + (int64_t)disk > tenant->max_disk)
        return err_set(
            err, ERR_EXHAUSTED,
            "the disk quota of %lld MiB has no room for %llu MiB more: destroy some sandboxes, or ask for smaller disks",
            (long long)(tenant->max_disk >> 20), (unsigned long long)(disk >> 20));
    return 0;
}

// Bytes that the kernel could give to programs. Read at most ten times a second.
static uint64_t memory_available(struct fleet *fleet)
{
    enum { OLD_MS = 100 };
    char text[4096];
    int64_t now = clock_ns();
    if (fleet->memory_seen_ns != 0 && now - fleet->memory_seen_ns < OLD_MS * NS_PER_MS)
        return fleet->memory_seen;
    fleet->memory_seen = UINT64_MAX; // a kernel that does not tell
    fleet->memory_seen_ns = now;
    if (fd_read_file(AT_FDCWD, "/proc/meminfo", text, sizeof text) > 0) {
        const char *line = strstr(text, "MemAvailable:");
        if (line != NULL)
            fleet->memory_seen = strtoull(line + strlen("MemAvailable:"), NULL, 10) * 1024;
    }
    return fleet->memory_seen;
}

int admit_box(struct fleet *fleet, const struct tenant *tenant, const struct box_limits *limits,
              struct err *err)
{
    if (tenant->max_running > 0 && tenant->running >= tenant->max_running)
        return err_set(err, ERR_UNAVAILABLE,
                       "%lld sandboxes run already, which is the quota: try again when one sleeps",
                       (long long)tenant->running);
    if (tenant->max_memory > 0 && tenant->memory + (int64_t)limits->memory > tenant->max_memory)
        return err_set(
            err, ERR_UNAVAILABLE,
            "the running sandboxes may use %lld MiB of the quota of %lld: try again when one sleeps",
            (long long)(tenant->memory >> 20), (long long)(tenant->max_memory >> 20));
    if (fleet->running >= fleet->welcome.boxes)
        return err_set(err, ERR_UNAVAILABLE,
                       "all %u boxes of this machine are in use: try again later",
                       fleet->welcome.boxes);
    if (memory_available(fleet) < fleet->config.memory_spare)
        return err_set(err, ERR_UNAVAILABLE,
                       "this machine has less than %llu MiB of memory left: try again later",
                       (unsigned long long)(fleet->config.memory_spare >> 20));
    return 0;
}
