// SPDX-License-Identifier: Apache-2.0
// Any bytes as an archive, unpacked for real: beside the directory nothing appears.
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "pack/ignore.h"
#include "pack/pack-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int top = -1;

static void open_top(void)
{
    char path[] = "/tmp/cay-unpack-fuzz-XXXXXX";
    assert(mkdtemp(path) != NULL);
    top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert(top >= 0);
}

// The directory that was asked for, and what it is made in.
static void check_top(void)
{
    int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fdopendir(fd);
    assert(dir != NULL);
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        assert(e->d_name[0] == '.' || strcmp(e->d_name, "d") == 0);
    (void)closedir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    if (top < 0)
        open_top();
    auto_fd in = memfd_create("fuzz", MFD_CLOEXEC);
    assert(in >= 0 && fd_write_all(in, data, size) == 0 && lseek(in, 0, SEEK_SET) == 0);
    struct job job = {.top = top,
                      .dir = "/d",
                      .in = in,
                      .out = -1,
                      .max_bytes = 1 << 20,
                      .max_entries = 100,
                      .ignore = ignore_new()};
    int r = job_unpack(&job, &err);
    assert((r == 0) == (err.code == ERR_NONE));
    check_top();
    assert(tree_empty(top, &(struct err){0}) == 0);
    ignore_free(job.ignore);
    return 0;
}
