// SPDX-License-Identifier: Apache-2.0
// 20 the guest: traced, read, written, robbed, slowed, signalled. All of it only where pid 1 is a
// guest.
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

#define GUEST_ONLY                                                                                 \
    do {                                                                                           \
        (void)self;                                                                                \
        if (in_host_pid_namespace())                                                               \
            return cannot("pid 1 is not a guest here");                                            \
    } while (0)

static enum outcome guest_ptrace(const struct attempt *self)
{
    GUEST_ONLY;
    long r = ptrace(PTRACE_SEIZE, 1, NULL, NULL);
    enum outcome outcome = judge_call("ptrace", r, REFUSALS);
    if (r == 0)
        ptrace(PTRACE_DETACH, 1, NULL, NULL);
    return outcome;
}

// An address where nothing is: EFAULT is for those who may look.
static enum outcome guest_vm(const struct attempt *self)
{
    const long *nr = self->arg;
    char byte = 0;
    struct iovec local = {&byte, 1}, remote = {(void *)8, 1};
    GUEST_ONLY;
    return judge_call("reaching into the guest", syscall(*nr, 1, &local, 1, &remote, 1, 0),
                      REFUSALS);
}

static enum outcome guest_files(const struct attempt *self)
{
    static const char *const names[] = {"mem",       "environ", "maps",    "auxv",
                                        "exe",       "fd",      "root",    "cwd",
                                        "map_files", "stack",   "syscall", "pagemap"};
    GUEST_ONLY;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[64], byte;
        snprintf(path, sizeof(path), "/proc/1/%s", names[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
            continue;
        // Some open for everybody and refuse at the first byte.
        ssize_t n = read(fd, &byte, 1);
        int error = errno;
        close(fd);
        if (n > 0 || (n < 0 && (error == EISDIR || error == EIO)))
            return escaped("%s can be read", path);
    }
    return held("none of the guest's %zu files opens", sizeof(names) / sizeof(names[0]));
}

static enum outcome guest_oom_score(const struct attempt *self)
{
    GUEST_ONLY;
    return try_open_write("/proc/1/oom_score_adj");
}

static enum outcome guest_pidfd(const struct attempt *self)
{
    GUEST_ONLY;
    int fd = (int)syscall(SYS_pidfd_open, 1, 0);
    if (fd < 0)
        return held("pidfd_open: %s", strerrorname_np(errno));
    for (int i = 0; i < 16; i++) {
        int stolen = (int)syscall(SYS_pidfd_getfd, fd, i, 0);
        if (stolen >= 0 || errno == EBADF)
            return escaped("the guest's descriptors are open to the box");
    }
    return held("pidfd_getfd: %s", strerrorname_np(errno));
}

static enum outcome guest_prlimit(const struct attempt *self)
{
    struct rlimit limit;
    GUEST_ONLY;
    if (prlimit(1, RLIMIT_NOFILE, NULL, &limit) < 0)
        return judge_call("prlimit", -1, REFUSALS);
    // To what it is.
    return judge_call("prlimit", prlimit(1, RLIMIT_NOFILE, &limit, NULL), REFUSALS);
}

static enum outcome guest_priority(const struct attempt *self)
{
    GUEST_ONLY;
    errno = 0;
    int now = getpriority(PRIO_PROCESS, 1);
    if (now == -1 && errno != 0)
        return held("getpriority: %s", strerrorname_np(errno));
    return judge_call("setpriority", setpriority(PRIO_PROCESS, 1, now), REFUSALS);
}

static enum outcome guest_affinity(const struct attempt *self)
{
    cpu_set_t set;
    GUEST_ONLY;
    if (sched_getaffinity(1, sizeof(set), &set) < 0)
        return held("sched_getaffinity: %s", strerrorname_np(errno));
    return judge_call("sched_setaffinity", sched_setaffinity(1, sizeof(set), &set), REFUSALS);
}

static enum outcome guest_kcmp(const struct attempt *self)
{
    GUEST_ONLY;
    return judge_call("kcmp", syscall(SYS_kcmp, 1, getpid(), KCMP_VM, 0, 0), REFUSALS);
}

static enum outcome guest_perf(const struct attempt *self)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof(attr),
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .exclude_kernel = 1};
    GUEST_ONLY;
    return judge_call("perf_event_open",
                      syscall(SYS_perf_event_open, &attr, 1, -1, -1, PERF_FLAG_FD_CLOEXEC),
                      REFUSALS);
}

