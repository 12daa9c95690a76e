// SPDX-License-Identifier: Apache-2.0
#include "box/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

void tool_die(const char *what, int sys_errno)
{
    char line[256];
    const char *why = strerrordesc_np(sys_errno);
    int len = snprintf(line, sizeof line, "%s: %s\n", what, why != NULL ? why : "unknown error");
    if (len > 0)
        (void)fd_write_all(STDERR_FILENO, line, (size_t)len);
    _exit(TOOL_BROKEN);
}

static void take_descriptors(const struct tool *tool)
{
    enum { CLEAR = 10 }; // out of the way of 0, 1 and 2
    int fds[3];
    for (int i = 0; i < 3; i++) {
        int fd = tool->fds[i] >= 0 ? tool->fds[i] : open("/dev/null", O_RDWR | O_CLOEXEC);
        fds[i] = fcntl(fd, F_DUPFD_CLOEXEC, CLEAR);
    }
    for (int i = 0; i < 3; i++) {
        if (fds[i] < 0 || dup2(fds[i], i) < 0)
            _exit(TOOL_BROKEN);
    }
}

static void take_signals(void)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
}

static _Noreturn void child(const struct tool *tool, int parent)
{
    parent = fcntl(parent, F_DUPFD_CLOEXEC, 20);
    // Out of the way of 0, 1 and 2.
    int program = tool->program != NULL ? fcntl(*tool->program, F_DUPFD_CLOEXEC, 20) : -1;
    take_descriptors(tool);
    take_signals();
    if (tool->setup != NULL)
        tool->setup(tool->setup_arg);
    // Last, since a change of credentials forgets it; and who died before it was set sends no
    // signal.
    struct pollfd dead = {.fd = parent, .events = POLLIN};
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || poll(&dead, 1, 0) != 0)
        _exit(TOOL_BROKEN);
    (void)close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
    // execvp does not change what the strings hold; its type is older than const. It looks in the
    // PATH of `environ`, as execvpe does too, whatever it is given.
    environ = (char **)(uintptr_t)tool->envp;
    if (tool->program != NULL) {
        (void)syscall(SYS_execveat, program, "", tool->argv, tool->envp, AT_EMPTY_PATH);
        tool_die(tool->argv[0], errno);
    }
    (void)execvp(tool->argv[0], (char *const *)(uintptr_t)tool->argv);
    tool_die(tool->argv[0], errno);
}

int tool_start(const struct tool *tool, struct err *err)
{
    auto_fd self = pidfd_open(getpid(), 0);
    if (self < 0)
        return err_sys(err, errno, "start %s", tool->argv[0]);
    int pidfd = -1;
    struct clone_args args = {
        .flags = CLONE_PIDFD | tool->namespaces,
        .pidfd = (uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
    };
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid < 0)
        return err_sys(err, errno, "start %s", tool->argv[0]);
    if (pid == 0)
        child(tool, self);
    return pidfd;
}

int tool_wait(int pidfd)
{
    siginfo_t info = {0};
    int r;
    do {
        r = waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED);
    } while (r < 0 && errno == EINTR);
    fd_close(pidfd);
    if (r < 0)
        return TOOL_BROKEN;
    return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

void tool_kill(int pidfd)
{
    if (pidfd < 0)
        return;
    (void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    (void)tool_wait(pidfd);
}

int tool_ask(const char *const *argv, struct buf *out)
{
    static const char *const envp[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
                                       NULL};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    auto_fd from = ends[0];
    auto_fd to = ends[1];
    struct tool tool = {
        .argv = argv, .envp = envp, .fds = {-1, to, -1}
    };
    struct err ignored;
    int pidfd = tool_start(&tool, &ignored);
    fd_close(TAKE_FD(to));
    if (pidfd < 0)
        return -1;
    for (;;) {
        char *at;
        size_t room;
        if (buf_reserve(out, 4096, &at, &room) < 0 || room == 0)
            break;
        ssize_t n = read(from, at, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? (tool_kill(pidfd), -1) : tool_wait(pidfd);
        buf_commit(out, (size_t)n);
    }
    tool_kill(pidfd);
    return -1;
}
