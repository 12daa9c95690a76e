// SPDX-License-Identifier: Apache-2.0
// 22 system calls that have no business in a box, by the native entry, by the 32-bit gate (int
// 0x80) and by the x32 numbers. Arguments are chosen to be refused after the permission check, or
// to do nothing.
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/quota.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attempt.h"

enum {
    FANOTIFY_PRE_CONTENT = 8, // the class that needs CAP_SYS_ADMIN
    KEYCTL_SESSION_ID = 0,
    KEYRING_SESSION = -3,
    USERFAULT_USER_ONLY = 1,
};

#define X32_BIT 0x40000000L
#define NO_CALL -1L

struct call {
    long number;    // NO_CALL: this architecture has none
    long number_32; // of i386
    intptr_t args[6];
};

// Static, and below 4 GiB because the program is linked without PIE: the 32-bit gate takes no other
// addresses.
static struct io_uring_params ring;
static union bpf_attr map = {
    .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
static struct perf_event_attr counter = {.type = PERF_TYPE_SOFTWARE,
                                         .size = sizeof(struct perf_event_attr),
                                         .config = PERF_COUNT_SW_CPU_CLOCK};
static struct {
    unsigned bytes;
    int type;
    char data[128];
} handle = {.bytes = 128};
static int mount_id;
static const char nowhere[] = "/nowhere", root[] = "/", empty[] = "";

#define AT(object) ((intptr_t)(object))

#ifdef __x86_64__
#    define NR_iopl   SYS_iopl
#    define NR_ioperm SYS_ioperm
#else
#    define NR_iopl   NO_CALL
#    define NR_ioperm NO_CALL
#endif

// X(name, number, number on i386, canary, needs natively, needs by the gate, arguments...)
#define CALLS(X)                                                                                   \
    X(io_uring_setup, SYS_io_uring_setup, 425, "seccomp", "io_uring", "ia32,io_uring", 1,          \
      AT(&ring))                                                                                   \
    X(userfaultfd, SYS_userfaultfd, 374, "seccomp", NULL, "ia32", USERFAULT_USER_ONLY)             \
    X(bpf, SYS_bpf, 357, ROOT_POWER, "bpf", "ia32,bpf", BPF_MAP_CREATE, AT(&map), sizeof(map))     \
    X(perf_event_open, SYS_perf_event_open, 336, ROOT_POWER, NULL, "ia32", AT(&counter), 0, -1,    \
      -1)                                                                                          \
    X(kexec_load, SYS_kexec_load, 283, ROOT_POWER, "kexec", "ia32,kexec", 0, 0, 0, 0xffff)         \
    X(init_module, SYS_init_module, 128, ROOT_POWER, "modules", "ia32,modules", 0, 0, AT(empty))   \
    X(finit_module, SYS_finit_module, 350, ROOT_POWER, "modules", "ia32,modules", -1, AT(empty),   \
      0)                                                                                           \
    X(delete_module, SYS_delete_module, 129, ROOT_POWER, "modules", "ia32,modules", AT(nowhere),   \
      O_NONBLOCK)                                                                                  \
    X(swapon, SYS_swapon, 87, ROOT_POWER, NULL, "ia32", AT(nowhere), 0)                            \
    X(swapoff, SYS_swapoff, 115, ROOT_POWER, NULL, "ia32", AT(nowhere))                            \
    X(quotactl, SYS_quotactl, 131, "seccomp", NULL, "ia32", QCMD(Q_GETFMT, USRQUOTA), AT(nowhere)) \
    X(acct, SYS_acct, 51, ROOT_POWER, NULL, "ia32", AT(nowhere))                                   \
    X(iopl, NR_iopl, 110, "seccomp", "port_io", "ia32,port_io", 0)                                 \
    X(ioperm, NR_ioperm, 101, "seccomp", "port_io", "ia32,port_io", -1, 1, 0)                      \
    X(name_to_handle_at, SYS_name_to_handle_at, 341, "seccomp", NULL, "ia32", AT_FDCWD, AT(root),  \
      AT(&handle), AT(&mount_id))                                                                  \
    X(move_pages, SYS_move_pages, 317, "seccomp", "move_pages", "ia32,move_pages", 0, 0)           \
    X(reboot, SYS_reboot, 88, ROOT_POWER, NULL, "ia32", 0, 0, 0)                                   \
    X(sethostname, SYS_sethostname, 74, ROOT_POWER, NULL, "ia32", AT(nowhere), -1)                 \
    X(setdomainname, SYS_setdomainname, 121, ROOT_POWER, NULL, "ia32", AT(nowhere), -1)            \
    X(fanotify_init, SYS_fanotify_init, 338, ROOT_POWER, NULL, "ia32", FANOTIFY_PRE_CONTENT)       \
    X(keyctl, SYS_keyctl, 288, "seccomp", NULL, "ia32", KEYCTL_SESSION_ID, KEYRING_SESSION)        \
    X(unshare_user, SYS_unshare, 310, "seccomp,nested", NULL, "ia32", CLONE_NEWUSER)

// Natively only: i386 has no such call.
#define NATIVE_CALLS(X)                                                                            \
    X(kexec_file_load, SYS_kexec_file_load, NO_CALL, ROOT_POWER, "kexec_file", NULL, -1, -1, 0, 0, \
      0xffff)

#define DEFINE_CALL(called, nr, nr_32, without, machine, machine_32, ...)                          \
    static const struct call call_##called = {nr, nr_32, {__VA_ARGS__}};
CALLS(DEFINE_CALL)
NATIVE_CALLS(DEFINE_CALL)

static enum outcome judge_number(const struct attempt *self, long r)
{
    // What was opened goes with the process. A limit of zero namespaces answers ENOSPC.
    return judge_call(self->name, r, REFUSALS_AND(ENOSPC));
}

static enum outcome by_syscall(const struct attempt *self)
{
    const struct call *c = self->arg;
    if (c->number == NO_CALL)
        return cannot("this architecture has no such call");
    return judge_number(self, syscall(c->number, c->args[0], c->args[1], c->args[2], c->args[3],
                                      c->args[4], c->args[5]));
}

#ifdef __x86_64__
static enum outcome by_gate(const struct attempt *self)
{
    const struct call *c = self->arg;
    long r;
    for (int i = 0; i < 6; i++) {
        if (c->args[i] > (intptr_t)UINT32_MAX)
            return cannot("an argument lies beyond 4 GiB");
    }
    // The sixth argument would go into rbp; none of these calls has one.
    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(c->number_32), "b"(c->args[0]), "c"(c->args[1]), "d"(c->args[2]),
                       "S"(c->args[3]), "D"(c->args[4])
                     : "memory", "cc", "r8", "r9", "r10", "r11");
    r = (int)r;
    if (r < 0) {
        errno = (int)-r;
        r = -1;
    }
    return judge_number(self, r);
}

