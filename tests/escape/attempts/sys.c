// SPDX-License-Identifier: Apache-2.0
// 17 /sys.
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attempt.h"

static enum outcome sys_write(const struct attempt *self)
{
    return try_open_write(self->arg);
}

static enum outcome sys_read(const struct attempt *self)
{
    return try_read(self->arg);
}

static enum outcome sys_list(const struct attempt *self)
{
    const char *path = self->arg;
    DIR *dir = opendir(path);
    const struct dirent *entry;
    if (dir == NULL)
        return held("%s: %s", path, strerrorname_np(errno));
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            enum outcome outcome = escaped("%s shows %.64s", path, entry->d_name);
            closedir(dir);
            return outcome;
        }
    }
    closedir(dir);
    return held("%s is empty", path);
}

static char hit[200];
static int walked;

// Access is asked for first: opening for writing is kept to the one file that proves it.
static int try_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    if (flag != FTW_F)
        return 0;
    walked++;
    if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0)
        return 0;
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return 0;
    close(fd);
    snprintf(hit, sizeof(hit), "%s", path);
    return 1;
}

static enum outcome sys_walk(const struct attempt *self)
{
    (void)self;
    nftw("/sys", try_entry, 32, FTW_PHYS);
    if (hit[0] != '\0')
        return escaped("%.150s opens for writing", hit);
    return held("none of %d files below /sys opens for writing", walked);
}

#define SYS_HELD "a /sys of our own, without the machine in it"

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    {.number = 17,
     .name = "sys_dmi",
     .tries = "reads what the machine is",
     .held_by = SYS_HELD,
     .canary = "sys",
     .needs = "file:/sys/class/dmi/id/product_name",
     .run = sys_read,
     .arg = "/sys/class/dmi/id/product_name"},
    {.number = 17,
     .name = "sys_firmware",
     .tries = "lists the firmware's tables",
     .held_by = SYS_HELD,
     .canary = "sys",
     .needs = "file:/sys/firmware",
     .run = sys_list,
     .arg = "/sys/firmware"},
    {.number = 17,
     .name = "sys_block",
     .tries = "lists the host's disks",
     .held_by = SYS_HELD,
     .canary = "sys",
     .run = sys_list,
     .arg = "/sys/block"},
    {.number = 17,
     .name = "sys_modules",
     .tries = "lists the kernel's modules and their settings",
     .held_by = SYS_HELD,
     .canary = "sys",
     .run = sys_list,
     .arg = "/sys/module"},
    {.number = 17,
     .name = "sys_uevent_helper",
     .tries = "names a program for the kernel to run",
     .held_by = SYS_HELD,
     .canary = "sys,caps,userns",
     .needs = "file:/sys/kernel/uevent_helper",
     .run = sys_write,
     .arg = "/sys/kernel/uevent_helper"},
    {.number = 17,
     .name = "sys_power",
     .tries = "opens the switch that suspends the machine",
     .held_by = SYS_HELD,
     .canary = "sys,caps,userns",
     .needs = "file:/sys/power/state",
     .run = sys_write,
     .arg = "/sys/power/state"},
    {.number = 17,
     .name = "sys_walk",
     .tries = "looks for anything below /sys that it may write",
     .held_by = SYS_HELD,
     .canary = "sys,caps,userns",
     .run = sys_walk},
};
// clang-format on

const struct attempt_list sys_attempts = ATTEMPTS(attempts);
