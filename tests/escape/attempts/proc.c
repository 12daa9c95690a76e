// SPDX-License-Identifier: Apache-2.0
// 16 /proc. Files are opened, and read where reading takes nothing away; never written.
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

static enum outcome proc_write(const struct attempt *self)
{
    return try_open_write(self->arg);
}

static enum outcome proc_read(const struct attempt *self)
{
    return try_read(self->arg);
}

// Reading the kernel's log would take it from whoever reads it on the host: opening is enough.
static enum outcome proc_kmsg(const struct attempt *self)
{
    const char *path = self->arg;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return judge_call(path, fd, REFUSALS_AND(ENOENT));
    struct stat st;
    fstat(fd, &st);
    close(fd);
    if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))
        return held("%s is the null device", path);
    return escaped("%s opens", path);
}

// An empty list shows nothing: with a key of one's own there is something to see.
static enum outcome proc_keys(const struct attempt *self)
{
    enum {
        SPEC_THREAD = -1,
    };
    (void)self;
    (void)syscall(SYS_add_key, "user", "cay-escape", "x", (size_t)1, SPEC_THREAD);
    return try_read("/proc/keys");
}

static enum outcome proc_syslog(const struct attempt *self)
{
    enum {
        SIZE_BUFFER = 10,
    };
    (void)self;
    return judge_call("syslog", klogctl(SIZE_BUFFER, NULL, 0), REFUSALS);
}

static char hit[160];
static int walked;

static int try_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    bool is_pid = ftw->level == 1 && path[ftw->base] >= '0' && path[ftw->base] <= '9';
    // Pressure is an attempt of its own: its files belong to everybody.
    if (flag == FTW_D &&
        (is_pid || strcmp(path, "/proc/pressure") == 0 || strcmp(path, "/proc/self") == 0 ||
         strcmp(path, "/proc/thread-self") == 0))
        return FTW_SKIP_SUBTREE;
    // This one opens for everybody and asks for a capability when it is written.
    if (flag != FTW_F || !S_ISREG(st->st_mode) || strcmp(path + ftw->base, "ns_last_pid") == 0)
        return FTW_CONTINUE;
    walked++;
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return FTW_CONTINUE;
    close(fd);
    snprintf(hit, sizeof(hit), "%s", path);
    return FTW_STOP;
}

static enum outcome proc_walk(const struct attempt *self)
{
    nftw(self->arg, try_entry, 32, FTW_PHYS | FTW_ACTIONRETVAL);
    if (hit[0] != '\0')
        return escaped("%s opens for writing", hit);
    if (walked < 10)
        return cannot("only %d files below %s", walked, (const char *)self->arg);
    return held("none of %d files opens for writing", walked);
}

static bool sees_process(const struct peer *peer)
{
    char path[64], command[512], wanted[TOKEN_MAX + 16];
    // Its own command line names the tokens too, but not like this.
    int size = snprintf(wanted, sizeof(wanted), "--witness%c%s", '\0', peer->token);
    snprintf(path, sizeof(path), "/proc/%d/cmdline", peer->pid);
    long n = slurp(path, command, sizeof(command));
    return n > 0 && memmem(command, (size_t)n, wanted, (size_t)size) != NULL;
}

static enum outcome proc_host_pid(const struct attempt *self)
{
    (void)self;
    if (world.host.token[0] == '\0')
        return cannot("needs --host");
    if (sees_process(&world.host))
        return escaped("process %d of the host is visible", world.host.pid);
    if (world.neighbour.token[0] != '\0' && sees_process(&world.neighbour))
        return escaped("process %d of a neighbour is visible", world.neighbour.pid);
    return held("neither the host's witness nor the neighbour's is to be seen");
}

#define SYS_HELD  "/proc/sys is read-only, and owned by a user the box does not have"
#define MASK_HELD "masked"

#define PROC_WRITE(called, what, path, because, without, machine)                                  \
    {                                                                                              \
        .number = 16, .name = called, .tries = what, .held_by = because, .canary = without,        \
        .needs = machine, .run = proc_write, .arg = path                                           \
    }

