// SPDX-License-Identifier: Apache-2.0
// The filter in the kernel: children that load it, and what becomes of them. Each attempt is made
// without the filter as well, where it must end otherwise, else it would show nothing.
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "check.h"
#include "guest/filter-table.h"
#include "guest/filter.h"

enum {
    GROUPS = sizeof filter_groups / sizeof *filter_groups,
    NO_RESULT = -10000, // the child ended before it had one
};

static long *shared; // results of children

typedef long attempt_fn(const void *arg);

static void become_filtered(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_load() != 0)
        _exit(99);
}

// What fn returns in a child of its own, with the filter or without.
static long in_child(bool filtered, attempt_fn *fn, const void *arg)
{
    (void)fflush(NULL);
    shared[0] = NO_RESULT;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)setsid(); // no terminal to hang up
        if (filtered)
            become_filtered();
        shared[0] = fn(arg);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 99)
        fail_msg("the filter could not be loaded");
    return shared[0];
}

struct call {
    const char *what;
    long nr;
    long a[5];
    int refused; // with this errno
};

// The call's errno, or 0.
static long make_call(const void *arg)
{
    const struct call *c = arg;
    long r = syscall(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4]);
    int saved = errno;
    if (r == 0 && c->nr == SYS_clone)
        _exit(0); // a child that should not be
    return r < 0 ? saved : 0;
}

#define CALL(what, refused, nr, ...)                                                               \
    {                                                                                              \
        what, nr, {__VA_ARGS__}, refused                                                           \
    }
#define UPPER (1l << 32)

// Harmless without the filter, for root and for others.
static const struct call refusals[] = {
    CALL("unshare nothing", EPERM, SYS_unshare, 0),
    CALL("setns by a net namespace", EPERM, SYS_setns, -1, CLONE_NEWNET),
    CALL("setns by any namespace", EPERM, SYS_setns, -1, 0),
    CALL("setns by two", EPERM, SYS_setns, -1, CLONE_NEWUSER | CLONE_NEWNS),
    CALL("clone a user namespace", EPERM, SYS_clone, CLONE_NEWUSER | CLONE_FS),
    CALL("clone a mount namespace", EPERM, SYS_clone, CLONE_NEWNS | CLONE_FS),
    CALL("clone in disguise", EPERM, SYS_clone, CLONE_NEWUSER | CLONE_FS | UPPER),
    CALL("TIOCSTI", EPERM, SYS_ioctl, -1, TIOCSTI),
    CALL("TIOCSTI in disguise", EPERM, SYS_ioctl, -1, TIOCSTI | UPPER),
    CALL("TIOCSTI in another", EPERM, SYS_ioctl, -1, (long)0xffffffff00000000ul | TIOCSTI),
    CALL("TIOCLINUX", EPERM, SYS_ioctl, -1, TIOCLINUX),
    CALL("TIOCSETD", EPERM, SYS_ioctl, -1, TIOCSETD | UPPER),
    CALL("packet socket", EAFNOSUPPORT, SYS_socket, AF_PACKET, SOCK_RAW, 0),
    CALL("packet socket in disguise", EAFNOSUPPORT, SYS_socket, AF_PACKET | UPPER, SOCK_RAW, 0),
    CALL("packet socket by its type", ESOCKTNOSUPPORT, SYS_socket, AF_INET, SOCK_PACKET, 0),
    CALL("netlink of udev", EPROTONOSUPPORT, SYS_socket, AF_NETLINK, SOCK_RAW,
         NETLINK_KOBJECT_UEVENT),
    CALL("netlink of ss", EPROTONOSUPPORT, SYS_socket, AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG),
    CALL("pair of internet sockets", EAFNOSUPPORT, SYS_socketpair, AF_INET, SOCK_STREAM, 0),
    CALL("program on a socket", EPERM, SYS_setsockopt, -1, SOL_SOCKET, SO_ATTACH_FILTER),
    CALL("TLS on a socket", ENOPROTOOPT, SYS_setsockopt, -1, IPPROTO_TCP, TCP_ULP),
    CALL("executable data", EPERM, SYS_personality, READ_IMPLIES_EXEC),
    CALL("another map", EPERM, SYS_prctl, PR_SET_MM, 1, 0, 0, 1),
    CALL("a device", EPERM, SYS_mknodat, -1, (long)"", S_IFCHR | 0600, 0),
    CALL("a block device", EPERM, SYS_mknodat, -1, (long)"", S_IFBLK | 0600 | UPPER, 0),
    CALL("a filter within the filter", EINVAL, SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0),
    CALL("the same by prctl", EINVAL, SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0),
    CALL("keyctl", EPERM, SYS_keyctl, -1),
    CALL("add_key", EPERM, SYS_add_key, 0),
    CALL("mount", EPERM, SYS_mount, 0),
    CALL("a handle", EPERM, SYS_name_to_handle_at, -1),
    CALL("old asynchronous I/O", ENOSYS, SYS_io_setup, 0),
};

