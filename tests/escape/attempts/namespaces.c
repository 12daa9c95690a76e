// SPDX-License-Identifier: Apache-2.0
// 19 namespaces: new ones, those of pid 1, those of the host.
#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attempt.h"
#include "world.h"

enum {
    NSFS_MAGIC_NUMBER = 0x6e736673,
    NEST_DEPTH = 32,
};

static enum outcome unshare_one(const struct attempt *self)
{
    const int *flag = self->arg;
    // No more user namespaces is what ENOSPC says.
    return judge_call("unshare", unshare(*flag), REFUSALS_AND(ENOSPC));
}

static enum outcome judge_child(const char *what, long pid)
{
    int error = errno;
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, __WALL);
    errno = error;
    return judge_call(what, pid, REFUSALS_AND(ENOSPC));
}

static enum outcome clone_user(const struct attempt *self)
{
    (void)self;
    return judge_child("clone(CLONE_NEWUSER)",
                       syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
}

// A filter cannot look into clone3's argument.
static enum outcome clone3_with(const struct attempt *self)
{
    const int *flags = self->arg;
    struct clone_args args = {.flags = (unsigned)*flags, .exit_signal = SIGCHLD};
    return judge_child("clone3", syscall(SYS_clone3, &args, sizeof(args)));
}

static enum outcome nest_users(const struct attempt *self)
{
    int depth = 0;
    (void)self;
    while (depth < NEST_DEPTH && unshare(CLONE_NEWUSER) == 0)
        depth++;
    if (depth > 0)
        return escaped("%d user namespaces deep", depth);
    return held("not one level: %s", strerrorname_np(errno));
}

// The whole way of CVE-2022-0185: powers of one's own making, then a mount.
static enum outcome user_then_mount(const struct attempt *self)
{
    (void)self;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return held("unshare: %s", strerrorname_np(errno));
    return judge_call("fsopen", syscall(SYS_fsopen, "tmpfs", 0), REFUSALS);
}

static enum outcome join_guest(const struct attempt *self)
{
    static const char *const names[] = {"user", "mnt", "net", "pid", "ipc", "uts", "cgroup"};
    int error = 0;
    (void)self;
    if (in_host_pid_namespace())
        return cannot("pid 1 is not a guest here");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/1/ns/%s", names[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && setns(fd, 0) == 0)
            return escaped("joined the guest's %s namespace", names[i]);
        error = errno;
        if (fd >= 0)
            close(fd);
    }
    return held("the guest's namespaces: %s", strerrorname_np(error));
}

static enum outcome join_guest_pidfd(const struct attempt *self)
{
    (void)self;
    if (in_host_pid_namespace())
        return cannot("pid 1 is not a guest here");
    int fd = (int)syscall(SYS_pidfd_open, 1, 0);
    if (fd < 0)
        return held("pidfd_open: %s", strerrorname_np(errno));
    return judge_call("setns by pidfd", setns(fd, CLONE_NEWNET), REFUSALS);
}

static bool joins_other_network(int fd)
{
    struct stat own, other;
    return stat("/proc/self/ns/net", &own) == 0 && fstat(fd, &other) == 0 &&
           own.st_ino != other.st_ino && setns(fd, CLONE_NEWNET) == 0;
}

static enum outcome join_host_network(const struct attempt *self)
{
    char path[64];
    (void)self;
    if (world.host.token[0] == '\0')
        return cannot("needs --host");
    for (size_t i = 0; i < world.n_leaked; i++) {
        struct statfs fs;
        if (fstatfs(world.leaked[i], &fs) == 0 && fs.f_type == NSFS_MAGIC_NUMBER &&
            joins_other_network(world.leaked[i]))
            return escaped("descriptor %d led to another network", world.leaked[i]);
    }
    snprintf(path, sizeof(path), "/proc/%d/ns/net", world.host.pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && joins_other_network(fd))
        return escaped("joined the network of process %d of the host", world.host.pid);
    return held("no namespace of the host's in sight: %s", strerrorname_np(errno));
}

