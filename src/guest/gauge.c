// SPDX-License-Identifier: Apache-2.0
// The kernel's own counters of limits that were felt, read from descriptors that the keeper opened.
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "guest/guest-internal.h"

// The number behind `key` at the start of a line, or 0.
static uint64_t counter(int fd, const char *key)
{
    char text[512];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    size_t len = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, len) == 0)
            return strtoull(line + len, NULL, 10);
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return 0;
}

void guest_read_gauges(const struct guest *guest, struct gauges *ret)
{
    ret->oom_kills =
        guest->gauges & GUEST_ROOT_GAUGE_MEMORY ? counter(FD_GAUGE_MEMORY, "oom_kill ") : 0;
    ret->pids_refused = guest->gauges & GUEST_ROOT_GAUGE_PIDS ? counter(FD_GAUGE_PIDS, "max ") : 0;
}

// No kernel counts refused writes, so a disk with hardly a page left at the end was a limit that
// was felt.
int guest_disk_full(const struct guest *guest)
{
    enum { SLACK = 128 * 1024 };
    if (guest->gauges & GUEST_ROOT_GAUGE_DISK) {
        uint64_t max = counter(FD_GAUGE_DISK_MAX, "");
        return max > 0 && counter(FD_GAUGE_DISK_USED, "") + SLACK > max;
    }
    struct statfs fs;
    if (fstatfs(FD_ROOT, &fs) < 0)
        return 0;
    return fs.f_bavail * (uint64_t)fs.f_bsize < SLACK || (fs.f_files > 0 && fs.f_ffree == 0);
}
