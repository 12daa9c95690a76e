// SPDX-License-Identifier: Apache-2.0
// Which system calls code in a box may make. This page is the whole policy: filter-gen turns it
// into a program for the kernel when Cay is built, and the tests hold the program against it.
//
// It is an allow list. A call that stands nowhere on the page is answered with ENOSYS, as by a
// kernel that is too old for it, so that a libc newer than this page falls back to what it did
// before. A call that was looked at and refused stands in a group with its reason, and is mostly
// answered with EPERM.
//
// The filter is one of several walls. User code is root of a user namespace that owns nothing, so
// the kernel itself refuses most of what is refused here; the filter takes away the code in which
// such a refusal, or what comes before it, could go wrong. It is loaded once, by the guest, and
// inherited by everything in the box: what the guest needs is therefore allowed, and said so where
// it looks odd.
//
// Only the machine's own 64-bit entry is open. 32-bit calls (int 0x80 on x86-64, AArch32 on arm64)
// and x32 numbers get ENOSYS whatever they ask for: a second table to keep, with its own numbers
// and argument layouts, is the classic way around a filter, and images are 64-bit. Not a kill,
// because the kernel logs those, and code in a box shall not be able to fill the host's log.
//
// Numbers stand behind calls that an older libseccomp does not know by name. From 424 on they are
// the same on all architectures. Calls that one architecture does not have are left out there.
#pragma once

#include <asm/ioctls.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum {
    FILTER_ALLOW = -1, // any other answer is the errno that the caller sees; 0 pretends success
    FILTER_NR_MAX = 512,
    FILTER_TESTS_MAX = 5,
};

// How to read the two lists.
//
// filter_groups: calls that are answered without a look at their arguments, as names or
// name=number.
struct filter_group {
    int answer;
    const char *calls;
};

// filter_checks: calls whose arguments matter. Rows of one call stand together; the first row whose
// tests all hold gives the answer, and the last has none.
//
// A test looks at the lower 32 bits of an argument. Each one tested is an int, an unsigned int or a
// mode to the kernel, which drops the upper half of the register before it looks; so must we, or
// rubbish there would be a way past.
struct filter_test {
    unsigned arg;
    bool equal;    // holds if (argument & mask) == value; else if not
    uint32_t mask; // 0 ends a row's tests
    uint32_t value;
};

struct filter_check {
    const char *call;
    int answer;
    struct filter_test tests[FILTER_TESTS_MAX];
};

// clang-format off
#define ALLOW(calls)               {FILTER_ALLOW, calls}
#define REFUSE(answer, calls)      {answer, calls}

#define WHEN(call, answer, ...)    {call, answer, {__VA_ARGS__}}
#define ELSE(call, answer)         {call, answer, {{0}}}
#define IS(arg, value)             {arg, true, UINT32_MAX, value}
#define NOT(arg, value)            {arg, false, UINT32_MAX, value}
#define BITS(arg, mask, value)     {arg, true, mask, value}
#define BITS_NOT(arg, mask, value) {arg, false, mask, value}
// clang-format on

enum {
    FILTER_NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                        CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET,
    FILTER_SOCK_TYPE = 0xf,    // above are SOCK_CLOEXEC and SOCK_NONBLOCK
    FILTER_PR_SCHED_CORE = 62, // missing in older headers
};

