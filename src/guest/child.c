// SPDX-License-Identifier: Apache-2.0
// Between clone3 and execve: the child, which shares the guest's memory while the guest stands
// still. It enters B, takes its uid, gives up what root in a box shall not have, and execs; an
// error comes back in the plan. While it still has our memory the kernel lets nobody in the box
// look into it: the guest is not dumpable and its memory belongs to a user namespace outside B.
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/weaken.h"
#include "guest/guest-internal.h"
#include "wire/spawner-msg.h"

// What root in a box keeps, over its own user namespace only. Without mount, network, device, raw
// socket or trace powers: those would only widen what a kernel bug can be reached with.
const uint64_t guest_kept_caps = 1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_FOWNER |
                                 1ull << CAP_FSETID | 1ull << CAP_KILL | 1ull << CAP_SETGID |
                                 1ull << CAP_SETUID | 1ull << CAP_SETPCAP |
                                 1ull << CAP_NET_BIND_SERVICE | 1ull << CAP_SYS_CHROOT |
                                 1ull << CAP_SETFCAP | 1ull << CAP_IPC_OWNER;

static int fail(struct plan *plan, enum guest_step step)
{
    plan->step = step;
    plan->sys_errno = errno;
    return 127;
}

static int drop_caps(void)
{
    if (weaken(WEAKEN_CAPS))
        return 0;
    for (int cap = 0; cap <= CAP_LAST_CAP; cap++) {
        if (!(guest_kept_caps >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 &&
            errno != EINVAL)
            return -1;
    }
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {
        {.effective = (uint32_t)guest_kept_caps,         .permitted = (uint32_t)guest_kept_caps},
        {.effective = (uint32_t)(guest_kept_caps >> 32),
         .permitted = (uint32_t)(guest_kept_caps >> 32)                                        },
    };
    return (int)syscall(SYS_capset, &head, caps);
}

int guest_enter_box(uint32_t uid, uint32_t gid)
{
    if (uid >= SLOT_BOX_IDS || gid >= SLOT_BOX_IDS) { // all ones would mean "as it is"
        errno = EINVAL;
        return -1;
    }
    if (!weaken(WEAKEN_USERNS) && setns(FD_USERNS, CLONE_NEWUSER) < 0)
        return -1;
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, gid, gid, gid) < 0)
        return -1;
    // Root first: only root may shrink the bounding set, which the user's programs shall have small
    // too.
    if (syscall(SYS_setresuid, 0, 0, 0) < 0 || drop_caps() < 0)
        return -1;
    if (uid != 0 && syscall(SYS_setresuid, uid, uid, uid) < 0)
        return -1;
    return 0;
}

static int limit(const struct guest_exec *msg)
{
    struct rlimit files = {.rlim_cur = msg->files, .rlim_max = msg->files};
    struct rlimit none = {.rlim_cur = 1, .rlim_max = 1}; // 0 still feeds a handler behind a pipe
    if (!weaken(WEAKEN_FILES) && setrlimit(RLIMIT_NOFILE, &files) < 0)
        return -1;
    return weaken(WEAKEN_CORE) ? 0 : setrlimit(RLIMIT_CORE, &none);
}

static const char *variable(char **envp, const char *name)
{
    size_t len = strlen(name);
    for (; *envp != NULL; envp++) {
        if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=')
            return *envp + len + 1;
    }
    return NULL;
}

// As a shell looks for a command: the first that can be executed; a file that may not be is
// remembered.
static void exec_search(struct plan *plan)
{
    static char path[4096];
    const char *name = plan->argv[0];
    if (strchr(name, '/') != NULL || *name == '\0') {
        (void)execve(name, plan->argv, plan->envp);
        return;
    }
    const char *dirs = variable(plan->envp, "PATH");
    int seen = ENOENT;
    for (const char *dir = dirs != NULL ? dirs : "/usr/bin:/bin"; *dir != '\0';) {
        int len = (int)strcspn(dir, ":");
        int n = snprintf(path, sizeof path, "%.*s/%s", len, len > 0 ? dir : ".", name);
        if (n > 0 && (size_t)n < sizeof path)
            (void)execve(path, plan->argv, plan->envp);
        else
            errno = ENAMETOOLONG;
        if (errno != ENOENT && errno != ENOTDIR)
            seen = errno;
        if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
            break;
        dir += len;
        dir += *dir == ':';
    }
    errno = seen;
}

static int place_control(int in, int out)
{
    if (out == GUEST_CONTROL_IN)
        out = fcntl(out, F_DUPFD, GUEST_CONTROL_OUT + 1);
    if (in == GUEST_CONTROL_IN ? fcntl(in, F_SETFD, 0) < 0 : dup2(in, GUEST_CONTROL_IN) < 0)
        return -1;
    if (out == GUEST_CONTROL_OUT ? fcntl(out, F_SETFD, 0) < 0 : dup2(out, GUEST_CONTROL_OUT) < 0)
        return -1;
    return 0;
}

static int place_streams(const struct plan *plan)
{
    for (int fd = 0; fd < 3; fd++) {
        int from = plan->streams[fd];
        if (from == fd ? fcntl(fd, F_SETFD, 0) < 0 : dup2(from, fd) < 0)
            return -1;
    }
    if (plan->msg->flags & GUEST_EXEC_CONTROL)
        return place_control(plan->streams[3], plan->streams[4]);
    return 0;
}

static void close_others(const struct plan *plan)
{
    if (plan->msg->flags & GUEST_EXEC_CONTROL) {
        (void)close_range(3, GUEST_CONTROL_IN - 1, 0);
        (void)close_range(GUEST_CONTROL_OUT + 1, ~0u, 0);
    } else {
        (void)close_range(3, ~0u, 0);
    }
}

int guest_run_child(void *arg)
{
    struct plan *plan = arg;
    int tty = (plan->msg->flags & GUEST_EXEC_TTY) != 0;
    // A group of its own, to be signalled as one. A session costs more and is for terminals.
    (void)(tty ? setsid() : setpgid(0, 0));
    if (place_streams(plan) < 0 || guest_enter_box(plan->msg->uid, plan->msg->gid) < 0 ||
        limit(plan->msg) < 0)
        return fail(plan, STEP_SETUP);
    if (!weaken(WEAKEN_FDS))
        close_others(plan);
    for (int fd = FD_SOCK; weaken(WEAKEN_FDS) && fd < FD_FIRST_FREE; fd++)
        (void)fcntl(fd, F_SETFD, 0);
    if (tty && ioctl(0, TIOCSCTTY, 0) < 0)
        return fail(plan, STEP_SETUP);
    (void)umask(022);
    if (chdir(plan->cwd) < 0)
        return fail(plan, STEP_CWD);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    exec_search(plan);
    return fail(plan, STEP_EXEC);
}
