// SPDX-License-Identifier: Apache-2.0
#include "pack/guard.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

// By what they are for. A call that is missing here fails with EPERM.
static const char *const allowed[] = {
    // memory, threads, time
    "brk",
    "mmap",
    "munmap",
    "mprotect",
    "mremap",
    "madvise",
    "futex",
    "set_robust_list",
    "rseq",
    "sched_yield",
    "sched_getaffinity",
    "sysinfo",
    "gettid",
    "getpid",
    "exit",
    "exit_group",
    "clock_gettime",
    "clock_nanosleep",
    "getrandom",
    "restart_syscall",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigaction",
    "tgkill", // abort
    // descriptors
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "close",
    "fcntl",
    "lseek",
    "fadvise64",
    "pipe2",
    "poll",
    "ppoll",
    // files, below the one tree that there is
    "openat",
    "openat2",
    "getdents64",
    "newfstatat",
    "fstat",
    "statx",
    "readlinkat",
    "mkdirat",
    "mknodat",
    "linkat",
    "symlinkat",
    "unlinkat",
    "renameat",
    "renameat2",
    "ftruncate",
    "fallocate",
    "fchmod",
    "fchown",
    "fchownat",
    "utimensat",
    "fsync",
    "fsetxattr",
    "fgetxattr",
    "flistxattr",
    "umask",
};

static int add(scmp_filter_ctx ctx, const char *name)
{
    int nr = seccomp_syscall_resolve_name(name);
    if (nr == __NR_SCMP_ERROR)
        return 0; // another architecture's
    int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
    return r == -EEXIST ? 0 : r;
}

static int add_threads(scmp_filter_ctx ctx)
{
    // Threads, but no processes; the C library takes clone where there is no clone3.
    int r = seccomp_rule_add(
        ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
        SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD | CLONE_VM, CLONE_THREAD | CLONE_VM));
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                             SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
    return r;
}

int guard_load(struct err *err)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int r = ctx != NULL ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < sizeof allowed / sizeof *allowed; i++)
        r = add(ctx, allowed[i]);
    if (r == 0)
        r = add_threads(ctx);
    if (r == 0)
        r = seccomp_load(ctx);
    seccomp_release(ctx);
    return r < 0 ? err_sys(err, -r, "load the filter of system calls") : 0;
}
