// SPDX-License-Identifier: Apache-2.0
// Cgroups, tried with the code that boxes are made with, in a slot that is taken for the time
// being.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <mntent.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "box/cgroup.h"
#include "box/slots.h"
#include "cli/doctor.h"

static const char *const control_names[CGROUP_CONTROL_MAX] = {"memory", "pids", "cpu"};

static void sleep_ms(long ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS};
    while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
        ;
}

// --- a slot with its cgroups ---

struct group {
    struct slots slots;
    struct cgroups *cgroups;
    uint32_t slot;
    bool made;
    int dir; // in cgroup2
};

#define GROUP_NONE                                                                                 \
    {                                                                                              \
        .slots = {.lock_fd = -1}, .dir = -1                                                        \
    }

static int group_make(struct group *g, const struct box_limits *limits, struct err *err)
{
    if (slots_take(2, &g->slots, err) < 0 || cgroups_open(&g->cgroups, err) < 0)
        return -1;
    g->slot = g->slots.first + 1;
    if (cgroups_make(g->cgroups, g->slot, geteuid(), limits, err) < 0)
        return -1;
    g->made = true;
    g->dir = cgroups_open_dir(g->cgroups, g->slot, err);
    return g->dir < 0 ? -1 : 0;
}

static void group_done(struct group *g)
{
    fd_close(g->dir);
    if (g->made)
        (void)cgroups_clear(g->cgroups, g->slot);
    cgroups_free(g->cgroups);
    slots_done(&g->slots);
}

static int join_group(const struct group *g)
{
    struct err err = {0};
    return cgroups_join(g->cgroups, g->slot, getpid(), &err) < 0 ? -err.sys_errno : 0;
}

static const struct box_limits plenty = {
    .memory = 256ull << 20, .disk = 1 << 20, .pids = 64, .cpu_milli = 1000};

static void cannot(struct finding *ret, const struct err *err)
{
    found(ret, DOCTOR_MISSING, "%s", err->msg);
    if (err->code != ERR_UNSUPPORTED)
        advise(ret, "see the line 'cgroups'");
}

// --- which there are ---

// Where the host has mounted a hierarchy; "" when nowhere.
static void mount_point(const char *type, const char *option, char *ret, size_t size)
{
    struct mntent *m;
    ret[0] = '\0';
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    while (mounts != NULL && ret[0] == '\0' && (m = getmntent(mounts)) != NULL) {
        if (strcmp(m->mnt_type, type) == 0 && (option == NULL || hasmntopt(m, option) != NULL))
            (void)snprintf(ret, size, "%s", m->mnt_dir);
    }
    if (mounts != NULL)
        (void)endmntent(mounts);
}

static void tell_place(const char *what, const char *type, const char *option, struct finding *ret)
{
    char path[128];
    mount_point(type, option, path, sizeof path);
    if (path[0] != '\0')
        found(ret, DOCTOR_OK, "%s in %s", what, path);
    else
        found(ret, DOCTOR_OK, "%s mounted nowhere, so only for Cay", what);
}

void check_cgroups(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    struct cgroups *cgroups;
    struct err err = {0};
    if (cgroups_open(&cgroups, &err) < 0) {
        found(ret, DOCTOR_MISSING, "%s", err.msg);
        advise(ret, err.sys_errno == EROFS || err.sys_errno == EACCES || err.sys_errno == EPERM
                        ? "in a container, mount /sys/fs/cgroup for writing (--privileged)"
                        : "enable memory, pids and cpu, best all in version 2 "
                          "(systemd.unified_cgroup_hierarchy=1 on the kernel's command line)");
        return;
    }
    if (cgroups_is_v2(cgroups)) {
        found(ret, DOCTOR_OK, "version 2");
        tell_place("memory, pids and cpu", "cgroup2", NULL, ret);
    } else {
        found(ret, DOCTOR_OK, "version 1 for limits");
        for (int i = 0; i < CGROUP_CONTROL_MAX; i++)
            tell_place(control_names[i], "cgroup", control_names[i], ret);
        tell_place("version 2, for killing,", "cgroup2", NULL, ret);
    }
    cgroups_free(cgroups);
}

