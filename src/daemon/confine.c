// SPDX-License-Identifier: Apache-2.0
#include "daemon/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

// The sanitizers' leak checker starts a process that traces us.
#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

// By what they are for. A call that is missing here fails with EPERM; clone3 with ENOSYS, after
// which the C library takes clone, whose flags can be looked at.
static const char *const allowed[] = {
    // memory, threads, time
    "brk",
    "mmap",
    "munmap",
    "mprotect",
    "mremap",
    "madvise",
    "mlock",
    "munlock",
    "futex",
    "futex_waitv",
    "set_robust_list",
    "rseq",
    "arch_prctl",
    "set_tid_address",
    "sched_yield",
    "sched_getaffinity",
    "gettid",
    "getpid",
    "getppid",
    "exit",
    "exit_group",
    "clock_gettime",
    "clock_getres",
    "clock_nanosleep",
    "nanosleep",
    "gettimeofday",
    "time",
    "getrandom",
    "restart_syscall",
    "membarrier",
    "getcpu",
    // signals, to itself
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigaltstack",
    "tgkill",
    // the loop
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "eventfd2",
    "pipe2",
    "timerfd_create",
    "timerfd_settime",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    // sockets that it has or accepts, and those out of boxes (socket below)
    "accept4",
    "accept",
    "recvfrom",
    "recvmsg",
    "sendto",
    "sendmsg",
    "sendfile",
    "shutdown",
    "getsockname",
    "getpeername",
    "getsockopt",
    "setsockopt",
    "listen",
    "socketpair",
    "connect",
    "bind",
    "sendmmsg", // how the C library asks name servers
    "recvmmsg",
    // descriptors and files in its own directory
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "splice",
    "tee",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "fcntl",
    "ioctl",
    "lseek",
    "ftruncate",
    "fallocate",
    "fadvise64",
    "fsync",
    "fdatasync",
    "syncfs",
    "fsetxattr", // checksums of stored objects
    "fgetxattr",
    "open",
    "openat",
    "openat2",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "fstat",
    "stat",
    "lstat",
    "newfstatat",
    "statx",
    "fstatfs",
    "statfs",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
    "getdents64",
    "getcwd",
    "flock",
    "fchmod",
    "umask",
    "memfd_create",
    // what libraries ask about
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "getrusage",
    "sysinfo",
    "uname",
    "prlimit64",
    "getrlimit",
    "getpriority",
    "sched_getscheduler",
    "sched_getparam",
};

static int add(scmp_filter_ctx ctx, const char *name)
{
    int nr = seccomp_syscall_resolve_name(name);
    if (nr == __NR_SCMP_ERROR)
        return 0; // another architecture's
    int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
    return r == -EEXIST ? 0 : r;
}

// Streams out of boxes, and datagrams to name servers, over IP. No unix sockets of others, no
// netlink, no raw ones: the resolver does without (it asks nscd, and the kernel for its addresses,
// in vain).
static int add_sockets(scmp_filter_ctx ctx)
{
    static const int families[] = {AF_INET, AF_INET6};
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
    const scmp_datum_t kind = ~(scmp_datum_t)(SOCK_NONBLOCK | SOCK_CLOEXEC);
    int r = 0;
    for (unsigned i = 0; r == 0 && i < 4; i++) {
        scmp_datum_t type = (scmp_datum_t)types[i % 2];
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
                             SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i / 2]),
                             SCMP_A1(SCMP_CMP_MASKED_EQ, kind, type));
    }
    return r;
}

static int add_with_arguments(scmp_filter_ctx ctx)
{
    // Threads, but no processes.
    int r = seccomp_rule_add(
        ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
        SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD | CLONE_VM, CLONE_THREAD | CLONE_VM));
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    // Names of threads.
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                             SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
    if (r == 0)
        r = add_sockets(ctx);
    return r;
}

static int load_filter(struct err *err)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int r = ctx != NULL ? 0 : -ENOMEM;
    for (size_t i = 0; r == 0 && i < sizeof allowed / sizeof *allowed; i++)
        r = add(ctx, allowed[i]);
    if (r == 0)
        r = add_with_arguments(ctx);
    if (r == 0)
        r = seccomp_load(ctx);
    seccomp_release(ctx);
    return r < 0 ? err_sys(err, -r, "load the daemon's filter of system calls") : 0;
}

// Permitted, inheritable, bounding and ambient sets are all nothing.
static int check_capabilities(struct err *err)
{
    static const char *const sets[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
    char text[4096];
    if (fd_read_file(AT_FDCWD, "/proc/self/status", text, sizeof text) < 0)
        return err_set(err, ERR_INTERNAL, "cannot read what the daemon may do");
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        const char *line = strstr(text, sets[i]);
        if (line == NULL || strtoull(line + strlen(sets[i]), NULL, 16) != 0)
            return err_set(
                err, ERR_DENIED,
                "the daemon has capabilities (%s): it is started by 'cay serve', not by hand",
                sets[i]);
    }
    return 0;
}

// No core, which would hold what is secret: the limit is for files, the flag for cores that are
// piped to a program, and for whoever would trace us. The leak checker does.
static int forbid_dumps(struct err *err)
{
    const struct rlimit none = {0};
    if (setrlimit(RLIMIT_CORE, &none) < 0)
        return err_sys(err, errno, "forbid core dumps");
    if (!SANITIZED && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_sys(err, errno, "forbid being traced");
    return 0;
}

int confine(struct err *err)
{
    if (geteuid() == 0 || getuid() == 0)
        return err_set(err, ERR_DENIED,
                       "the daemon does not run as root: it is started by 'cay serve'");
    if (check_capabilities(err) < 0 || forbid_dumps(err) < 0)
        return -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(err, errno, "set no_new_privs");
    return SANITIZED ? 0 : load_filter(err);
}
