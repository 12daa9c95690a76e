// SPDX-License-Identifier: Apache-2.0
// Starting a program in the box, and telling how it ended. The child (child.c) shares the guest's
// memory until it execs, so nothing is copied, and is born in a cgroup of its own below the box's.
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/weaken.h"
#include "guest/guest-internal.h"
#include "guest/spawn.h"

static char *strings[GUEST_STRINGS_MAX + 2];
static char child_stack[32 * 1024] __attribute__((aligned(16)));

// --- the message ---

// Splits `len` bytes into exactly the strings that the message counts. 0 or -errno.
static int split(const struct guest_exec *msg, char *bytes, struct plan *plan)
{
    uint64_t total = 1ull + msg->argc + msg->envc;
    if (msg->argc == 0 || total > GUEST_STRINGS_MAX)
        return -E2BIG;
    char *p = bytes, *end = bytes + msg->args_len;
    unsigned slot = 0;
    for (uint64_t i = 0; i < total; i++) {
        char *nul = memchr(p, '\0', (size_t)(end - p));
        if (nul == NULL)
            return -EINVAL;
        if (i == 0) {
            plan->cwd = p;
            plan->argv = strings;
        } else {
            strings[slot++] = p;
        }
        if (i == msg->argc) { // the last argument: end the vector, the variables follow
            strings[slot++] = NULL;
            plan->envp = strings + slot;
        }
        p = nul + 1;
    }
    strings[slot] = NULL;
    return p == end ? 0 : -EINVAL;
}

static int find_strings(const struct guest_exec *msg, size_t len, const struct wire_fds *fds,
                        char **ret)
{
    if (!(msg->flags & GUEST_EXEC_ARGS_FD)) {
        *ret = (char *)(uintptr_t)(msg + 1);
        return msg->args_len == len - sizeof *msg && msg->args_len > 0 ? 0 : -EINVAL;
    }
    struct stat st;
    if (fds->n != 1 || len != sizeof *msg || msg->args_len == 0 || msg->args_len > GUEST_ARGS_MAX ||
        fstat(fds->fd[0], &st) < 0 || st.st_size < msg->args_len)
        return -EINVAL;
    *ret = mmap(NULL, msg->args_len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fds->fd[0], 0);
    return *ret == MAP_FAILED ? -errno : 0;
}

// --- entries ---

// Has anybody been left in the entry's cgroup?
static int is_populated(const struct exec *exec)
{
    char text[64];
    ssize_t n = fd_read_file(exec->cgroup, "cgroup.events", text, sizeof text);
    return n < 0 || strstr(text, "populated 0") == NULL;
}

