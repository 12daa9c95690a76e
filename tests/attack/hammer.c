// SPDX-License-Identifier: Apache-2.0
// Runs as root in a box and tries to lay hands on every process that appears there, as early as it
// can. In the end it tells, as JSON, what succeeded on one that was not confined yet: that had no
// filter when looked at afterwards.
//
//     hammer look FILE    tries everything, until there is a file of that name
//     hammer kill FILE    kills whatever appears
//     hammer stop FILE    stops whatever appears
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t target;

static int try_open(const char *name, int flags)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", target, name);
    int fd = open(path, flags | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd;
}

static int try_read(const char *name)
{
    char path[64], byte[16];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", target, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, byte, sizeof byte) : -1;
    if (fd >= 0)
        close(fd);
    return n > 0 ? 0 : -1;
}

static int try_link(const char *name)
{
    char path[64], to[256];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", target, name);
    return (int)readlink(path, to, sizeof to);
}

static int try_attach(void)
{
    if (ptrace(PTRACE_ATTACH, target, NULL, NULL) < 0)
        return -1;
    (void)waitpid(target, NULL, __WALL);
    (void)ptrace(PTRACE_DETACH, target, NULL, NULL);
    return 0;
}

static int try_seize(void)
{
    if (ptrace(PTRACE_SEIZE, target, NULL, NULL) < 0)
        return -1;
    (void)ptrace(PTRACE_DETACH, target, NULL, NULL);
    return 0;
}

static int try_getfd(void)
{
    int pidfd = (int)syscall(SYS_pidfd_open, target, 0);
    int got = -1;
    for (int fd = 0; pidfd >= 0 && fd < 80 && got < 0; fd++)
        got = (int)syscall(438 /* pidfd_getfd */, pidfd, fd, 0);
    if (got >= 0)
        close(got);
    if (pidfd >= 0)
        close(pidfd);
    return got;
}

static int try_setns(void)
{
    int pidfd = (int)syscall(SYS_pidfd_open, target, 0);
    int r = pidfd >= 0 ? setns(pidfd, CLONE_NEWNS) : -1;
    if (pidfd >= 0)
        close(pidfd);
    return r;
}

static int try_memory(void)
{
    char byte[8];
    struct iovec mine = {byte, 8}, its = {(void *)0x400000, 8};
    ssize_t n = process_vm_readv(target, &mine, 1, &its, 1, 0);
    return n >= 0 || errno == EFAULT ? 0 : -1;
}

static int try_fds(void)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", target);
    DIR *dir = opendir(path);
    int found = -1;
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
        found = e->d_name[0] != '.' ? 0 : found;
    if (dir != NULL)
        closedir(dir);
    return found;
}

static int try_limit(void)
{
    struct rlimit none = {0, 0};
    return prlimit(target, RLIMIT_NOFILE, &none, NULL);
}

static const struct {
    const char *name;
    int (*fn)(void);
} calls[] = {
    {"attach",      try_attach},
    {"seize",       try_seize },
    {"pidfd_getfd", try_getfd },
    {"setns",       try_setns },
    {"memory",      try_memory},
    {"fds",         try_fds   },
};

static const struct {
    const char *name;
    int flags;
} opens[] = {
    {"root/",         O_RDONLY},
    {"cwd/",          O_RDONLY},
    {"ns/user",       O_RDONLY},
    {"ns/mnt",        O_RDONLY},
    {"fd/3",          O_RDONLY},
    {"mem",           O_RDWR  },
    {"fd/62",         O_RDONLY},
    {"oom_score_adj", O_WRONLY},
    {"comm",          O_WRONLY},
    {"uid_map",       O_WRONLY},
    {"exe",           O_RDONLY},
};

static const char *const reads[] = {"mem",     "environ", "maps",   "auxv",
                                    "syscall", "stack",   "pagemap"};
static const char *const links[] = {"exe", "root", "cwd", "ns/user", "fd/0", "fd/3", "fd/62"};

enum { CALLS = sizeof calls / sizeof *calls, OPENS = sizeof opens / sizeof *opens };
enum { READS = sizeof reads / sizeof *reads, LINKS = sizeof links / sizeof *links };
static unsigned long bad_call[CALLS], bad_open[OPENS], bad_read[READS], bad_link[LINKS];
static unsigned long seen, early, tried, limited;

// 1: it has no filter yet. 0: it has, or is gone.
static int is_early(void)
{
    char path[64], text[4096];
    (void)snprintf(path, sizeof path, "/proc/%d/status", target);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return strstr(text, "Seccomp:\t0") != NULL && strstr(text, "State:\tZ") == NULL;
}

static void look(void)
{
    seen++;
    int was = is_early();
    early += (unsigned)was;
    for (int round = 0; was && round < 100; round++) {
        for (int i = 0; i < CALLS; i++, tried++)
            bad_call[i] += calls[i].fn() >= 0 && is_early();
        for (int i = 0; i < OPENS; i++, tried++)
            bad_open[i] += try_open(opens[i].name, opens[i].flags) >= 0 && is_early();
        for (int i = 0; i < READS; i++, tried++)
            bad_read[i] += try_read(reads[i]) >= 0 && is_early();
        for (int i = 0; i < LINKS; i++, tried++)
            bad_link[i] += try_link(links[i]) >= 0 && is_early();
        limited += seen % 4 == 0 && try_limit() == 0; // harmless, but it must be answered
        was = is_early();
    }
}

static void report(void)
{
    printf("{\"seen\": %lu, \"early\": %lu, \"tried\": %lu, \"limited\": %lu, \"bad\": {", seen,
           early, tried, limited);
    for (int i = 0; i < CALLS; i++)
        printf("\"%s\": %lu, ", calls[i].name, bad_call[i]);
    for (int i = 0; i < OPENS; i++)
        printf("\"open %s\": %lu, ", opens[i].name, bad_open[i]);
    for (int i = 0; i < READS; i++)
        printf("\"read %s\": %lu, ", reads[i], bad_read[i]);
    for (int i = 0; i < LINKS; i++)
        printf("\"link %s\": %lu%s", links[i], bad_link[i], i + 1 < LINKS ? ", " : "}}\n");
    fflush(stdout);
}

static int last_pid(void)
{
    char text[128] = "";
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
        return 0;
    close(fd);
    char *space = strrchr(text, ' ');
    return space != NULL ? (int)strtol(space + 1, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int mode = argv[1][0];
    pid_t at = last_pid();
    for (unsigned long i = 0;; i++) {
        if (i % 1000 == 0 && access(argv[2], F_OK) == 0)
            break;
        // Those after the last one that we know of: the kernel counts on.
        for (pid_t pid = at + 1; pid <= at + 3; pid++) {
            if (kill(pid, 0) < 0 && errno == ESRCH)
                continue;
            target = pid;
            if (mode == 'l')
                look();
            else
                while (kill(pid, mode == 'k' ? SIGKILL : SIGSTOP) < 0 && errno == EPERM)
                    ;
            at = pid;
        }
        if (i % 50 == 0 && last_pid() > at + 3)
            at = last_pid() - 1;
    }
    report();
    return 0;
}
