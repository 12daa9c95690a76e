// SPDX-License-Identifier: Apache-2.0
// 1 fork and thread bombs, 3 processor time, 7 processes that will not go, 10 output held open.
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attempt.h"
#include "helpers.h"
#include "world.h"

static double now(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

// Beyond any doubt over the limit, and little enough for a machine without one.
static int bomb_size(void)
{
    return world.pids * 2 + 64;
}

static enum outcome judge_count(const char *what, int made, int error)
{
    if (made > world.pids)
        return escaped("%d %s beside a limit of %d", made, what, world.pids);
    return held("stopped after %d %s of %d: %s", made, what, bomb_size(), strerrorname_np(error));
}

static enum outcome fork_bomb(const struct attempt *self)
{
    (void)self;
    if (world.pids == 0)
        return cannot("needs --pids");
    int made = 0;
    pid_t pid = 0;
    for (; made < bomb_size() && (pid = fork()) >= 0; made++) {
        if (pid == 0) {
            pause();
            _exit(0);
        }
    }
    int error = errno;
    if (pid >= 0)
        error = 0;
    return judge_count("processes", made, error);
}

// Every child forks as well, as fast as it can.
static enum outcome fork_storm(const struct attempt *self)
{
    (void)self;
    if (world.pids == 0)
        return cannot("needs --pids");
    atomic_int *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return cannot("mmap: %s", strerrorname_np(errno));
    double end = now(CLOCK_MONOTONIC) + 1.5;
    pid_t parent = getpid();
    while (now(CLOCK_MONOTONIC) < end) {
        if (atomic_load(made) >= bomb_size())
            usleep(10000);
        else if (fork() == 0)
            atomic_fetch_add(made, 1);
    }
    if (getpid() != parent) {
        pause();
        _exit(0);
    }
    return judge_count("processes", atomic_load(made), EAGAIN);
}

static void *sleep_thread(void *arg)
{
    (void)arg;
    pause();
    return NULL;
}

static enum outcome thread_bomb(const struct attempt *self)
{
    (void)self;
    if (world.pids == 0)
        return cannot("needs --pids");
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    int made = 0;
    int error = 0;
    for (; made < bomb_size() && error == 0; made++) {
        pthread_t thread;
        error = pthread_create(&thread, &attr, sleep_thread, NULL);
    }
    return judge_count("threads", error == 0 ? made : made - 1, error);
}

static enum outcome zombie_hold(const struct attempt *self)
{
    (void)self;
    if (world.pids == 0)
        return cannot("needs --pids");
    int made = 0;
    pid_t pid = 0;
    for (; made < bomb_size() && (pid = fork()) >= 0; made++) {
        if (pid == 0)
            _exit(0);
    }
    return judge_count("zombies", made, pid < 0 ? errno : 0);
}

static int orphan_zombies(void)
{
    int n = 0;
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        char path[280], stat[512], state = 0;
        int parent = 0;
        snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9' ||
            slurp(path, stat, sizeof(stat)) <= 0)
            continue;
        const char *end = strrchr(stat, ')');
        if (end != NULL && sscanf(end, ") %c %d", &state, &parent) == 2 && state == 'Z' &&
            parent == 1)
            n++;
    }
    if (proc != NULL)
        closedir(proc);
    return n;
}

static enum outcome zombie_orphans(const struct attempt *self)
{
    (void)self;
    int left = 1;
    for (int i = 0; i < 500; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            fork(); // the child's child is left to pid 1
            _exit(0);
        }
        if (pid > 0)
            waitpid(pid, NULL, 0);
    }
    for (int i = 0; i < 200 && (left = orphan_zombies()) > 0; i++)
        usleep(50000);
    if (left > 0)
        return escaped("%d orphans are never reaped", left);
    return held("500 orphans came and went");
}

// Processes of every stubborn kind, all of them alive when the first one ends or is killed.
static void spawn_stubborn(void)
{
    for (int kind = 0; kind < 6; kind++) {
        pid_t pid = fork();
        if (pid != 0)
            continue;
        if (kind >= 1)
            setsid();
        if (kind >= 2 && fork() != 0)
            _exit(0);
        if (kind >= 4) {
            setsid();
            if (fork() != 0)
                _exit(0);
        }
        become_lingerer(world.host.token);
    }
    usleep(300000); // the names are only right once they have been executed
}

static enum outcome linger_after_exit(const struct attempt *self)
{
    (void)self;
    spawn_stubborn();
    return held("left six processes behind; whether they live is seen outside");
}

static enum outcome linger_after_kill(const struct attempt *self)
{
    (void)self;
    spawn_stubborn();
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    for (;;)
        sleep(60);
    return held("never reached");
}

static enum outcome output_held(const struct attempt *self)
{
    (void)self;
    if (fork() == 0) {
        setsid();
        if (fork() != 0)
            _exit(0);
        become_lingerer(world.host.token);
    }
    usleep(300000);
    return held("a grandchild holds the output open");
}