static enum outcome by_x32(const struct attempt *self)
{
    const struct call *c = self->arg;
    return judge_number(self, syscall(c->number | X32_BIT, c->args[0], c->args[1], c->args[2],
                                      c->args[3], c->args[4], c->args[5]));
}
#else
static enum outcome by_gate(const struct attempt *self)
{
    (void)self;
    return cannot("only x86-64 has this gate");
}

static enum outcome by_x32(const struct attempt *self)
{
    (void)self;
    return cannot("only x86-64 has these numbers");
}
#endif

#define ONE_CALL(called, nr, nr_32, without, machine, machine_32, ...)                             \
    {.number = 22,                                                                                 \
     .name = "call_" #called,                                                                      \
     .tries = "calls " #called,                                                                    \
     .held_by = "filter, and where the kernel asks for one, no capability on the host",            \
     .canary = without,                                                                            \
     .needs = machine,                                                                             \
     .run = by_syscall,                                                                            \
     .arg = &call_##called},
#define ONE_GATE(called, nr, nr_32, without, machine, machine_32, ...)                             \
    {.number = 22,                                                                                 \
     .name = "int80_" #called,                                                                     \
     .tries = "calls " #called " by the 32-bit gate",                                              \
     .held_by = "the filter knows both architectures",                                             \
     .canary = without,                                                                            \
     .needs = machine_32,                                                                          \
     .run = by_gate,                                                                               \
     .arg = &call_##called},
#define ONE_X32(called)                                                                            \
    {                                                                                              \
        .number = 22, .name = "x32_" #called, .tries = "calls " #called " by its x32 number",      \
        .held_by = "the filter refuses all x32 numbers", .canary = "seccomp", .needs = "x32",      \
        .run = by_x32, .arg = &call_##called                                                       \
    }

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    CALLS(ONE_CALL) NATIVE_CALLS(ONE_CALL) CALLS(ONE_GATE) ONE_X32(io_uring_setup),
    ONE_X32(userfaultfd),
    ONE_X32(keyctl),
    ONE_X32(name_to_handle_at),
};
// clang-format on

const struct attempt_list call_attempts = ATTEMPTS(attempts);