static char guest_state(void)
{
    char text[512], state = 0;
    if (slurp("/proc/1/stat", text, sizeof(text)) <= 0)
        return 0;
    const char *end = strrchr(text, ')');
    if (end != NULL)
        sscanf(end, ") %c", &state);
    return state;
}

// The return value says nothing: a signal to pid 1 may be taken and dropped.
static enum outcome guest_signals(const struct attempt *self)
{
    int taken = 0;
    GUEST_ONLY;
    for (int sig = 1; sig <= SIGRTMAX; sig++)
        taken += kill(1, sig) == 0;
    usleep(200000);
    char state = guest_state();
    if (state == 0 || state == 'T' || state == 't' || state == 'Z')
        return escaped("the guest is in state '%c'", state);
    return held("%d of %d signals taken, the guest lives on", taken, SIGRTMAX);
}

// A signal that is ignored unless a process asked for it. Whether the witnesses got it is seen
// outside.
static enum outcome kill_everyone(const struct attempt *self)
{
    (void)self;
    if (in_host_pid_namespace()) {
        if (world.host.pid <= 1)
            return cannot("needs --host");
        kill(world.host.pid, SIGURG); // only the one who waits for it
        return held("signalled process %d of the host", world.host.pid);
    }
    int all = kill(-1, SIGURG);
    int one = world.host.pid > 1 ? kill(world.host.pid, SIGURG) : -1;
    return held("kill(-1) answers %d, kill(%d) answers %d", all, world.host.pid, one);
}

static const long readv_nr = SYS_process_vm_readv, writev_nr = SYS_process_vm_writev;

#define GUEST_HELD                                                                                 \
    "the guest has a uid and a user namespace the box does not have, and is not dumpable"

#define GUEST(called, what, function, without, argument)                                           \
    {                                                                                              \
        .number = 20, .name = called, .tries = what, .held_by = GUEST_HELD, .canary = without,     \
        .run = function, .arg = argument                                                           \
    }

#define GUEST_OPEN ROOT_POWER ",guestuid,dumpable"

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    GUEST("guest_ptrace", "traces the guest", guest_ptrace, GUEST_OPEN, NULL),
    GUEST("guest_vm_read", "reads the guest's memory", guest_vm, GUEST_OPEN, &readv_nr),
    GUEST("guest_vm_write", "writes the guest's memory", guest_vm, GUEST_OPEN, &writev_nr),
    GUEST("guest_files", "reads the guest's memory, environment, descriptors by /proc/1",
          guest_files, GUEST_OPEN, NULL),
    GUEST("guest_oom_score", "makes the guest the first to be killed", guest_oom_score, GUEST_OPEN,
          NULL),
    GUEST("guest_pidfd", "takes a descriptor from the guest", guest_pidfd, GUEST_OPEN, NULL),
    GUEST("guest_prlimit", "changes the guest's limits", guest_prlimit, "guestuid", NULL),
    GUEST("guest_priority", "changes the guest's priority", guest_priority, "guestuid", NULL),
    GUEST("guest_affinity", "changes the guest's processors", guest_affinity, "guestuid", NULL),
    GUEST("guest_kcmp", "compares itself with the guest", guest_kcmp, GUEST_OPEN, NULL),
    GUEST("guest_perf", "measures the guest", guest_perf, GUEST_OPEN, NULL),
    {.number = 20,
     .name = "guest_signals",
     .tries = "sends the guest every signal there is",
     .held_by = "the kernel shields pid 1 of a pid namespace from those inside",
     .no_canary = "the kernel's own doing; there is nothing to take away",
     .run = guest_signals},
    { .number = 20,
     .name = "kill_everyone",
     .tries = "signals every process it can see, and one of the host by number",
     .held_by = "pid namespace",
     .canary = "pid,userns,caps",
     .place = OUTSIDE,
     .run = kill_everyone},
};
// clang-format on

const struct attempt_list guest_attempts = ATTEMPTS(attempts);
