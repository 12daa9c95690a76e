// SPDX-License-Identifier: Apache-2.0
// 8 core dumps, 9 the clock.
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attempt.h"

static enum outcome core_file(const struct attempt *self)
{
    (void)self;
    struct rlimit limit;
    int status = 0;
    getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &limit);
    if (chdir(scratch()) < 0)
        return cannot("scratch directory: %s", strerrorname_np(errno));
    pid_t pid = fork();
    if (pid == 0)
        abort();
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return cannot("fork: %s", strerrorname_np(errno));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
        return cannot("the child did not abort");
    if (WCOREDUMP(status))
        return escaped("the kernel dumped core");
    return held("no core; the hard limit is %lu", (unsigned long)limit.rlim_max);
}

static enum outcome core_handler(const struct attempt *self)
{
    (void)self;
    return try_open_write("/proc/sys/kernel/core_pattern");
}

// Neither a time nor a zone: the permission is checked and nothing is set.
static enum outcome clock_settimeofday(const struct attempt *self)
{
    (void)self;
    return judge_call("settimeofday", syscall(SYS_settimeofday, NULL, NULL), REFUSALS);
}

static enum outcome clock_set(const struct attempt *self)
{
    (void)self;
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts); // the time it is
    return judge_call("clock_settime", syscall(SYS_clock_settime, CLOCK_REALTIME, &ts), REFUSALS);
}

static enum outcome clock_adjust(const struct attempt *self)
{
    (void)self;
    struct timex tx = {0};
    if (syscall(SYS_adjtimex, &tx) < 0)
        return held("adjtimex, even to read: %s", strerrorname_np(errno));
    tx.modes = ADJ_TICK; // set to what it is
    return judge_call("adjtimex", syscall(SYS_adjtimex, &tx), REFUSALS);
}

static enum outcome clock_adjust_by_id(const struct attempt *self)
{
    (void)self;
    struct timex tx = {0};
    if (syscall(SYS_clock_adjtime, CLOCK_REALTIME, &tx) < 0)
        return held("clock_adjtime, even to read: %s", strerrorname_np(errno));
    tx.modes = ADJ_TICK;
    return judge_call("clock_adjtime", syscall(SYS_clock_adjtime, CLOCK_REALTIME, &tx), REFUSALS);
}

static enum outcome clock_wake_alarm(const struct attempt *self)
{
    (void)self;
    int fd = timerfd_create(CLOCK_BOOTTIME_ALARM, TFD_CLOEXEC);
    enum outcome outcome = judge_call("timerfd_create", fd, REFUSALS);
    if (fd >= 0)
        close(fd);
    return outcome;
}

// Far timers must neither fire nor keep anything from ending.
static enum outcome clock_far_timer(const struct attempt *self)
{
    (void)self;
    struct itimerspec at = {.it_value.tv_sec = 7258118400}; // the year 2200
    struct itimerval alarm_at = {.it_value.tv_sec = 7258118400};
    unsigned long fired = 0;
    int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0 || timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL) < 0)
        return held("timerfd: %s", strerrorname_np(errno));
    setitimer(ITIMER_REAL, &alarm_at, NULL);
    for (int i = 0; i < 64; i++) {
        timer_t timer;
        struct sigevent quiet = {.sigev_notify = SIGEV_NONE};
        if (timer_create(CLOCK_REALTIME, &quiet, &timer) == 0)
            timer_settime(timer, TIMER_ABSTIME, &at, NULL);
    }
    usleep(20000);
    if (read(fd, &fired, sizeof(fired)) > 0)
        return escaped("a timer for the year 2200 fired");
    return held("timers for the year 2200 wait, and end with the process");
}

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    {.number = 8,
     .name = "core_file",
     .tries = "aborts with the highest core limit it can get",
     .held_by = "RLIMIT_CORE is zero, soft and hard",
     .canary = "core",
     .run = core_file},
    {.number = 8,
     .name = "core_handler",
     .tries = "names a program for the host to run on a crash",
     .held_by = "/proc/sys is read-only, and owned by a user the box does not have",
     .canary = "masks,caps,userns",
     .run = core_handler},
    {.number = 9,
     .name = "clock_settimeofday",
     .tries = "sets the time",
     .held_by = "filter, and no CAP_SYS_TIME on the host",
     .canary = ROOT_POWER,
     .run = clock_settimeofday},
    {.number = 9,
     .name = "clock_set",
     .tries = "sets the time by clock_settime",
     .held_by = "filter, and no CAP_SYS_TIME on the host",
     .canary = ROOT_POWER,
     .run = clock_set},
    {.number = 9,
     .name = "clock_adjust",
     .tries = "changes the clock's speed",
     .held_by = "filter, and no CAP_SYS_TIME on the host",
     .canary = ROOT_POWER,
     .run = clock_adjust},
    {.number = 9,
     .name = "clock_adjust_by_id",
     .tries = "changes the clock's speed by clock_adjtime",
     .held_by = "filter, and no CAP_SYS_TIME on the host",
     .canary = ROOT_POWER,
     .run = clock_adjust_by_id},
    {.number = 9,
     .name = "clock_wake_alarm",
     .tries = "makes a timer that wakes the machine",
     .held_by = "no CAP_WAKE_ALARM on the host",
     .canary = ROOT_POWER,
     .run = clock_wake_alarm},
    {.number = 9,
     .name = "clock_far_timer",
     .tries = "sets timers for the year 2200",
     .held_by = "timers end with their process",
     .no_canary = "the kernel's own doing; there is nothing to take away",
     .run = clock_far_timer},
};
// clang-format on

const struct attempt_list clock_attempts = ATTEMPTS(attempts);
