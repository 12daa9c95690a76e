// SPDX-License-Identifier: Apache-2.0
// The system call filter of a box. What it allows stands in filter-table.h; the program itself is
// made from that when Cay is built. It holds for the calling thread and for whatever that starts,
// for good.
#pragma once

#include <linux/filter.h>

extern const struct sock_filter filter_program[];
extern const unsigned short filter_program_len; // in instructions

// Loads it. The caller has set no_new_privs or has CAP_SYS_ADMIN in its user namespace. 0 or
// -errno; -524 (the kernel's ENOTSUPP) means that the machine's memory for compiled filters is used
// up.
int filter_load(void);