static const struct filter_group filter_groups[] = {
    // -- allowed

    // Descriptors and bytes.
    ALLOW("read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close "
          "close_range dup dup2 dup3 fcntl flock pipe pipe2 sendfile splice tee vmsplice "
          "copy_file_range readahead fadvise64"),
    // Files and directories, by path and by descriptor. What a path may reach is the box's root.
    ALLOW("open openat openat2 creat stat lstat fstat newfstatat statx access faccessat "
          "faccessat2 getdents getdents64 getcwd chdir fchdir rename renameat renameat2 mkdir "
          "mkdirat rmdir link linkat unlink unlinkat symlink symlinkat readlink readlinkat chmod "
          "fchmod fchmodat fchmodat2=452 chown lchown fchown fchownat umask utime utimes "
          "futimesat utimensat truncate ftruncate fallocate statfs fstatfs chroot"),
    // Of the box's own disk, and of the volume that it lies on at most; for sync see below.
    ALLOW("fsync fdatasync syncfs sync_file_range"),
    // Extended attributes and the flags that chattr sets. `trusted` ones and the immutable bit are
    // refused by the kernel to all but the host's root.
    ALLOW("setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr "
          "flistxattr removexattr lremovexattr fremovexattr setxattrat=463 getxattrat=464 "
          "listxattrat=465 removexattrat=466 file_getattr=468 file_setattr=469"),
    // What is mounted: mountinfo says the same.
    ALLOW("statmount=457 listmount=458"),
    ALLOW("inotify_init inotify_init1 inotify_add_watch inotify_rm_watch"),
    // Waiting for descriptors, and descriptors to wait for.
    ALLOW("poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait "
          "epoll_pwait2 eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime "
          "timerfd_gettime"),
    // Memory. Locked pages are bounded by RLIMIT_MEMLOCK and counted to the box.
    ALLOW("brk mmap munmap mprotect mremap msync mincore madvise mlock mlock2 munlock mlockall "
          "munlockall memfd_create pkey_mprotect pkey_alloc pkey_free mseal=462 "
          "map_shadow_stack=453 cachestat=451 process_madvise process_mrelease membarrier"),
    // Where memory lies on a machine with several nodes: numerical libraries and databases choose
    // for themselves, among the nodes of their cpuset.
    ALLOW("mbind set_mempolicy get_mempolicy set_mempolicy_home_node"),
    // Threads and their locks. rseq_slice_yield belongs to rseq.
    ALLOW("futex futex_waitv futex_wake=454 futex_wait=455 futex_requeue=456 set_robust_list "
          "get_robust_list set_tid_address rseq rseq_slice_yield=471 arch_prctl getcpu "
          "sched_yield"),
    // Processes. clone3 has its flags behind a pointer, where a filter cannot look, and libc needs
    // it for threads. Namespaces are kept from it by other means: user code has no capability over
    // those of the box, and /proc/sys/user/max_*_namespaces is 0 in its user namespace.
    ALLOW("clone3 fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid "
          "getpgid getpgrp setpgid getsid setsid pidfd_open pidfd_send_signal"),
    // Signals.
    ALLOW("kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigpending rt_sigsuspend "
          "rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo rt_sigreturn sigaltstack pause "
          "restart_syscall"),
    // Debuggers: gdb and strace are tools of the trade, and the kernel keeps them to the box (and
    // off the guest, which is in the user namespace above). Since Linux 4.8 the filter sees a call
    // after a tracer has changed it, so tracing is no way around it.
    ALLOW("ptrace process_vm_readv process_vm_writev pidfd_getfd"),
    // Identity, within the user namespace. The guest sets it for each process that it starts.
    ALLOW("getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid "
          "setregid setresuid setresgid setfsuid setfsgid setgroups capget capset"),
    // Shares of the processor and other limits. Real-time classes and raised limits need
    // capabilities on the host.
    ALLOW("getpriority setpriority sched_setparam sched_getparam sched_setscheduler "
          "sched_getscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval "
          "sched_setaffinity sched_getaffinity sched_setattr sched_getattr ioprio_set ioprio_get "
          "getrlimit setrlimit prlimit64 getrusage"),
    // Reading clocks, sleeping, timers.
    ALLOW("time times gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep getitimer "
          "setitimer alarm timer_create timer_settime timer_gettime timer_getoverrun timer_delete"),
    // Sockets, once there is one: which ones may be made stands in filter_checks.
    ALLOW("bind listen accept accept4 connect shutdown getsockname getpeername getsockopt sendto "
          "recvfrom sendmsg recvmsg sendmmsg recvmmsg"),
    // System V and POSIX queues, semaphores, shared memory: in the box's own IPC namespace.
    ALLOW("shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl "
          "mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr"),
    // About the machine, and random numbers.
    ALLOW("uname sysinfo getrandom"),
    // Sandboxes within the sandbox: they only ever take away. For filters see filter_checks.
    ALLOW("landlock_create_ruleset landlock_add_rule landlock_restrict_self"),

    // -- refused: the machine

    // Start another kernel, change the one that runs, halt it, fill its log.
    REFUSE(EPERM, "kexec_load kexec_file_load init_module finit_module delete_module reboot "
                  "syslog"),
    // Devices below the kernel: ports, swap, accounting, quotas, terminals of others.
    REFUSE(EPERM, "iopl ioperm swapon swapoff acct quotactl quotactl_fd vhangup"),
    // The clock is everybody's.
    REFUSE(EPERM, "settimeofday clock_settime adjtimex clock_adjtime"),
    // Writes back every file system of the machine: in a loop it brings all neighbours to a crawl.
    // Its callers see no result, so it does nothing; fsync and syncfs do what they promise.
    REFUSE(0, "sync"),

    // -- refused: the walls of the box

    // Mounts, old interface and new.
    REFUSE(EPERM, "mount umount2 pivot_root fsopen fsconfig fsmount fspick open_tree "
                  "open_tree_attr=467 move_mount mount_setattr"),
    // Namespaces; for setns and clone see filter_checks.
    REFUSE(EPERM, "unshare sethostname setdomainname"),
    REFUSE(ENOSYS, "listns=470"),
    // Files by handle, past every path: with the right number any file of the volume opens.
    REFUSE(EPERM, "name_to_handle_at open_by_handle_at"),
    // Watches on whole mounts, and decisions about the accesses of others.
    REFUSE(EPERM, "fanotify_init fanotify_mark"),

    // -- refused: parts of the kernel that break often, or that boxes would share

    // Programs in the kernel, and a second way into nearly every call that no filter sees.
    REFUSE(EPERM, "bpf io_uring_setup io_uring_enter io_uring_register"),
    // Keyrings outlive processes and namespaces.
    REFUSE(EPERM, "add_key request_key keyctl"),
    // Faults that wait for user code: the tool that makes kernel races easy to win.
    REFUSE(EPERM, "userfaultfd"),
    // Counters tell of neighbours.
    REFUSE(EPERM, "perf_event_open"),
    // Moving pages tells where they lie, and disturbs whoever shares them.
    REFUSE(EPERM, "move_pages migrate_pages"),
    // Order of kernel objects in memory.
    REFUSE(EPERM, "kcmp"),
    // Asynchronous I/O before io_uring: its requests count against one number for the whole machine
    // (fs.aio-max-nr), so one box could starve all. Databases fall back to threads.
    REFUSE(ENOSYS, "io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents"),
    // Takes pages out of the kernel's own map of memory; that splinters it, which slows everybody.
    REFUSE(ENOSYS, "memfd_secret"),
    // Segments of 16- and 32-bit programs, with a history of holes; pages out of order, emulated.
    REFUSE(ENOSYS, "modify_ldt remap_file_pages"),
    // Attributes of security modules: /proc/self/attr still has them.
    REFUSE(ENOSYS, "lsm_get_self_attr=459 lsm_set_self_attr=460 lsm_list_modules=461"),

    // -- refused: fossils, most of which no kernel answers any more

    REFUSE(ENOSYS, "_sysctl sysfs ustat uselib nfsservctl lookup_dcookie create_module "
                   "get_kernel_syms query_module getpmsg putpmsg afs_syscall tuxcall security "
                   "vserver set_thread_area get_thread_area epoll_ctl_old epoll_wait_old"),
};