int guest_exec_cgroup(struct guest *guest, unsigned i)
{
    char name[16];
    (void)snprintf(name, sizeof name, "e%u", i);
    if (mkdirat(FD_CGROUP, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    guest->execs[i].cgroup = openat(FD_CGROUP, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return guest->execs[i].cgroup < 0 ? -errno : 0;
}

static int is_usable(struct exec *exec)
{
    if (exec->state == EXEC_LINGERING && !is_populated(exec))
        exec->state = EXEC_FREE;
    return exec->state == EXEC_FREE;
}

// Linux kills whatever is cloned into a cgroup that was killed once (it compares the wrong counter,
// seen on 6.18), so that the entry needs a new one.
static int renew_cgroup(struct guest *guest, unsigned i)
{
    char name[16];
    (void)snprintf(name, sizeof name, "e%u", i);
    fd_close(guest->execs[i].cgroup);
    guest->execs[i].cgroup = -1;
    if (unlinkat(FD_CGROUP, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return -errno;
    int r = guest_exec_cgroup(guest, i);
    if (r == 0)
        guest->execs[i].killed = 0;
    return r;
}

struct exec *guest_find_exec(struct guest *guest, uint32_t id)
{
    for (unsigned i = 0; i < guest->n_execs; i++) {
        if (guest->execs[i].state != EXEC_FREE && guest->execs[i].id == id)
            return &guest->execs[i];
    }
    return NULL;
}

static int take_entry(struct guest *guest, uint32_t id, struct exec **ret)
{
    struct exec *same = guest_find_exec(guest, id);
    if (same != NULL && !is_usable(same))
        return -EEXIST;
    unsigned i = 0;
    while (i < guest->n_execs && !is_usable(&guest->execs[i]))
        i++;
    if (i == GUEST_EXECS_MAX)
        return -EAGAIN;
    if (i == guest->n_execs) {
        int r = guest_exec_cgroup(guest, i);
        if (r < 0)
            return r;
        guest->n_execs++;
    }
    int r = guest->execs[i].killed ? renew_cgroup(guest, i) : 0;
    if (r == 0)
        *ret = &guest->execs[i];
    return r;
}

// --- putting it together ---

static int start(struct exec *exec, struct plan *plan)
{
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK | CLONE_INTO_CGROUP | CLONE_CLEAR_SIGHAND,
        .exit_signal = SIGCHLD,
        .stack = (uintptr_t)child_stack,
        .stack_size = sizeof child_stack,
        .cgroup = (uint64_t)exec->cgroup,
    };
    long pid = spawn(&args, guest_run_child, plan);
    if (pid < 0) {
        plan->step = STEP_SETUP;
        plan->sys_errno = (int)-pid;
        return -1;
    }
    if (plan->step != STEP_NONE) { // never became a program: nobody's but ours to reap
        (void)waitpid((pid_t)pid, NULL, 0);
        return -1;
    }
    exec->pid = (pid_t)pid;
    return 0;
}

static void answer_failed(uint32_t id, enum guest_step step, int sys_errno)
{
    struct guest_failed msg = {
        .head = {.version = WIRE_VERSION, .type = GUEST_FAILED, .id = id},
        .step = step,
        .sys_errno = sys_errno,
    };
    (void)wire_send(FD_SOCK, &msg, sizeof msg, NULL, 0, NULL, 0);
}

int guest_tell_started(const struct exec *exec, const int *fds, unsigned n)
{
    struct guest_started msg = {
        .head = {.version = WIRE_VERSION, .type = GUEST_STARTED, .id = exec->id},
        .pid = exec->pid,
        .flags = exec->flags,
        .tag = exec->tag,
    };
    return wire_send(FD_SOCK, &msg, sizeof msg, NULL, 0, fds, n);
}

static void kill_all(struct exec *exec)
{
    exec->killed = 1;
    (void)fd_write_file(exec->cgroup, "cgroup.kill", "1");
}

// Nobody can be told of it (too many descriptors are on their way): it has not been started.
static void abandon(struct exec *exec, int sys_errno)
{
    kill_all(exec);
    exec->state = EXEC_LINGERING;
    answer_failed(exec->id, STEP_SETUP, sys_errno);
}

static void started(struct exec *exec, const struct guest_exec *msg, struct streams *s)
{
    exec->id = msg->head.id;
    exec->state = EXEC_RUNNING;
    exec->flags = msg->flags & ~GUEST_EXEC_ARGS_FD;
    exec->tag = msg->tag;
    exec->n_kept = 0;
    int r = guest_tell_started(exec, s->ours, s->n);
    if (r < 0)
        abandon(exec, -r);
    else if (exec->flags & GUEST_EXEC_KEEP)
        guest_keep(exec, s->ours, s->n);
}

// A kernel that is there already was parked by a daemon before the one that asks. That would be
// told again and again, and nobody reads it before the box is bound: we would wait for ever to say
// it.
static void answer_no_entry(uint32_t id, uint32_t flags, int r)
{
    if (r != -EEXIST || !(flags & GUEST_EXEC_CONTROL))
        answer_failed(id, STEP_SETUP, -r);
}

static void run(struct guest *guest, const struct guest_exec *msg, struct plan *plan)
{
    struct exec *exec;
    struct streams s;
    int r = take_entry(guest, msg->head.id, &exec);
    if (r < 0) {
        answer_no_entry(msg->head.id, msg->flags, r);
        return;
    }
    r = streams_open(&s, msg);
    if (r < 0) {
        streams_close(&s);
        answer_failed(msg->head.id, STEP_SETUP, -r);
        return;
    }
    int tty = (msg->flags & GUEST_EXEC_TTY) != 0;
    for (int i = 0; i < EXEC_STREAMS; i++)
        plan->streams[i] = s.child[tty ? 0 : i];
    exec->before = guest->gauges_seen;
    if (start(exec, plan) < 0)
        answer_failed(msg->head.id, plan->step, plan->sys_errno);
    else
        started(exec, msg, &s);
    streams_close(&s);
}

// A process that came by another way, and waits in `exec`'s place for its streams.
static int seat(struct exec *exec, const struct guest_adopt *msg, int seat_fd, struct streams *s)
{
    char pid[16];
    const struct guest_plain hello = {
        .head = {.version = WIRE_VERSION, .type = GUEST_SEATED}
    };
    siginfo_t info;
    if (msg->pid <= 1 || waitid(P_PID, (id_t)msg->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
        return -ECHILD; // not ours to have
    (void)snprintf(pid, sizeof pid, "%d", msg->pid);
    int r = fd_write_file(exec->cgroup, "cgroup.procs", pid);
    if (r == 0)
        r = wire_send(seat_fd, &hello, sizeof hello, NULL, 0, &s->child[1], EXEC_STREAMS - 1);
    exec->pid = msg->pid;
    return r;
}

void guest_adopt(struct guest *guest, const struct guest_adopt *msg, const struct wire_fds *fds)
{
    const struct guest_exec as = {
        .head = msg->head, .flags = GUEST_EXEC_CONTROL | GUEST_EXEC_KEEP | GUEST_EXEC_KEEP_EXIT};
    struct exec *exec;
    struct streams s;
    int r = take_entry(guest, msg->head.id, &exec);
    if (r < 0) {
        answer_no_entry(msg->head.id, as.flags, r);
        return;
    }
    exec->before = guest->gauges_seen;
    r = fds->n == 1 ? streams_open(&s, &as) : -EINVAL;
    if (fds->n == 1 && r == 0)
        r = seat(exec, msg, fds->fd[0], &s);
    if (r < 0)
        answer_failed(msg->head.id, STEP_SETUP, -r);
    else
        started(exec, &as, &s);
    if (fds->n == 1)
        streams_close(&s);
}

void guest_rehearse(struct guest *guest)
{
    static char shell[] = "/bin/sh", flag[] = "-c", nothing[] = ":";
    static char *argv[] = {shell, flag, nothing, NULL}, *envp[] = {NULL};
    const struct guest_exec msg = {.files = 64};
    struct plan plan = {
        .msg = &msg, .cwd = "/", .argv = argv, .envp = envp, .streams = {0, 1, 2}
    };
    struct exec *exec = &guest->execs[0];
    if (start(exec, &plan) == 0)
        (void)waitpid(exec->pid, NULL, 0);
}

void guest_exec(struct guest *guest, const struct guest_exec *msg, size_t len, struct wire_fds *fds)
{
    struct plan plan = {.msg = msg};
    char *bytes = NULL;
    int r = find_strings(msg, len, fds, &bytes);
    if (r == 0 && (msg->flags & GUEST_EXEC_TTY) && (msg->flags & GUEST_EXEC_CONTROL))
        r = -EINVAL; // a terminal is all that its program has
    if (r == 0)
        r = split(msg, bytes, &plan);
    if (r < 0)
        answer_failed(msg->head.id, STEP_ARGS, -r);
    else
        run(guest, msg, &plan);
    if (bytes != NULL && bytes != MAP_FAILED && (msg->flags & GUEST_EXEC_ARGS_FD))
        (void)munmap(bytes, msg->args_len);
}

static void signal_all(struct exec *exec, int sig)
{
    if (is_usable(exec)) // it has left nobody
        return;
    if (sig == SIGKILL && !weaken(WEAKEN_CGROUPKILL))
        kill_all(exec);
    else if (exec->state == EXEC_RUNNING)
        (void)kill(sig == SIGKILL ? exec->pid : -exec->pid, sig);
}

void guest_signal(struct guest *guest, const struct guest_signal *msg)
{
    struct exec *exec = guest_find_exec(guest, msg->head.id);
    if (exec == NULL)
        return;
    switch (msg->scope) {
    case GUEST_SCOPE_EXEC:
        signal_all(exec, msg->signal);
        break;
    case GUEST_SCOPE_FIRST:
        if (exec->state == EXEC_RUNNING)
            (void)kill(exec->pid, msg->signal);
        break;
    case GUEST_SCOPE_SINCE:
        guest_signal_since(exec, msg);
        break;
    default:
        break;
    }
}

// --- the end of an exec ---

int guest_tell_exited(const struct exec *exec)
{
    struct guest_exited msg = {
        .head = {.version = WIRE_VERSION, .type = GUEST_EXITED, .id = exec->id},
        .status = exec->status,
        .limits = exec->limits,
        .cpu_usec = exec->cpu_usec,
        .rss_peak = exec->rss_peak,
    };
    return wire_send(FD_SOCK, &msg, sizeof msg, NULL, 0, NULL, 0);
}

static void report(struct guest *guest, struct exec *exec)
{
    enum { KEPT = GUEST_EXEC_KEEP | GUEST_EXEC_KEEP_EXIT };
    struct gauges now;
    guest_read_gauges(guest, &now);
    guest->gauges_seen = now;
    exec->limits = 0;
    exec->limits |= now.oom_kills > exec->before.oom_kills ? GUEST_LIMIT_OOM : 0;
    exec->limits |= now.pids_refused > exec->before.pids_refused ? GUEST_LIMIT_PIDS : 0;
    exec->limits |= guest_disk_full(guest) ? GUEST_LIMIT_DISK : 0;
    (void)guest_tell_exited(exec);
    if (exec->flags & GUEST_EXEC_LAST)
        _exit(0); // and the kernel ends what is left
    exec->state = EXEC_ENDED;
    if ((exec->flags & KEPT) != KEPT) {
        guest_drop_kept(exec);
        exec->state = EXEC_LINGERING;
    }
}

static struct exec *find_pid(struct guest *guest, pid_t pid)
{
    for (unsigned i = 0; i < guest->n_execs; i++) {
        if (guest->execs[i].state == EXEC_RUNNING && guest->execs[i].pid == pid)
            return &guest->execs[i];
    }
    return NULL;
}

static void ended(struct guest *guest, struct exec *exec, int status, const struct rusage *ru)
{
    exec->status = status;
    exec->cpu_usec = (uint64_t)(ru->ru_utime.tv_sec + ru->ru_stime.tv_sec) * 1000000u +
                     (uint64_t)(ru->ru_utime.tv_usec + ru->ru_stime.tv_usec);
    exec->rss_peak = (uint64_t)ru->ru_maxrss * 1024u;
    if (exec->killed && is_populated(exec))
        exec->state = EXEC_KILLED;
    else
        report(guest, exec);
}

void guest_reap(struct guest *guest)
{
    int status, any = 0;
    struct rusage ru;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &ru)) > 0) {
        struct exec *exec = find_pid(guest, pid);
        if (exec != NULL)
            ended(guest, exec, status, &ru);
        any = 1;
    }
    for (unsigned i = 0; any && i < guest->n_execs; i++) {
        struct exec *exec = &guest->execs[i];
        if (exec->state == EXEC_KILLED && !is_populated(exec))
            report(guest, exec);
    }
}
