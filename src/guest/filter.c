// SPDX-License-Identifier: Apache-2.0
#include "guest/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

const struct sock_filter filter_program[] = {
#if defined(__x86_64__)
#    include "guest/filter-x86_64.inc"
#elif defined(__aarch64__)
#    include "guest/filter-aarch64.inc"
#else
#    error "this architecture is not in filter-gen.c yet"
#endif
};

const unsigned short filter_program_len = sizeof filter_program / sizeof *filter_program;

// No flags: whether a filtered process gives up speculation is left to the machine's own setting
// (spec_store_bypass_disable=), and refusals are not logged.
int filter_load(void)
{
    const struct sock_fprog prog = {
        .len = filter_program_len,
        .filter = (struct sock_filter *)(uintptr_t)filter_program, // the kernel only reads it
    };
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}
