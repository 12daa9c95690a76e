// SPDX-License-Identifier: Apache-2.0
// Starting the daemon: a child that has nothing of ours but the descriptors that it is given, an id
// of its own, and no way to any power.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/tool.h"
#include "keeper/keeper-internal.h"

enum {
    DAEMON_KEEPER = 3, // its descriptors
    DAEMON_CONF,
    DAEMON_LISTENERS,
    DAEMON_CLEAR = 64, // out of the way of these
    TRY_PATIENCE_MS = 10000,
};

// In the child. Why it failed is told on standard error, and by the exit code.
static _Noreturn void die(const char *what)
{
    tool_die(what, errno);
}

static void take_descriptors(const struct keeper_serving *serving, int sock)
{
    int fds[DAEMON_LISTENERS + KEEPER_LISTENERS_MAX] = {
        [DAEMON_KEEPER] = sock, [DAEMON_CONF] = serving->conf};
    int n = DAEMON_LISTENERS + (int)serving->n_listeners;
    fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (unsigned i = 0; i < serving->n_listeners; i++)
        fds[DAEMON_LISTENERS + i] = serving->listeners[i];
    for (int i = 0; i < n; i++) {
        if (i != 1 && i != 2 && (fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, DAEMON_CLEAR)) < 0)
            die("descriptors of the daemon");
    }
    for (int i = 0; i < n; i++) {
        if (i != 1 && i != 2 && dup2(fds[i], i) < 0)
            die("descriptors of the daemon");
    }
    (void)close_range((unsigned)n, ~0u, 0);
}

static void take_signals(void)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)setsid(); // a terminal's are for the keeper, which passes on what it means
}

static void drop_powers(uid_t uid, gid_t gid)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[2] = {0};
    const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                               SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                               SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    for (int cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
        ;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0 || setgroups(0, NULL) < 0 ||
        syscall(SYS_setresgid, gid, gid, gid) < 0 || syscall(SYS_setresuid, uid, uid, uid) < 0 ||
        syscall(SYS_capset, &header, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        die("the daemon's identity");
    // Our word is not enough: whatever it is that runs, it must not be root.
    if (getuid() != uid || geteuid() != uid || getegid() != gid || uid == 0 || gid == 0)
        die("the daemon's identity");
}

static _Noreturn void be_daemon(const struct keeper_serving *serving, int sock)
{
    static const char *const argv[] = {"cayd", NULL};
    static const char *const envp[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", NULL};
    take_signals();
    take_descriptors(serving, sock);
    (void)umask(077);
    // Opened while we may: it can lie where the daemon's user cannot go, in somebody's home.
    int program = open(serving->daemon, O_PATH | O_CLOEXEC);
    if (program < 0 || chdir("/") < 0)
        die(serving->daemon);
    drop_powers(serving->uid, serving->gid);
    // execve changes neither; its types are older than const. By name first, which shows in ps.
    (void)execve(serving->daemon, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)envp);
    if (errno == EACCES)
        (void)syscall(SYS_execveat, program, "", argv, envp, AT_EMPTY_PATH);
    die(serving->daemon);
}

int daemon_start(const struct keeper_serving *serving, int *ret_sock, struct err *err)
{
    int ends[2];
    int r = wire_pair(ends);
    if (r < 0)
        return err_sys(err, -r, "make the daemon's socket");
    auto_fd ours = ends[0], theirs = ends[1];
    if (fd_set_nonblock(ours, 1) < 0)
        return err_sys(err, errno, "make the daemon's socket");
    (void)lseek(serving->conf, 0, SEEK_SET); // the one before has read it to its end
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(err, errno, "fork the daemon");
    if (pid == 0)
        be_daemon(serving, theirs);
    int pidfd = pidfd_open(pid, 0); // our child, not reaped: nobody else can have this pid
    if (pidfd < 0) {
        (void)err_sys(err, errno, "watch the daemon");
        (void)kill(pid, SIGKILL);
        return -1;
    }
    *ret_sock = TAKE_FD(ours);
    return pidfd;
}

int daemon_try(const char *program, struct err *err)
{
    static const char *const envp[] = {"PATH=/usr/bin:/bin", NULL};
    const char *const argv[] = {program, "--version", NULL};
    struct tool tool = {
        .argv = argv, .envp = envp, .fds = {-1, -1, -1}
    };
    int pidfd = tool_start(&tool, err);
    if (pidfd < 0)
        return -1;
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    if (poll(&ended, 1, TRY_PATIENCE_MS) != 1) {
        tool_kill(pidfd);
        return err_set(err, ERR_INTERNAL, "'%.100s --version' does not end", program);
    }
    int code = tool_wait(pidfd);
    return code == 0
               ? 0
               : err_set(err, ERR_INVALID, "'%.100s --version' fails with code %d", program, code);
}
