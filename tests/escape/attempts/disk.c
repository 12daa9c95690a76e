// SPDX-License-Identifier: Apache-2.0
// 4 the disk: bytes, holes, inodes, names, depth.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

enum {
    STEP = 1 << 20,
    // Each costs the kernel more than half a KiB, so that none of these fits in a box of 64 MiB.
    MANY_FILES = 250000,
    MANY_LINKS = 700000,
    DEEP = 150000,
};

// A disk that counts in blocks and keeps some for itself may be off by a little.
static long slack(void)
{
    return world.disk / 8 + 2 * (long)STEP;
}

static enum outcome disk_fill(const struct attempt *self)
{
    static char block[STEP];
    long got = 0;
    (void)self;
    if (world.disk == 0)
        return cannot("needs --disk");
    int fd = open(scratch_path("fill"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return cannot("scratch file: %s", strerrorname_np(errno));
    for (size_t i = 0; i < sizeof(block); i++)
        block[i] = (char)(i * 2654435761u >> 13); // nothing that compresses well
    while (got < world.disk * 2) {
        ssize_t n = write(fd, block, sizeof(block));
        if (n <= 0 || fdatasync(fd) < 0)
            break;
        got += n;
        progress("%ld MiB on disk", got / STEP);
    }
    int error = errno;
    close(fd); // and left there: what the box says of its disk is judged too
    if (got > world.disk + slack())
        return escaped("%ld MiB on a disk of %ld MiB", got / STEP, world.disk / STEP);
    return held("full at %ld MiB of %ld: %s", got / STEP, world.disk / STEP,
                strerrorname_np(error));
}

static enum outcome disk_sparse(const struct attempt *self)
{
    (void)self;
    if (world.disk == 0)
        return cannot("needs --disk");
    int fd = open(scratch_path("sparse"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return cannot("scratch file: %s", strerrorname_np(errno));
    const char *hole = ftruncate(fd, 1L << 60) == 0 ? "1 EiB hole" : "no hole";
    int r = fallocate(fd, 0, 0, world.disk * 2);
    int error = errno;
    struct stat st = {0};
    fstat(fd, &st);
    close(fd);
    unlink(scratch_path("sparse"));
    if (r == 0 && st.st_blocks * 512 > world.disk + slack())
        return escaped("%ld MiB reserved on a disk of %ld MiB", (long)st.st_blocks / 2048,
                       world.disk / STEP);
    return held("%s; reserving twice the disk: %s", hole,
                r < 0 ? strerrorname_np(error) : "ignored");
}

static enum outcome disk_inodes(const struct attempt *self)
{
    char name[64];
    int made = 0;
    (void)self;
    if (world.disk == 0 || world.memory == 0)
        return cannot("needs --disk and --memory");
    if (chdir(scratch()) < 0)
        return cannot("scratch directory: %s", strerrorname_np(errno));
    for (; made < MANY_FILES; made++) {
        snprintf(name, sizeof(name), "a-name-as-long-as-names-often-are-%d", made);
        if (mknod(name, S_IFREG | 0600, 0) < 0)
            break;
        if (made % 1000 == 0)
            progress("%d files", made);
    }
    if (made == MANY_FILES)
        return escaped("%d files", made);
    return held("stopped at %d files: %s", made, strerrorname_np(errno));
}

static enum outcome disk_links(const struct attempt *self)
{
    char from[64], to[64];
    int made = 0;
    (void)self;
    if (world.disk == 0 || world.memory == 0)
        return cannot("needs --disk and --memory");
    if (chdir(scratch()) < 0)
        return cannot("scratch directory: %s", strerrorname_np(errno));
    for (; made < MANY_LINKS; made++) {
        int group = made / 30000; // file systems have a limit of links per file
        snprintf(from, sizeof(from), "file-%d", group);
        snprintf(to, sizeof(to), "a-name-as-long-as-names-often-are-%d", made);
        if (made % 30000 == 0 && mknod(from, S_IFREG | 0600, 0) < 0)
            break;
        if (link(from, to) < 0)
            break;
        if (made % 1000 == 0)
            progress("%d links", made);
    }
    if (made == MANY_LINKS)
        return escaped("%d links", made);
    return held("stopped at %d links: %s", made, strerrorname_np(errno));
}

static enum outcome disk_deep(const struct attempt *self)
{
    int made = 0;
    (void)self;
    if (world.disk == 0 || world.memory == 0)
        return cannot("needs --disk and --memory");
    if (chdir(scratch()) < 0)
        return cannot("scratch directory: %s", strerrorname_np(errno));
    for (; made < DEEP; made++) {
        if (mkdir("deeper", 0700) < 0 || chdir("deeper") < 0)
            break;
        if (made % 1000 == 0)
            progress("%d deep", made);
    }
    if (made == DEEP)
        return escaped("%d directories deep", made);
    return held("stopped at a depth of %d: %s", made, strerrorname_np(errno));
}

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    {.number = 4,
     .name = "disk_fill",
     .tries = "writes twice the allowed bytes",
     .held_by = "size of the box's disk",
     .canary = "disk",
     .place = ALONE,
     .killed_is_held = true,
     .run = disk_fill},
    {.number = 4,
     .name = "disk_sparse",
     .tries = "makes a hole of 1 EiB and reserves twice the disk in it",
     .held_by = "size of the box's disk",
     .canary = "disk",
     .place = ALONE,
     .killed_is_held = true,
     .run = disk_sparse},
    {.number = 4,
     .name = "disk_inodes",
     .tries = "makes a quarter of a million empty files",
     .held_by = "size of the box's disk, and the memory limit",
     .canary = "disk,memory",
     .place = ALONE,
     .killed_is_held = true,
     .run = disk_inodes},
    {.number = 4,
     .name = "disk_links",
     .tries = "gives a few files 700,000 names",
     .held_by = "size of the box's disk, and the memory limit",
     .canary = "disk,memory",
     .place = ALONE,
     .killed_is_held = true,
     .run = disk_links},
    {.number = 4,
     .name = "disk_deep",
     .tries = "nests directories 150,000 deep",
     .held_by = "size of the box's disk, and the memory limit; and removal that does not recurse",
     .canary = "disk,memory",
     .place = ALONE,
     .killed_is_held = true,
     .run = disk_deep},
};
// clang-format on

const struct attempt_list disk_attempts = ATTEMPTS(attempts);