#define PROC_READ(called, what, path, without, machine)                                            \
    {                                                                                              \
        .number = 16, .name = called, .tries = what, .held_by = MASK_HELD, .canary = without,      \
        .needs = machine, .run = proc_read, .arg = path                                            \
    }

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    PROC_WRITE("proc_sysrq", "opens sysrq-trigger", "/proc/sysrq-trigger", MASK_HELD,
               "masks,caps,userns", "file:/proc/sysrq-trigger"),
    PROC_WRITE("proc_core_pattern", "opens core_pattern", "/proc/sys/kernel/core_pattern", SYS_HELD,
               "masks,caps,userns", NULL),
    PROC_WRITE("proc_modprobe", "opens the path of the module loader", "/proc/sys/kernel/modprobe",
               SYS_HELD, "masks,caps,userns", "file:/proc/sys/kernel/modprobe"),
    PROC_WRITE("proc_poweroff", "opens the command that turns the machine off",
               "/proc/sys/kernel/poweroff_cmd", SYS_HELD, "masks,caps,userns",
               "file:/proc/sys/kernel/poweroff_cmd"),
    PROC_WRITE("proc_hostname", "opens the host name", "/proc/sys/kernel/hostname", SYS_HELD,
               "masks,caps,userns", NULL),
    PROC_WRITE("proc_ip_forward", "opens a network setting", "/proc/sys/net/ipv4/ip_forward",
               SYS_HELD, "masks,caps,userns", NULL),
    PROC_WRITE("proc_irq", "opens the affinity of interrupts", "/proc/irq/default_smp_affinity",
               MASK_HELD, "masks,caps,userns", "file:/proc/irq/default_smp_affinity"),
    PROC_WRITE("proc_pressure", "has the kernel tell it of the whole machine's load",
               "/proc/pressure/cpu", MASK_HELD, "masks", "file:/proc/pressure/cpu"),
    PROC_READ("proc_kcore", "reads the kernel's memory", "/proc/kcore", "masks,caps,userns",
              "file:/proc/kcore"),
    PROC_READ("proc_kallsyms", "reads the kernel's symbols", "/proc/kallsyms", "masks",
              "file:/proc/kallsyms"),
    PROC_READ("proc_timer_list", "reads the kernel's timers", "/proc/timer_list",
              "masks,caps,userns", "file:/proc/timer_list"),
    PROC_READ("proc_config", "reads how the kernel was built", "/proc/config.gz", "masks",
              "file:/proc/config.gz"),
    {.number = 16,
     .name = "proc_keys",
     .tries = "lists keys",
     .held_by = MASK_HELD,
     .canary = "masks,seccomp",
     .needs = "file:/proc/keys",
     .run = proc_keys},
    PROC_READ("proc_diskstats", "reads the host's disk counters", "/proc/diskstats", "masks",
              "file:/proc/diskstats"),
    PROC_READ("proc_iomem", "reads the machine's memory map", "/proc/iomem", "masks",
              "file:/proc/iomem"),
    PROC_READ("proc_kpagecount", "reads the state of every page", "/proc/kpagecount",
              "masks,caps,userns", "file:/proc/kpagecount"),
    PROC_READ("proc_slabinfo", "reads the kernel's allocations", "/proc/slabinfo",
              "masks,caps,userns", "file:/proc/slabinfo"),
    {.number = 16,
     .name = "proc_kmsg",
     .tries = "opens the kernel's log",
     .held_by = MASK_HELD,
     .canary = "masks,caps,userns",
     .run = proc_kmsg,
     .arg = "/proc/kmsg"},
    {.number = 16,
     .name = "dev_kmsg",
     .tries = "opens the kernel's log as a device",
     .held_by = "a /dev of our own",
     .canary = "dev,caps,userns",
     .run = proc_kmsg,
     .arg = "/dev/kmsg"},
    {.number = 16,
     .name = "proc_syslog",
     .tries = "asks for the kernel's log by system call",
     .held_by = "filter, and no CAP_SYSLOG on the host",
     .canary = ROOT_POWER,
     .run = proc_syslog},
    {.number = 16,
     .name = "proc_sys_walk",
     .tries = "opens every file below /proc/sys for writing",
     .held_by = SYS_HELD,
     .canary = "masks,caps,userns",
     .run = proc_walk,
     .arg = "/proc/sys"},
    {.number = 16,
     .name = "proc_walk",
     .tries = "opens every other file of /proc for writing",
     .held_by = "files belong to a user the box does not have, or are masked",
     .canary = "masks,caps,userns",
     .run = proc_walk,
     .arg = "/proc"},
    {.number = 16,
     .name = "proc_host_pid",
     .tries = "looks for processes of the host and of a neighbour",
     .held_by = "pid namespace, and a /proc of its own",
     .canary = "pid",
     .run = proc_host_pid},
};
// clang-format on

const struct attempt_list proc_attempts = ATTEMPTS(attempts);
