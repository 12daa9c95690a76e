// SPDX-License-Identifier: Apache-2.0
// Signals to what an exec has started since some moment: a shell's command is ended without the
// shell and without what earlier commands left running. The exec's cgroup stands still (it is
// frozen) while its processes are looked at, so that no fork gets away; where the kernel takes too
// long over that, rounds are made until one finds nobody. Young processes below an old one are its
// own business. One whose parent has ended cannot be traced and counts by its age alone.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/guest-internal.h"

enum {
    SEEN_MAX = 1024,    // processes in one round
    ROUNDS_MAX = 32,    // before a storm is left to itself
    FREEZE_MS = 10,     // for one look whether the cgroup stands still
    FREEZE_LOOKS = 5,   // of these
    TICK_NS = 10000000, // what /proc counts in
    WRAP = 16384,       // numbers so much lower were given out later, from the beginning
};

enum verdict { VERDICT_NONE, VERDICT_SPARE, VERDICT_HIT };

struct seen {
    pid_t pid, parent;
    int young;
    enum verdict verdict;
};

static struct seen seen[SEEN_MAX];

static int set_frozen(const struct exec *exec, int on)
{
    return fd_write_file(exec->cgroup, "cgroup.freeze", on ? "1" : "0");
}

static int freeze(const struct exec *exec)
{
    auto_fd events = openat(exec->cgroup, "cgroup.events", O_RDONLY | O_CLOEXEC);
    if (events < 0 || set_frozen(exec, 1) < 0)
        return 0;
    for (int look = 0; look < FREEZE_LOOKS; look++) {
        char text[64];
        struct pollfd poll_fd = {.fd = events, .events = POLLPRI};
        ssize_t n = pread(events, text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        if (strstr(text, "frozen 1") != NULL)
            return 1;
        (void)poll(&poll_fd, 1, FREEZE_MS);
    }
    return 0;
}

// The parent and the age out of /proc/PID/stat; the name in it may hold anything. 0 or -1.
static int parse_stat(const char *text, pid_t *ret_parent, uint64_t *ret_ticks)
{
    enum { FIELD_PARENT = 4, FIELD_START = 22 };
    const char *p = strrchr(text, ')');
    if (p == NULL)
        return -1;
    for (int field = 3; field <= FIELD_START; field++) {
        p = strchr(p, ' ');
        if (p == NULL)
            return -1;
        p++;
        if (field == FIELD_PARENT)
            *ret_parent = (pid_t)strtol(p, NULL, 10);
    }
    *ret_ticks = strtoull(p, NULL, 10);
    return 0;
}

static int is_young(pid_t pid, uint64_t ticks, const struct guest_signal *msg)
{
    uint64_t mark = msg->since / TICK_NS;
    if (ticks != mark || msg->since_pid == 0)
        return ticks >= mark;
    int64_t above = (int64_t)pid - msg->since_pid;
    return above > 0 || above < -WRAP;
}

static int look_at(struct seen *s, pid_t pid, const struct guest_signal *msg)
{
    char path[32], text[512];
    uint64_t ticks;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    *s = (struct seen){.pid = pid};
    if (parse_stat(text, &s->parent, &ticks) < 0)
        return -1;
    s->young = is_young(pid, ticks, msg);
    return 0;
}

// Looks at the processes of the cgroup, as many as there is room for. How many.
static unsigned look(const struct exec *exec, const struct guest_signal *msg)
{
    auto_fd fd = openat(exec->cgroup, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    char text[1024];
    unsigned n_seen = 0;
    pid_t pid = 0;
    ssize_t n;
    while (n_seen < SEEN_MAX && (n = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < n && n_seen < SEEN_MAX; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
                continue;
            }
            if (pid > 1 && pid != exec->pid && look_at(&seen[n_seen], pid, msg) == 0)
                n_seen++;
            pid = 0;
        }
    }
    return n_seen;
}

static struct seen *find_seen(unsigned n, pid_t pid)
{
    for (unsigned i = 0; i < n; i++) {
        if (seen[i].pid == pid)
            return &seen[i];
    }
    return NULL;
}

// Up its line of parents until one is old, decided, or not the exec's; what that means holds for
// the whole line.
static void judge(unsigned n, struct seen *s)
{
    enum verdict verdict = VERDICT_HIT;
    struct seen *top = s;
    for (unsigned depth = 0; top != NULL && depth <= n; depth++) {
        if (!top->young || top->verdict == VERDICT_SPARE) {
            verdict = VERDICT_SPARE;
            break;
        }
        if (top->verdict == VERDICT_HIT)
            break;
        top = find_seen(n, top->parent);
    }
    for (unsigned depth = 0; s != NULL && s != top && depth <= n; depth++) {
        s->verdict = verdict;
        s = find_seen(n, s->parent);
    }
}

static unsigned signal_young(unsigned n, int sig)
{
    unsigned hit = 0;
    for (unsigned i = 0; i < n; i++) {
        if (seen[i].young && seen[i].verdict == VERDICT_NONE)
            judge(n, &seen[i]);
        if (seen[i].verdict == VERDICT_HIT && kill(seen[i].pid, sig) == 0)
            hit++;
    }
    return hit;
}

void guest_signal_since(const struct exec *exec, const struct guest_signal *msg)
{
    int frozen = freeze(exec);
    for (int round = 0; round < ROUNDS_MAX; round++) {
        unsigned n = look(exec, msg);
        unsigned hit = signal_young(n, msg->signal);
        // Whoever stands still was found in one round; other signals than SIGKILL leave them alive
        // to be found again.
        if (hit == 0 || msg->signal != SIGKILL || (frozen && n < SEEN_MAX))
            break;
    }
    (void)set_frozen(exec, 0);
}