// --- limits, felt ---

enum {
    TRY_MEMORY = 64 << 20,
    TRY_TOUCH = 16 << 20,
    TRY_PIDS = 4,
    TRY_CPU_MILLI = 100,
    TRY_CPU_MS = 300,
};

static int touch_memory(void *arg)
{
    int r = join_group(arg);
    if (r < 0)
        return r;
    char *p = mmap(NULL, TRY_TOUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return -errno;
    for (size_t i = 0; i < TRY_TOUCH; i += 4096)
        ((volatile char *)p)[i] = 1;
    return 0;
}

static int fork_many(void *arg)
{
    int r = join_group(arg);
    int n = 0;
    while (r == 0 && n < 2 * TRY_PIDS) {
        pid_t pid = fork();
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            (void)pause();
            _exit(0);
        }
        if (pid < 0)
            break;
        n++;
    }
    // The children go when we do.
    return r < 0 ? r : n == TRY_PIDS - 1 ? 0 : -ERANGE;
}

// Busy for a while; with a tenth of a core we get at most a tenth of that, and one period's share
// more.
static int burn_cpu(void *arg)
{
    struct rusage used = {0};
    int r = join_group(arg);
    if (r < 0)
        return r;
    int64_t end = clock_ns() + TRY_CPU_MS * NS_PER_MS;
    while (clock_ns() < end)
        ;
    (void)getrusage(RUSAGE_SELF, &used);
    int64_t ms = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
                 (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
    return ms > TRY_CPU_MS / 2 ? -ERANGE : 0;
}

static void told(struct finding *ret, const char *what, int r)
{
    if (r == 0)
        found(ret, DOCTOR_OK, "%s held", what);
    else if (r == -ERANGE)
        found(ret, DOCTOR_MISSING, "%s set, but not enforced", what);
    else
        found(ret, DOCTOR_MISSING, "%s: %s", what, errno_text(-r));
}

// Memory is not driven to its limit: the kernel would log a kill as if something were wrong here.
static void check_memory_limit(struct group *g, struct finding *ret)
{
    struct cgroup_stats stats;
    int r = in_child(touch_memory, g);
    cgroups_stats(g->cgroups, g->slot, &stats);
    if (r < 0) {
        told(ret, "memory", r);
    } else if (stats.memory_peak >= TRY_TOUCH) {
        found(ret, DOCTOR_OK, "memory is counted, its peak told");
    } else if (stats.memory_peak == 0) {
        found(ret, DOCTOR_NOTE,
              "memory is limited, but its peak is not told (Linux 5.19 does): "
              "reports say 0");
    } else {
        found(ret, DOCTOR_MISSING, "memory: %s used, but %s counted", size_text(TRY_TOUCH).text,
              size_text(stats.memory_peak).text);
    }
}

void check_limits(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    struct group g = GROUP_NONE;
    struct err err = {0};
    struct box_limits limits = {
        .memory = TRY_MEMORY, .disk = 1 << 20, .pids = TRY_PIDS, .cpu_milli = TRY_CPU_MILLI};
    if (group_make(&g, &limits, &err) == 0) {
        check_memory_limit(&g, ret);
        told(ret, "number of processes", in_child(fork_many, &g));
        sleep_ms(100); // so that the cpu's period starts afresh
        told(ret, "processor time", in_child(burn_cpu, &g));
    } else {
        cannot(ret, &err);
    }
    group_done(&g);
}

// --- killing ---

enum { VICTIMS = 3, KILL_WAIT_MS = 2000 };

// A process that is born in the group and has left its parent's session, as daemons do.
static int start_victim(const struct group *g)
{
    int pidfd = -1;
    struct clone_args args = {
        .flags = CLONE_PIDFD | CLONE_INTO_CGROUP,
        .pidfd = (uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = (uint64_t)g->dir,
    };
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)setsid();
        (void)pause();
        _exit(0);
    }
    return pid < 0 ? -errno : pidfd;
}

