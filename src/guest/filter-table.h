// SPDX-License-Identifier: Apache-2.0
// Which system calls code in a box may make. This page is the whole policy: filter-gen turns it into a
// program for the kernel when Cay is built, and the tests hold the program against it.
//
// It is an allow list. A call that stands nowhere on the page is answered with ENOSYS, as by a kernel
// that is too old for it, so that a libc newer than this page falls back to what it did before. A call
// that was looked at and refused stands in a group with its reason, and is mostly answered with EPERM.
//
// The filter is one of several walls. User code is root of a user namespace that owns nothing, so the
// kernel itself refuses most of what is refused here; the filter takes away the code in which such a
// refusal, or what comes before it, could go wrong. It is loaded once, by the guest, and inherited by
// everything in the box: what the guest needs is therefore allowed, and said so where it looks odd.
//
// Only the machine's own 64-bit entry is open. 32-bit calls (int 0x80 on x86-64, AArch32 on arm64) and x32 numbers get
// ENOSYS whatever they ask for: a second table to keep, with its own numbers and argument layouts, is
// the classic way around a filter, and images are 64-bit. Not a kill, because the kernel logs those, and code in a
// box shall not be able to fill the host's log.
//
// Numbers stand behind calls that an older libseccomp does not know by name. From 424 on they are the
// same on all architectures. Calls that one architecture does not have are left out there.
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <asm/ioctls.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum {
    FILTER_ALLOW = -1, // any other answer is the errno that the caller sees; 0 pretends success
    FILTER_NR_MAX = 512,
    FILTER_TESTS_MAX = 5,
};

// Calls that are answered without a look at their arguments. `calls` holds names, or name=number.
struct filter_group {
    int answer;
    const char *calls;
};