static enum outcome owner_of_network(const struct attempt *self)
{
    (void)self;
    int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return held("/proc/self/ns/net: %s", strerrorname_np(errno));
    int owner = ioctl(fd, NS_GET_USERNS);
    enum outcome outcome = judge_call("NS_GET_USERNS", owner, REFUSALS);
    if (owner >= 0)
        close(owner);
    close(fd);
    return outcome;
}

static const int new_user = CLONE_NEWUSER, new_mnt = CLONE_NEWNS, new_net = CLONE_NEWNET,
                 new_pid = CLONE_NEWPID, new_uts = CLONE_NEWUTS, new_ipc = CLONE_NEWIPC,
                 new_cgroup = CLONE_NEWCGROUP, new_time = CLONE_NEWTIME;

#define UNSHARE(kind, because, without)                                                            \
    {                                                                                              \
        .number = 19, .name = "unshare_" #kind, .tries = "unshares its " #kind " namespace",       \
        .held_by = because, .canary = without, .run = unshare_one, .arg = &new_##kind              \
    }

#define USER_HELD  "filter, and a limit of zero user namespaces in the box"
#define OTHER_HELD "filter, and no CAP_SYS_ADMIN in the box"

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    UNSHARE(user, USER_HELD, "seccomp,nested"),
    UNSHARE(mnt, OTHER_HELD, "seccomp,caps"),
    UNSHARE(net, OTHER_HELD, "seccomp,caps"),
    UNSHARE(pid, OTHER_HELD, "seccomp,caps"),
    UNSHARE(uts, OTHER_HELD, "seccomp,caps"),
    UNSHARE(ipc, OTHER_HELD, "seccomp,caps"),
    UNSHARE(cgroup, OTHER_HELD, "seccomp,caps"),
    UNSHARE(time, OTHER_HELD, "seccomp,caps"),
    {.number = 19,
     .name = "clone_user",
     .tries = "clones into a new user namespace",
     .held_by = USER_HELD,
     .canary = "seccomp,nested",
     .run = clone_user},
    {.number = 19,
     .name = "clone3_user",
     .tries = "the same by clone3, whose flags no filter sees",
     .held_by = "a limit of zero user namespaces in the box",
     .canary = "nested",
     .run = clone3_with,
     .arg = &new_user},
    {.number = 19,
     .name = "clone3_net",
     .tries = "clones into a new network namespace by clone3",
     .held_by = "no CAP_SYS_ADMIN in the box",
     .canary = "caps",
     .run = clone3_with,
     .arg = &new_net},
    {.number = 19,
     .name = "nest_users",
     .tries = "nests user namespaces 32 deep",
     .held_by = USER_HELD,
     .canary = "seccomp,nested",
     .run = nest_users},
    {.number = 19,
     .name = "user_then_mount",
     .tries = "becomes root of a new user namespace and mounts there",
     .held_by = USER_HELD,
     .canary = "seccomp,nested",
     .run = user_then_mount},
    {.number = 19,
     .name = "join_guest",
     .tries = "joins the namespaces of pid 1",
     .held_by = "the guest's are out of reach; filter",
     .canary = ROOT_POWER ",guestuid,dumpable",
     .run = join_guest},
    {.number = 19,
     .name = "join_guest_pidfd",
     .tries = "joins them by pidfd",
     .held_by = "the guest's are out of reach; filter",
     .canary = ROOT_POWER ",guestuid,dumpable",
     .run = join_guest_pidfd},
    {.number = 19,
     .name = "join_host_network",
     .tries = "joins the host's network by a leaked descriptor or a visible process",
     .held_by = "there is no such descriptor, nor such a process in sight",
     .canary = "pid," ROOT_POWER,
     .run = join_host_network},
    {.number = 19,
     .name = "owner_of_network",
     .tries = "asks for the user namespace that owns its network",
     .held_by = "it is above the box's own, and the kernel hands out none from above",
     .canary = "userns,seccomp",
     .run = owner_of_network},
};
// clang-format on

const struct attempt_list namespace_attempts = ATTEMPTS(attempts);
