// SPDX-License-Identifier: Apache-2.0
// What a box may take, where nobody says otherwise, and what is possible at all.
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "wire/keeper-msg.h"

#define LIMIT_MEMORY_DEFAULT (1ull << 30)
#define LIMIT_MEMORY_MIN     (4ull << 20) // below, not even a shell starts
#define LIMIT_DISK_DEFAULT   (2ull << 30)
#define LIMIT_DISK_MIN       (1ull << 20)
#define LIMIT_BYTES_MAX      (1ull << 46)

enum {
    LIMIT_CPU_DEFAULT = 1000, // thousandths of a core
    LIMIT_CPU_MIN = 10,       // the kernel's own least quota is 1 ms in 100
    LIMIT_CPU_MAX = 1024 * 1000,
    LIMIT_PIDS_DEFAULT = 256,
    LIMIT_PIDS_MIN = 2, // the guest is one
    LIMIT_PIDS_MAX = 4 * 1024 * 1024,
    LIMIT_FILES_DEFAULT = 4096,
    LIMIT_FILES_MIN = 16,
    LIMIT_FILES_MAX = 1024 * 1024,
    LIMIT_OUTPUT_DEFAULT = 16 * 1024 * 1024, // bytes kept of what a program prints
};

struct box_limits limits_default(void);
int limits_check(const struct box_limits *limits, struct err *err);