// Grandchildren that write as fast as they can: there is always one more byte to read.
static enum outcome output_poured(const struct attempt *self)
{
    static char block[65536];
    (void)self;
    memset(block, 'x', sizeof(block));
    for (int i = 0; i < 8; i++) {
        if (fork() != 0)
            continue;
        setsid();
        while (write(STDOUT_FILENO, block, sizeof(block)) > 0)
            continue;
        _exit(0);
    }
    usleep(300000);
    return held("left eight processes writing");
}

static atomic_bool spinning = true;

static void *spin(void *arg)
{
    (void)arg;
    while (atomic_load_explicit(&spinning, memory_order_relaxed))
        continue;
    return NULL;
}

// Processor seconds per second of wall time, in thousandths.
static int spin_for(int threads, double seconds)
{
    double wall = now(CLOCK_MONOTONIC);
    double cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    pthread_t *ids = calloc((size_t)threads, sizeof(*ids));
    int made = 0;
    for (; made < threads && pthread_create(&ids[made], NULL, spin, NULL) == 0; made++)
        continue;
    while (now(CLOCK_MONOTONIC) - wall < seconds)
        usleep(20000);
    cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    wall = now(CLOCK_MONOTONIC) - wall;
    atomic_store(&spinning, false);
    for (int i = 0; i < made; i++)
        pthread_join(ids[i], NULL);
    free(ids);
    return (int)(cpu / wall * 1000);
}

static enum outcome cpu_spin(const struct attempt *self)
{
    (void)self;
    if (world.milli_cpus == 0)
        return cannot("needs --milli-cpus");
    int used = spin_for(100, 2.5);
    if (used > world.milli_cpus * 16 / 10)
        return escaped("100 threads used %d thousandths of a processor, allowed are %d", used,
                       world.milli_cpus);
    return held("100 threads used %d thousandths of a processor of %d", used, world.milli_cpus);
}

// With --pids 1 it is the neighbour that needs its share.
static enum outcome cpu_neighbour(const struct attempt *self)
{
    (void)self;
    return held("used %d", spin_for(world.pids == 1 ? 1 : 100, 3));
}

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    {.number = 1,
     .name = "fork_bomb",
     .tries = "forks twice the allowed number of processes",
     .held_by = "pids limit of the box's cgroup",
     .canary = "pids",
     .place = ALONE,
     .run = fork_bomb},
    {.number = 1,
     .name = "fork_storm",
     .tries = "lets every child fork in turn",
     .held_by = "pids limit of the box's cgroup",
     .canary = "pids",
     .place = ALONE,
     .run = fork_storm},
    {.number = 1,
     .name = "thread_bomb",
     .tries = "starts twice as many threads as processes are allowed",
     .held_by = "pids limit, which counts threads",
     .canary = "pids",
     .place = ALONE,
     .run = thread_bomb},
    {.number = 3,
     .name = "cpu_spin",
     .tries = "spins on 100 threads",
     .held_by = "cpu quota of the box's cgroup",
     .canary = "cpu",
     .place = ALONE,
     .run = cpu_spin},
    {.number = 3,
     .name = "cpu_neighbour",
     .tries = "spins on 100 threads while a neighbour needs its share",
     .held_by = "cpu quota of the box's cgroup",
     .canary = "cpu",
     .place = OUTSIDE,
     .run = cpu_neighbour},
    {.number = 7,
     .name = "zombie_hold",
     .tries = "keeps twice as many dead children as processes are allowed",
     .held_by = "pids limit, which counts the dead until they are reaped",
     .canary = "pids",
     .place = ALONE,
     .run = zombie_hold},
    {.number = 7,
     .name = "zombie_orphans",
     .tries = "leaves 500 orphans to pid 1",
     .held_by = "the guest reaps",
     .no_canary = "reaping is what pid 1 does, not a fence to take away",
     .run = zombie_orphans},
    {.number = 7,
     .name = "linger_after_exit",
     .tries = "ends while double-forked, setsid, signal-proof processes live on",
     .held_by = "killing by cgroup, and the end of the pid namespace",
     .canary = "cgroupkill,pid",
     .place = OUTSIDE,
     .run = linger_after_exit},
    {.number = 7,
     .name = "linger_after_kill",
     .tries = "the same, ended by a timeout, with a first process that ignores SIGTERM",
     .held_by = "killing by cgroup, and the end of the pid namespace",
     .canary = "cgroupkill,pid",
     .place = OUTSIDE,
     .run = linger_after_kill},
    {.number = 10,
     .name = "output_held",
     .tries = "ends while a grandchild holds its output open",
     .held_by = "the first process's end ends the run; what is left is killed",
     .canary = "cgroupkill,pid",
     .place = OUTSIDE,
     .run = output_held},
    {.number = 10,
     .name = "output_poured",
     .tries = "ends while grandchildren write without end",
     .held_by = "what is read after the first process's end is bounded",
     .no_canary = "who writes to a closed pipe dies of it; that the run ends is all there is to see",
     .place = OUTSIDE,
     .run = output_poured},
};
// clang-format on

const struct attempt_list process_attempts = ATTEMPTS(attempts);