static const struct filter_check filter_checks[] = {
    // Processes and threads, but no namespaces. (The kernel takes 32 bits of the flags.)
    WHEN("clone", FILTER_ALLOW, BITS(0, FILTER_NAMESPACES, 0)),
    ELSE("clone", EPERM),

    // The guest sends each process that it starts into the box's user namespace. User code gains
    // nothing: it owns no user namespace, and that is what the kernel asks for.
    WHEN("setns", FILTER_ALLOW, IS(1, CLONE_NEWUSER)),
    ELSE("setns", EPERM),

    // Typing into somebody's terminal, pasting into a console; line disciplines, most of which are
    // old drivers that nobody needs on a pseudo-terminal.
    WHEN("ioctl", EPERM, IS(1, TIOCSTI)),
    WHEN("ioctl", EPERM, IS(1, TIOCLINUX)),
    WHEN("ioctl", EPERM, IS(1, TIOCSETD)),
    ELSE("ioctl", FILTER_ALLOW),

    // Sockets: local, TCP, UDP and ping, and the one netlink protocol by which getifaddrs works.
    // All
    // others (packet, vsock, alg, tipc...; sctp, dccp, l2tp, mptcp, smc...) are code that a box
    // with
    // nothing but a loopback has no use for, and the mere wish may load a module into the kernel.
    // SOCK_PACKET must go by its type: the kernel turns (AF_INET, SOCK_PACKET) into AF_PACKET.
    WHEN("socket", FILTER_ALLOW, IS(0, AF_UNIX)),
    WHEN("socket", FILTER_ALLOW, IS(0, AF_NETLINK), IS(2, NETLINK_ROUTE)),
    WHEN("socket", EPROTONOSUPPORT, IS(0, AF_NETLINK)),
    WHEN("socket", EAFNOSUPPORT, NOT(0, AF_INET), NOT(0, AF_INET6)),
    WHEN("socket", EPERM, BITS(1, FILTER_SOCK_TYPE, SOCK_RAW)),
    WHEN("socket", ESOCKTNOSUPPORT, BITS_NOT(1, FILTER_SOCK_TYPE, SOCK_STREAM),
         BITS_NOT(1, FILTER_SOCK_TYPE, SOCK_DGRAM)),
    WHEN("socket", EPROTONOSUPPORT, NOT(2, IPPROTO_IP), NOT(2, IPPROTO_TCP), NOT(2, IPPROTO_UDP),
         NOT(2, IPPROTO_ICMP), NOT(2, IPPROTO_ICMPV6)),
    ELSE("socket", FILTER_ALLOW),
    WHEN("socketpair", FILTER_ALLOW, IS(0, AF_UNIX)),
    ELSE("socketpair", EAFNOSUPPORT),

    // Programs on sockets are compiled into memory of which the whole machine has one limited pool
    // (net.core.bpf_jit_limit). One box could fill it with 10,000 sockets, and no new box could
    // load
    // this very filter. And TLS in the kernel: much code, for a box that has no network.
    WHEN("setsockopt", ENOPROTOOPT, IS(1, IPPROTO_TCP), IS(2, TCP_ULP)),
    WHEN("setsockopt", FILTER_ALLOW, NOT(1, SOL_SOCKET)),
    WHEN("setsockopt", EPERM, IS(2, SO_ATTACH_FILTER)),
    WHEN("setsockopt", EPERM, IS(2, SO_ATTACH_BPF)),
    WHEN("setsockopt", EPERM, IS(2, SO_ATTACH_REUSEPORT_CBPF)),
    WHEN("setsockopt", EPERM, IS(2, SO_ATTACH_REUSEPORT_EBPF)),
    ELSE("setsockopt", FILTER_ALLOW),

    // Filters of user code come out of the same pool, some 350 KB for each process that wants to: a
    // few boxes could fill it. EINVAL is what a kernel without filters says.
    WHEN("seccomp", EINVAL, IS(0, SECCOMP_SET_MODE_FILTER)),
    ELSE("seccomp", FILTER_ALLOW),
    WHEN("prctl", EINVAL, IS(0, PR_SET_SECCOMP), IS(1, SECCOMP_MODE_FILTER)),

    // PR_SET_MM rearranges a process's map, for checkpoints. PR_SCHED_CORE keeps others off the
    // sibling of one's core: a lever against neighbours. EINVAL is what a kernel without it says.
    WHEN("prctl", EPERM, IS(0, PR_SET_MM)),
    WHEN("prctl", EINVAL, IS(0, FILTER_PR_SCHED_CORE)),
    ELSE("prctl", FILTER_ALLOW),

    // Ask (all ones), plain Linux, 32-bit names, fixed addresses for debuggers. Other personalities
    // weaken the process: executable data, page zero.
    WHEN("personality", FILTER_ALLOW, IS(0, UINT32_MAX)),
    WHEN("personality", FILTER_ALLOW, BITS(0, ~(PER_LINUX32 | ADDR_NO_RANDOMIZE), 0)),
    ELSE("personality", EPERM),

    // Files, pipes and sockets, no devices. Type 0 is a file.
    WHEN("mknod", FILTER_ALLOW, BITS(1, S_IFMT, 0)),
    WHEN("mknod", FILTER_ALLOW, BITS(1, S_IFMT, S_IFREG)),
    WHEN("mknod", FILTER_ALLOW, BITS(1, S_IFMT, S_IFIFO)),
    WHEN("mknod", FILTER_ALLOW, BITS(1, S_IFMT, S_IFSOCK)),
    ELSE("mknod", EPERM),
    WHEN("mknodat", FILTER_ALLOW, BITS(2, S_IFMT, 0)),
    WHEN("mknodat", FILTER_ALLOW, BITS(2, S_IFMT, S_IFREG)),
    WHEN("mknodat", FILTER_ALLOW, BITS(2, S_IFMT, S_IFIFO)),
    WHEN("mknodat", FILTER_ALLOW, BITS(2, S_IFMT, S_IFSOCK)),
    ELSE("mknodat", EPERM),
};

#undef ALLOW
#undef REFUSE
#undef IS
#undef NOT
#undef BITS
#undef BITS_NOT
#undef WHEN
#undef ELSE

// The constants above are those of the machine that builds; these are what both targets have.
_Static_assert(TIOCSTI == 0x5412 && TIOCLINUX == 0x541c && TIOCSETD == 0x5423, "ioctls");
_Static_assert(SOL_SOCKET == 1 && SO_ATTACH_FILTER == 26 && SO_ATTACH_BPF == 50, "sockets");
_Static_assert(SOCK_STREAM == 1 && SOCK_DGRAM == 2 && EPERM == 1 && ENOSYS == 38, "generic");

enum { FILTER_NAME_MAX = 32 };

// Takes the next call off a group's list. Sets ret_nr to the number that stands behind it, or -1.
// False at the end.
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
