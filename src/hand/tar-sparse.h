// SPDX-License-Identifier: Apache-2.0
// Where a file has data. Holes of some size are left out of an archive; smaller ones are written as
// zeros, and where a file has too many, the smallest are.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "hand/tar-format.h"

// How many pieces, or -EFBIG when over a gigabyte of zeros, and more of them than of data, would
// have to be written. 1 piece that is the whole file: it has no holes. Ends with an empty piece at
// `size` if the file ends with a hole, as GNU's reader wants it. In `ret` is room for
// TAR_EXTENTS_MAX.
int tar_sparse_find(int fd, uint64_t size, struct tar_extent *ret);
