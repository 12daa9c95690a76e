// SPDX-License-Identifier: Apache-2.0
// The pipe that an archive goes to. Headers and small files are gathered; what is large goes from
// its file to the pipe in the kernel.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { TAR_SINK_SIZE = 256 * 1024 };

struct tar_sink {
    int fd;
    size_t len;
    uint8_t bytes[TAR_SINK_SIZE];
};

// All of them: 0 or -errno.
int tar_sink_put(struct tar_sink *sink, const void *data, size_t len);
int tar_sink_zeros(struct tar_sink *sink, uint64_t len);
// `len` bytes of the file from `at` on: zeros where it has become shorter.
int tar_sink_file(struct tar_sink *sink, int fd, uint64_t at, uint64_t len);
int tar_sink_flush(struct tar_sink *sink);