CHECK_CASE(refusals_are_the_filters)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct call *c = &refusals[i];
        long without = in_child(false, make_call, c), with = in_child(true, make_call, c);
        if (with != c->refused)
            fail_msg("%s: errno %ld under the filter, not %d", c->what, with, c->refused);
        if (without == with)
            fail_msg("%s: errno %ld without the filter too", c->what, without);
    }
}

// These reach the kernel: what it says of them is the same with the filter and without.
static const struct call passes[] = {
    CALL("setns by a user namespace", EBADF, SYS_setns, -1, CLONE_NEWUSER),
    CALL("the same under rubbish", EBADF, SYS_setns, -1, CLONE_NEWUSER | UPPER),
    CALL("TCGETS", EBADF, SYS_ioctl, -1, TCGETS),
    CALL("internet socket", 0, SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP),
    CALL("internet socket, version 6", 0, SYS_socket, AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0),
    CALL("local socket", 0, SYS_socket, AF_UNIX, SOCK_SEQPACKET, 0),
    CALL("netlink of getifaddrs", 0, SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC,
         NETLINK_ROUTE),
    CALL("personality asked for", 0, SYS_personality, 0xffffffff),
    CALL("fixed addresses", 0, SYS_personality, ADDR_NO_RANDOMIZE),
    CALL("socket option", EBADF, SYS_setsockopt, -1, SOL_SOCKET, SO_REUSEADDR),
    CALL("a pipe by name", ENOENT, SYS_mknodat, -1, (long)"", S_IFIFO | 0600, 0),
    CALL("ptrace", ESRCH, SYS_ptrace, PTRACE_PEEKDATA, 0),
    CALL("which actions a filter has", EFAULT, SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, 0),
};

CHECK_CASE(passes_reach_the_kernel)
{
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        const struct call *c = &passes[i];
        long without = in_child(false, make_call, c), with = in_child(true, make_call, c);
        if (with != without || with != c->refused)
            fail_msg("%s: errno %ld with the filter, %ld without", c->what, with, without);
    }
}

// Every refusal of the table, in order, into shared[1...].
static long make_refused_calls(const void *arg __attribute__((unused)))
{
    long n = 0;
    for (int i = 0; i < GROUPS; i++) {
        if (filter_groups[i].answer == FILTER_ALLOW)
            continue;
        const char *list = filter_groups[i].calls;
        char name[FILTER_NAME_MAX];
        int nr;
        while (filter_next_call(&list, name, &nr)) {
            if (nr < 0)
                nr = seccomp_syscall_resolve_name(name);
            if (nr < 0)
                continue;
            shared[++n] = syscall(nr, -1, -1, -1, -1, -1, -1) < 0 ? errno : 0;
            if (shared[n] != filter_groups[i].answer)
                return -n; // one that got through: no more of these
        }
    }
    return n;
}

CHECK_CASE(refused_calls_get_the_errno_of_the_table)
{
    long n = in_child(true, make_refused_calls, NULL);
    if (n < 0)
        fail_msg("refused call %ld of the table has errno %ld", -n, shared[-n]);
    assert_true(n > 60);
}

static long x32_getpid(const void *arg __attribute__((unused)))
{
    return syscall(SYS_getpid | 0x40000000) < 0 ? errno : 0;
}

CHECK_CASE(x32_numbers_are_refused)
{
    assert_int_equal(in_child(true, x32_getpid, NULL), ENOSYS);
}

#ifdef __x86_64__
static long int80_getpid(const void *arg __attribute__((unused)))
{
    long ret = 20; // getpid there; writev here
    __asm__ volatile("int $0x80" : "+a"(ret) : : "memory", "r8", "r9", "r10", "r11");
    return (int)ret;
}

CHECK_CASE(the_32_bit_entry_is_closed)
{
    long without = in_child(false, int80_getpid, NULL);
    if (without == NO_RESULT) {
        print_message("this kernel has no 32-bit entry\n");
        skip();
    }
    assert_true(without > 0);
    assert_int_equal(in_child(true, int80_getpid, NULL), -ENOSYS);
}

// A tracer that swaps a harmless call for another one after it was made: the filter looks again.
static long swap_call(const void *arg __attribute__((unused)))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        (void)ptrace(PTRACE_TRACEME, 0, 0, 0);
        (void)raise(SIGSTOP);
        shared[1] = syscall(SYS_getppid, 0, 0, 0, 0, 0) < 0 ? errno : 0;
        _exit(0);
    }
    shared[1] = NO_RESULT;
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
        return -1;
    bool swapped = false;
    while (ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0 && waitpid(pid, &status, 0) == pid &&
           WIFSTOPPED(status)) {
        size_t at = offsetof(struct user_regs_struct, orig_rax);
        if (!swapped && ptrace(PTRACE_PEEKUSER, pid, at, 0) == SYS_getppid)
            swapped = ptrace(PTRACE_POKEUSER, pid, at, SYS_mount) == 0;
    }
    return swapped ? shared[1] : -2;
}