static const struct filter_group filter_groups[] = {
    // -- allowed

    // Descriptors and bytes.
    {FILTER_ALLOW, "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek "
                   "close close_range dup dup2 dup3 fcntl flock pipe pipe2 sendfile splice tee "
                   "vmsplice copy_file_range readahead fadvise64"},
    // Files and directories, by path and by descriptor. What a path may reach is the box's root.
    {FILTER_ALLOW, "open openat openat2 creat stat lstat fstat newfstatat statx access faccessat "
                   "faccessat2 getdents getdents64 getcwd chdir fchdir rename renameat renameat2 "
                   "mkdir mkdirat rmdir link linkat unlink unlinkat symlink symlinkat readlink "
                   "readlinkat chmod fchmod fchmodat fchmodat2=452 chown lchown fchown fchownat "
                   "umask utime utimes futimesat utimensat truncate ftruncate fallocate statfs "
                   "fstatfs chroot"},
    // fsync, fdatasync and syncfs reach no further than the box's own disk; for sync see below.
    {FILTER_ALLOW, "fsync fdatasync syncfs sync_file_range"},
    // Extended attributes and the flags that chattr sets. `trusted` ones and the immutable bit are
    // refused by the kernel to all but the host's root.
    {FILTER_ALLOW, "setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr "
                   "flistxattr removexattr lremovexattr fremovexattr setxattrat=463 getxattrat=464 "
                   "listxattrat=465 removexattrat=466 file_getattr=468 file_setattr=469"},
    // What is mounted: mountinfo says the same.
    {FILTER_ALLOW, "statmount=457 listmount=458"},
    {FILTER_ALLOW, "inotify_init inotify_init1 inotify_add_watch inotify_rm_watch"},
    // Waiting for descriptors, and descriptors to wait for.
    {FILTER_ALLOW, "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait "
                   "epoll_pwait epoll_pwait2 eventfd eventfd2 signalfd signalfd4 timerfd_create "
                   "timerfd_settime timerfd_gettime"},
    // Memory. Locked pages are bounded by RLIMIT_MEMLOCK and counted to the box.
    {FILTER_ALLOW, "brk mmap munmap mprotect mremap msync mincore madvise mlock mlock2 munlock "
                   "mlockall munlockall memfd_create pkey_mprotect pkey_alloc pkey_free mseal=462 "
                   "map_shadow_stack=453 cachestat=451 process_madvise process_mrelease membarrier"},
    // Where memory lies on a machine with several nodes: numerical libraries and databases set it for
    // themselves, and the memory controller's list of nodes bounds it.
    {FILTER_ALLOW, "mbind set_mempolicy get_mempolicy set_mempolicy_home_node"},
    // Threads and their locks. rseq_slice_yield belongs to rseq.
    {FILTER_ALLOW, "futex futex_waitv futex_wake=454 futex_wait=455 futex_requeue=456 "
                   "set_robust_list get_robust_list set_tid_address rseq rseq_slice_yield=471 "
                   "arch_prctl getcpu sched_yield"},
    // Processes. clone3 has its flags behind a pointer, where a filter cannot look, and libc needs
    // the call for threads; so namespaces are kept from it by other means: user code has no capability over the box's
    // namespaces, and every limit below /proc/sys/user/max_*_namespaces is 0 in its user namespace.
    {FILTER_ALLOW, "clone3 fork vfork execve execveat exit exit_group wait4 waitid getpid getppid "
                   "gettid getpgid getpgrp setpgid getsid setsid pidfd_open pidfd_send_signal"},
    // Signals.
    {FILTER_ALLOW, "kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigpending rt_sigsuspend "
                   "rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo rt_sigreturn sigaltstack "
                   "pause restart_syscall"},
    // Debuggers: gdb and strace are tools of the trade, and the kernel keeps them to processes of the
    // same box (never the guest, whose user namespace is the parent's). Since Linux 4.8 the filter
    // runs after a tracer has changed a call, so tracing is no way around it.
    {FILTER_ALLOW, "ptrace process_vm_readv process_vm_writev pidfd_getfd"},
    // Identity. The ids are the user namespace's own. The guest sets these for each thing it starts.
    {FILTER_ALLOW, "getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid "
                   "setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capget capset"},
    // Shares of the processor and other limits. Real-time classes and raised limits need
    // capabilities on the host.
    {FILTER_ALLOW, "getpriority setpriority sched_setparam sched_getparam sched_setscheduler "
                   "sched_getscheduler sched_get_priority_max sched_get_priority_min "
                   "sched_rr_get_interval sched_setaffinity sched_getaffinity sched_setattr "
                   "sched_getattr ioprio_set ioprio_get getrlimit setrlimit prlimit64 getrusage"},
    // Reading clocks, sleeping, timers.
    {FILTER_ALLOW, "time times gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep "
                   "getitimer setitimer alarm timer_create timer_settime timer_gettime "
                   "timer_getoverrun timer_delete"},
    // Sockets, once there is one: which ones may be made stands in filter_checks.
    {FILTER_ALLOW, "bind listen accept accept4 connect shutdown getsockname getpeername getsockopt "
                   "sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg"},
    // System V and POSIX queues, semaphores, shared memory: in the box's own IPC namespace.
    {FILTER_ALLOW, "shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv "
                   "msgctl mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr"},
    // About the machine, and random numbers.
    {FILTER_ALLOW, "uname sysinfo getrandom"},
    // Sandboxes within the sandbox: they only ever take away. A filter that asks a listener cannot
    // loosen this one, because of all answers the strictest holds, and an errno is stricter
    // than a question. A filter that logs is slowed by the kernel's own rate limit.
    {FILTER_ALLOW, "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self"},

    // -- refused: the machine

    // Start another kernel, change the one that runs, halt it, fill its log.
    {EPERM, "kexec_load kexec_file_load init_module finit_module delete_module reboot syslog"},
    // Devices below the kernel: ports, swap, accounting, quotas, terminals of others.
    {EPERM, "iopl ioperm swapon swapoff acct quotactl quotactl_fd vhangup"},
    // The clock is everybody's.
    {EPERM, "settimeofday clock_settime adjtimex clock_adjtime"},
    // Writes back every file system of the machine, neighbours' too, and who calls it in a loop brings
    // all of them to a crawl. It promises nothing that a caller could check; fsync and syncfs do.
    {0, "sync"},

    // -- refused: the walls of the box

    // Mounts, old interface and new.
    {EPERM, "mount umount2 pivot_root fsopen fsconfig fsmount fspick open_tree open_tree_attr=467 "
            "move_mount mount_setattr"},
    // Namespaces; for setns and clone see filter_checks.
    {EPERM, "unshare sethostname setdomainname"},
    {ENOSYS, "listns=470"},
    // Files by handle, which is past every path: with the right number any file of the volume opens.
    {EPERM, "name_to_handle_at open_by_handle_at"},
    // Watches on whole mounts, and decisions about the accesses of others.
    {EPERM, "fanotify_init fanotify_mark"},

    // -- refused: parts of the kernel that break often, or that boxes would share

    // Programs in the kernel, and a second way into nearly every call that no filter sees.
    {EPERM, "bpf io_uring_setup io_uring_enter io_uring_register"},
    // Keyrings outlive processes and namespaces.
    {EPERM, "add_key request_key keyctl"},
    // Faults that wait for user code: the tool that makes kernel races easy to win.
    {EPERM, "userfaultfd"},
    // Counters tell of neighbours.
    {EPERM, "perf_event_open"},
    // Moving pages tells where they lie, and disturbs whoever shares them.
    {EPERM, "move_pages migrate_pages"},
    // Order of kernel objects in memory.
    {EPERM, "kcmp"},
    // Asynchronous I/O before io_uring: its requests count against one number for the whole machine
    // (fs.aio-max-nr), so one box could starve all. Databases fall back to threads.
    {ENOSYS, "io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents"},
    // Takes pages out of the kernel's own map of memory, which it splinters: slower for the whole machine.
    {ENOSYS, "memfd_secret"},
    // Segments of 16- and 32-bit programs, with a history of holes; pages out of order, emulated.
    {ENOSYS, "modify_ldt remap_file_pages"},
    // Attributes of security modules: /proc/self/attr still has them.
    {ENOSYS, "lsm_get_self_attr=459 lsm_set_self_attr=460 lsm_list_modules=461"},

    // -- refused: fossils, most of which no kernel answers any more

    {ENOSYS, "_sysctl sysfs ustat uselib nfsservctl lookup_dcookie create_module get_kernel_syms "
             "query_module getpmsg putpmsg afs_syscall tuxcall security vserver set_thread_area "
             "get_thread_area epoll_ctl_old epoll_wait_old"},
};

