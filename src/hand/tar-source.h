// SPDX-License-Identifier: Apache-2.0
// The pipe that an archive comes from. Headers and small files go through a buffer; what is large
// goes from the pipe to its file in the kernel.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { TAR_SOURCE_SIZE = 256 * 1024 };

struct tar_source {
    int fd;
    size_t at, len; // in the buffer, what is not taken yet
    uint8_t bytes[TAR_SOURCE_SIZE];
};

// All of them: -EBADMSG when the archive ends within.

// The next block, good until the next call. 1, or 0 at the end of the input; `ret_len` is how much
// of it there was where it ended early.
int tar_source_block(struct tar_source *src, const uint8_t **ret, size_t *ret_len);
int tar_source_read(struct tar_source *src, char *to, size_t len); // 0
int tar_source_skip(struct tar_source *src, uint64_t len);         // 0
// To the file, from where it stands.
int tar_source_file(struct tar_source *src, int fd, uint64_t len);
int tar_source_drain(struct tar_source *src); // all that is left