static bool ended(int pidfd, int wait_ms)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return poll(&p, 1, wait_ms) > 0;
}

static int kill_victims(struct group *g, int64_t *ret_ns)
{
    int pidfds[VICTIMS], n = 0, r = 0;
    while (n < VICTIMS && r >= 0) {
        r = start_victim(g);
        if (r >= 0)
            pidfds[n++] = r;
    }
    int64_t began = clock_ns();
    if (r >= 0)
        cgroups_kill(g->cgroups, g->slot);
    for (int i = 0; i < n; i++) {
        if (r >= 0 && !ended(pidfds[i], KILL_WAIT_MS))
            r = -ETIMEDOUT;
        *ret_ns = clock_ns() - began;
        (void)pidfd_send_signal(pidfds[i], SIGKILL, NULL, 0);
        siginfo_t info;
        (void)waitid(P_PIDFD, (id_t)pidfds[i], &info, WEXITED);
        fd_close(pidfds[i]);
    }
    return r < 0 ? r : 0;
}

void check_kill(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    struct group g = GROUP_NONE;
    struct err err = {0};
    int64_t ns = 0;
    if (group_make(&g, &plenty, &err) < 0) {
        cannot(ret, &err);
    } else {
        int r = kill_victims(&g, &ns);
        if (r == 0) {
            found(ret, DOCTOR_OK, "processes born in a cgroup, all gone %.1f ms after cgroup.kill",
                  (double)ns / NS_PER_MS);
        } else if (r == -ETIMEDOUT) {
            found(ret, DOCTOR_MISSING, "cgroup.kill does not end what is in a cgroup");
            advise(ret,
                   "Linux 5.14 has it; until then a timeout may leave processes until their box "
                   "ends");
        } else {
            found(ret, DOCTOR_MISSING, "clone3 into a cgroup: %s", errno_text(-r));
            advise(ret, "Linux 5.7 has it; no program can be started in a box without");
        }
    }
    group_done(&g);
}

// --- joining ---

enum { JOINS = 3, QUIET_MS = 60, SLOW_US = 2000 };

struct timed_join {
    const struct group *group;
    int64_t *ns; // shared with the parent
};

static int time_join(void *arg)
{
    const struct timed_join *t = arg;
    sleep_ms(QUIET_MS); // right after another join even a slow one is quick
    int64_t began = clock_ns();
    int r = join_group(t->group);
    *t->ns = clock_ns() - began;
    return r;
}

// The best of a few, in microseconds: what a busy machine adds is not what is asked here.
static int64_t join_time(const struct group *g)
{
    int64_t best = -1;
    int64_t *ns = mmap(NULL, sizeof *ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ns == MAP_FAILED)
        return -1;
    for (int i = 0; i < JOINS; i++) {
        struct timed_join t = {.group = g, .ns = ns};
        if (in_child(time_join, &t) < 0)
            continue;
        best = best < 0 || *ns < best ? *ns : best;
    }
    (void)munmap(ns, sizeof *ns);
    return best < 0 ? -1 : best / NS_PER_US;
}

void check_joins(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    struct group g = GROUP_NONE;
    struct err err = {0};
    if (group_make(&g, &plenty, &err) < 0) {
        cannot(ret, &err);
    } else {
        int64_t us = join_time(&g);
        if (us < 0) {
            found(ret, DOCTOR_MISSING, "a process could not join");
        } else if (us < SLOW_US) {
            found(ret, DOCTOR_OK, "fast: %.2f ms for all of a box's", (double)us / 1000);
        } else {
            found(ret, DOCTOR_NOTE,
                  "slow: %.1f ms after some quiet, which a box made ahead has behind "
                  "it and others feel",
                  (double)us / 1000);
            advise(ret, "boot Linux 6.0 or later, whose favordynmods Cay then uses");
        }
    }
    group_done(&g);
}