// A test of one argument. Only its lower 32 bits count: each argument tested below is an int, an
// unsigned int or a mode to the kernel, which drops the upper half of the register before it looks, so a
// filter that compared the upper half as well could be passed with rubbish in it.
struct filter_test {
    unsigned arg;
    bool equal; // holds if (arg & mask) == value; else if not
    uint32_t mask;
    uint32_t value;
};

#define FILTER_IS(arg, value)           {(arg), true, UINT32_MAX, (value)}
#define FILTER_NOT(arg, value)          {(arg), false, UINT32_MAX, (value)}
#define FILTER_BITS(arg, mask, value)   {(arg), true, (mask), (value)}
#define FILTER_BITS_NOT(arg, mask, val) {(arg), false, (mask), (val)}

// Calls whose arguments matter. Rows of one call stand together; the first row whose tests all hold
// gives the answer, and the last row of a call has none. A mask of 0 ends a row's tests.
struct filter_check {
    const char *call;
    int answer;
    struct filter_test tests[FILTER_TESTS_MAX];
};

enum {
    FILTER_NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                        CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET,
    FILTER_SOCK_TYPE = 0xf, // above are SOCK_CLOEXEC and SOCK_NONBLOCK
    FILTER_PR_SCHED_CORE = 62,
};

static const struct filter_check filter_checks[] = {
    // Processes and threads, but no namespaces. (The kernel takes 32 bits of the flags.)
    {"clone", FILTER_ALLOW, {FILTER_BITS(0, FILTER_NAMESPACES, 0)}},
    {"clone", EPERM, {}},

    // The guest sends each process that it starts into the box's user namespace. User code gains
    // nothing: it owns no user namespace, and that is what the kernel asks for.
    {"setns", FILTER_ALLOW, {FILTER_IS(1, CLONE_NEWUSER)}},
    {"setns", EPERM, {}},

    // Typing into somebody's terminal, pasting into a console; line disciplines, most of which are
    // old drivers that nobody needs on a pseudo-terminal.
    {"ioctl", EPERM, {FILTER_IS(1, TIOCSTI)}},
    {"ioctl", EPERM, {FILTER_IS(1, TIOCLINUX)}},
    {"ioctl", EPERM, {FILTER_IS(1, TIOCSETD)}},
    {"ioctl", FILTER_ALLOW, {}},

    // Sockets: local, TCP, UDP and ping, and the one netlink family by which getifaddrs asks for addresses. All others
    // are code that a box with nothing but a loopback has no use for, and asking for one may
    // load a module into the kernel: packet, vsock, alg, tipc, can, bluetooth...; sctp, dccp, l2tp, mptcp, smc.
    // SOCK_PACKET must go by its type: the kernel turns (AF_INET, SOCK_PACKET) into AF_PACKET.
    {"socket", FILTER_ALLOW, {FILTER_IS(0, AF_UNIX)}},
    {"socket", FILTER_ALLOW, {FILTER_IS(0, AF_NETLINK), FILTER_IS(2, NETLINK_ROUTE)}},
    {"socket", EPROTONOSUPPORT, {FILTER_IS(0, AF_NETLINK)}},
    {"socket", EAFNOSUPPORT, {FILTER_NOT(0, AF_INET), FILTER_NOT(0, AF_INET6)}},
    {"socket", EPERM, {FILTER_BITS(1, FILTER_SOCK_TYPE, SOCK_RAW)}},
    {"socket",
     ESOCKTNOSUPPORT,
     {FILTER_BITS_NOT(1, FILTER_SOCK_TYPE, SOCK_STREAM),
      FILTER_BITS_NOT(1, FILTER_SOCK_TYPE, SOCK_DGRAM)}},
    {"socket",
     EPROTONOSUPPORT,
     {FILTER_NOT(2, IPPROTO_IP), FILTER_NOT(2, IPPROTO_TCP), FILTER_NOT(2, IPPROTO_UDP),
      FILTER_NOT(2, IPPROTO_ICMP), FILTER_NOT(2, IPPROTO_ICMPV6)}},
    {"socket", FILTER_ALLOW, {}},
    {"socketpair", FILTER_ALLOW, {FILTER_IS(0, AF_UNIX)}},
    {"socketpair", EAFNOSUPPORT, {}},

    // Programs on sockets are compiled into memory of which the whole machine has one limited pool
    // (net.core.bpf_jit_limit): full, and no new box could load this very filter. And TLS in the
    // kernel, a large piece of code for a box without a network.
    {"setsockopt", ENOPROTOOPT, {FILTER_IS(1, IPPROTO_TCP), FILTER_IS(2, TCP_ULP)}},
    {"setsockopt", FILTER_ALLOW, {FILTER_NOT(1, SOL_SOCKET)}},
    {"setsockopt", EPERM, {FILTER_IS(2, SO_ATTACH_FILTER)}},
    {"setsockopt", EPERM, {FILTER_IS(2, SO_ATTACH_BPF)}},
    {"setsockopt", EPERM, {FILTER_IS(2, SO_ATTACH_REUSEPORT_CBPF)}},
    {"setsockopt", EPERM, {FILTER_IS(2, SO_ATTACH_REUSEPORT_EBPF)}},
    {"setsockopt", FILTER_ALLOW, {}},

    // PR_SET_MM rearranges a process's own map, for checkpointing. PR_SCHED_CORE keeps others off the
    // sibling of one's core: a lever against neighbours. EINVAL is what a kernel without it says.
    {"prctl", EPERM, {FILTER_IS(0, PR_SET_MM)}},
    {"prctl", EINVAL, {FILTER_IS(0, FILTER_PR_SCHED_CORE)}},
    {"prctl", FILTER_ALLOW, {}},

    // Ask (all ones), plain Linux, 32-bit names, fixed addresses for debuggers. Other personalities
    // weaken the process: executable data, page zero.
    {"personality", FILTER_ALLOW, {FILTER_IS(0, UINT32_MAX)}},
    {"personality", FILTER_ALLOW, {FILTER_BITS(0, ~(PER_LINUX32 | ADDR_NO_RANDOMIZE), 0)}},
    {"personality", EPERM, {}},

    // Files, pipes and sockets, no devices. Type 0 is a file.
    {"mknod", FILTER_ALLOW, {FILTER_BITS(1, S_IFMT, 0)}},
    {"mknod", FILTER_ALLOW, {FILTER_BITS(1, S_IFMT, S_IFREG)}},
    {"mknod", FILTER_ALLOW, {FILTER_BITS(1, S_IFMT, S_IFIFO)}},
    {"mknod", FILTER_ALLOW, {FILTER_BITS(1, S_IFMT, S_IFSOCK)}},
    {"mknod", EPERM, {}},
    {"mknodat", FILTER_ALLOW, {FILTER_BITS(2, S_IFMT, 0)}},
    {"mknodat", FILTER_ALLOW, {FILTER_BITS(2, S_IFMT, S_IFREG)}},
    {"mknodat", FILTER_ALLOW, {FILTER_BITS(2, S_IFMT, S_IFIFO)}},
    {"mknodat", FILTER_ALLOW, {FILTER_BITS(2, S_IFMT, S_IFSOCK)}},
    {"mknodat", EPERM, {}},
};

// The constants above are those of the machine that builds; these are what both targets have.
_Static_assert(TIOCSTI == 0x5412 && TIOCLINUX == 0x541c && TIOCSETD == 0x5423, "ioctls");
_Static_assert(SOL_SOCKET == 1 && SO_ATTACH_FILTER == 26 && SO_ATTACH_BPF == 50, "sockets");
_Static_assert(SOCK_STREAM == 1 && SOCK_DGRAM == 2 && EPERM == 1 && ENOSYS == 38, "generic");

enum { FILTER_NAME_MAX = 32 };

// Takes the next call off a group's list. Sets ret_nr to the number that stands behind it, or -1. False at the end.
static inline bool filter_next_call(const char **list, char ret_name[FILTER_NAME_MAX], int *ret_nr)
{
    *list += strspn(*list, " ");
    size_t word = strcspn(*list, " ");
    size_t len = strcspn(*list, " =");
    if (len == 0 || len >= FILTER_NAME_MAX)
        return false;
    memcpy(ret_name, *list, len);
    ret_name[len] = '\0';
    *ret_nr = len < word ? (int)strtol(*list + len + 1, NULL, 10) : -1;
    *list += word;
    return true;
}