CHECK_CASE(a_tracer_cannot_swap_calls)
{
    assert_int_equal(in_child(false, swap_call, NULL), EFAULT);
    assert_int_equal(in_child(true, swap_call, NULL), EPERM);
}
#endif

// -- what programs need

static void *add_one(void *arg)
{
    (*(int *)arg)++;
    return arg;
}

static long use_threads(const void *arg __attribute__((unused)))
{
    int n = 0;
    pthread_t thread;
    for (int i = 0; i < 10; i++) {
        if (pthread_create(&thread, NULL, add_one, &n) != 0 || pthread_join(thread, NULL) != 0)
            return -1;
    }
    return n;
}

CHECK_CASE(threads_work)
{
    assert_int_equal(in_child(true, use_threads, NULL), 10);
}

static long read_a_child(const void *arg __attribute__((unused)))
{
    volatile long secret = 1;
    pid_t pid = fork();
    if (pid == 0) {
        secret = 4711;
        (void)raise(SIGSTOP);
        _exit(0);
    }
    long seen = 0;
    int status;
    struct iovec here = {&seen, sizeof seen}, there = {(void *)(uintptr_t)&secret, sizeof secret};
    if (waitpid(pid, &status, WUNTRACED) != pid ||
        process_vm_readv(pid, &here, 1, &there, 1, 0) < 0)
        seen = -errno;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
    return seen;
}

CHECK_CASE(debuggers_work)
{
    assert_int_equal(in_child(true, read_a_child, NULL), 4711);
}

// Runs a program and returns its exit status; 127 if there is none such.
static long run_program(const void *arg)
{
    char *const *argv = arg;
    pid_t pid = fork();
    if (pid == 0) {
        (void)unsetenv("LD_PRELOAD");
        (void)execvp(argv[0], argv);
        _exit(errno == ENOENT ? 127 : 126);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

CHECK_CASE(programs_run)
{
    static const char *const exits[] = {"/bin/true", NULL};
    static const char *const pipes[] = {"/bin/sh", "-c", "test \"$(echo a b | cat | wc -w)\" -eq 2",
                                        NULL};
    assert_int_equal(in_child(true, run_program, exits), 0);
    assert_int_equal(in_child(true, run_program, pipes), 0);
}

static const char python_code[] =
    "import os, socket, subprocess, threading, tempfile, mmap, select, multiprocessing as mp\n"
    "assert subprocess.run(['/bin/echo', 'x'], capture_output=True).stdout == b'x\\n'\n"
    "t = threading.Thread(target=lambda: None); t.start(); t.join()\n"
    "s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname())\n"
    "s.accept()[0].sendall(b'hi'); assert c.recv(2) == b'hi'\n"
    "assert socket.if_nameindex()\n"
    "a, b = socket.socketpair(); a.sendall(b'x'); assert b.recv(1) == b'x'\n"
    "with tempfile.TemporaryDirectory() as d:\n"
    "    os.mkfifo(d + '/p'); os.symlink('p', d + '/l'); open(d + '/f', 'w').write('x')\n"
    "    os.rename(d + '/f', d + '/g'); os.chmod(d + '/g', 0o600); os.listdir(d)\n"
    "mmap.mmap(-1, 4096).close(); e = select.epoll(); e.close(); os.memfd_create('m')\n"
    "p = mp.get_context('fork').Process(target=lambda: None); p.start(); p.join()\n"
    "assert p.exitcode == 0\n"
    "try:\n"
    "    socket.socket(socket.AF_PACKET, socket.SOCK_RAW); os._exit(3)\n"
    "except OSError as x:\n"
    "    os._exit(0 if x.errno == 97 else 4)\n";

CHECK_CASE(python_runs)
{
    static const char *const argv[] = {"python3", "-c", python_code, NULL};
    long with = in_child(true, run_program, argv);
    if (with == 127) {
        print_message("no python3 here\n");
        skip();
    }
    assert_int_equal(with, 0);
    assert_int_not_equal(in_child(false, run_program, argv),
                         0); // the last lines notice its absence
}

static int share(void **state __attribute__((unused)))
{
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_are_the_filters),
        cmocka_unit_test(passes_reach_the_kernel),
        cmocka_unit_test(refused_calls_get_the_errno_of_the_table),
        cmocka_unit_test(x32_numbers_are_refused),
#ifdef __x86_64__
        cmocka_unit_test(the_32_bit_entry_is_closed),
        cmocka_unit_test(a_tracer_cannot_swap_calls),
#endif
        cmocka_unit_test(threads_work),
        cmocka_unit_test(debuggers_work),
        cmocka_unit_test(programs_run),
        cmocka_unit_test(python_runs),
    };
    return cmocka_run_group_tests(tests, share, NULL);
}
