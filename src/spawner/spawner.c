// SPDX-License-Identifier: Apache-2.0
#include "spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/title.h"
#include "base/weaken.h"
#include "guest/guest.h"
#include "spawner/spare.h"
#include "spawner/zygote.h"
#include "wire/spawner-msg.h"

union spawner_request {
    struct wire_head head;
    struct spawner_plain plain;
    struct spawner_slot slot;
    struct spawner_spawn spawn;
    struct spawner_zygote zygote;
};

// All it remembers: the user namespace it made last, and a network namespace that it made ahead.
struct spawner {
    uint32_t slot;
    int userns;
    int network; // -1 for none
};

static void answer_userns(int sock, const struct spawner_slot *asked, int fd)
{
    struct spawner_slot msg = *asked;
    msg.head.type = SPAWNER_USERNS_MADE;
    (void)wire_send(sock, &msg, sizeof msg, NULL, 0, &fd, 1);
}

static void answer_spawned(int sock, uint32_t id, int pidfd)
{
    struct spawner_plain msg = {
        .head = {.version = WIRE_VERSION, .type = SPAWNER_SPAWNED, .id = id}
    };
    (void)wire_send(sock, &msg, sizeof msg, NULL, 0, &pidfd, 1);
}

static void answer_error(int sock, uint32_t id, const char *step, int sys_errno)
{
    struct spawner_error msg = {
        .head = {.version = WIRE_VERSION, .type = SPAWNER_ERROR, .id = id},
        .sys_errno = sys_errno,
    };
    (void)snprintf(msg.step, sizeof msg.step, "%s", step);
    (void)wire_send(sock, &msg, sizeof msg, NULL, 0, NULL, 0);
}

// --- becoming the spawner ---

// For canaries: what of the host a box shall see although it should not, and where on the stage.
static const struct {
    enum weakness when;
    const char *from, *to;
} leaks[] = {
    {WEAKEN_DEV,      "/dev",           "dev"          },
    {WEAKEN_SYS,      "/sys",           "sys"          },
    {WEAKEN_CGROUPFS, "/sys/fs/cgroup", "sys/fs/cgroup"},
    {WEAKEN_MNT,      "/",              "old"          },
};

enum { N_LEAKS = sizeof leaks / sizeof *leaks };

static int open_leaks(int ret[N_LEAKS])
{
    // Without a user namespace in between, the host's shared mounts would take part in what
    // follows.
    if (weaken(WEAKEN_USERNS) && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -errno;
    for (unsigned i = 0; i < N_LEAKS; i++) {
        unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE;
        ret[i] = weaken(leaks[i].when) ? open_tree(AT_FDCWD, leaks[i].from, flags) : -1;
        if (weaken(leaks[i].when) && ret[i] < 0)
            return -errno;
    }
    return 0;
}

static int hang_leaks(const int trees[N_LEAKS])
{
    for (unsigned i = 0; i < N_LEAKS; i++) {
        if (trees[i] >= 0 &&
            move_mount(trees[i], "", AT_FDCWD, leaks[i].to, MOVE_MOUNT_F_EMPTY_PATH) < 0)
            return -errno;
        fd_close(trees[i]);
    }
    return 0;
}

// From a copy of the host's mounts, which is all that a new mount namespace can begin with, to the
// stage.
static int enter_stage(int stage)
{
    int trees[N_LEAKS];
    int r = open_leaks(trees);
    if (r < 0)
        return r;
    // Any directory would do as the place to hang it on: all of this copy goes next.
    if (move_mount(stage, "", AT_FDCWD, "/dev", MOVE_MOUNT_F_EMPTY_PATH) < 0 || fchdir(stage) < 0)
        return -errno;
    r = hang_leaks(trees);
    if (r < 0)
        return r;
    // The host's own /proc, whole: boxes get a new one each, which the kernel gives only to those
    // who can see one already.
    auto_fd proc = open_tree(AT_FDCWD, "/proc", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (proc < 0 || move_mount(proc, "", AT_FDCWD, "proc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return -errno;
    for (int fd = 0; fd < 3; fd++) { // those it was born with are on a mount that is gone
        auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0 || dup3(null, fd, O_CLOEXEC) < 0)
            return -errno;
    }
    return 0;
}

static int become_spawner(const struct spawner_start *start)
{
    char byte;
    if (read(start->go, &byte, 1) != 1)
        _exit(0);
    fd_close(start->go);
    title_set("cay"); // guests inherit it
    if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
        return -errno;
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

// --- B ---

// In the new user namespace, whose root we still are: nothing in it shall make user namespaces of
// its own. (Other namespaces take a capability that nothing in a box has.) And inotify: what a box
// uses counts for everybody above it, too. Root in a box could not lift this: it lacks
// CAP_SYS_RESOURCE, and its /proc/sys is read-only.
static int limit_namespace(void)
{
    static const struct {
        const char *file, *max;
        enum weakness unless;
    } limits[] = {
        {"/proc/sys/user/max_user_namespaces",   "0",     WEAKEN_NESTED },
        {"/proc/sys/user/max_inotify_instances", "64",    WEAKEN_UCOUNTS},
        {"/proc/sys/user/max_inotify_watches",   "65536", WEAKEN_UCOUNTS},
    };
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        int r =
            weaken(limits[i].unless) ? 0 : fd_write_file(AT_FDCWD, limits[i].file, limits[i].max);
        if (r < 0)
            return r;
    }
    return 0;
}

// The child that a new user namespace begins with. It is dumpable only so that the spawner may
// write its maps; there is nothing of ours to read.
static _Noreturn void be_namespace(int sync)
{
    char byte = (char)-limit_namespace();
    if (write(sync, &byte, 1) != 1)
        _exit(1);
    // Until the spawner has opened the namespace and closed its end.
    _exit(read(sync, &byte, 1) == 0 ? 0 : 1);
}

static int write_maps(pid_t pid, uint32_t slot)
{
    char path[48], map[48];
    (void)snprintf(map, sizeof map, "0 %u %d", slot * SLOT_IDS, SLOT_BOX_IDS);
    (void)snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
    int r = fd_write_file(AT_FDCWD, path, map);
    (void)snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
    return r < 0 ? r : fd_write_file(AT_FDCWD, path, map);
}

static int open_userns(pid_t pid, uint32_t slot, int sync, int *ret_fd)
{
    char byte, path[48];
    int r = write_maps(pid, slot);
    if (r < 0)
        return r;
    if (read(sync, &byte, 1) != 1)
        return -ECHILD;
    if (byte != 0)
        return -byte;
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    *ret_fd = open(path, O_RDONLY | O_CLOEXEC);
    return *ret_fd < 0 ? -errno : 0;
}

// A user namespace belongs to whoever's uid made it: the guest's, which may so enter it later
// without having any capability.
static long clone_as(uint32_t uid)
{
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    if (syscall(SYS_setresuid, -1, uid, -1) < 0)
        return -errno;
    // The change of uid has made us undumpable, and so would the child be.
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid < 0)
        pid = -errno;
    if (pid != 0) {
        (void)syscall(SYS_setresuid, -1, 0, -1);
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
    return pid;
}

// B is sent to the keeper and kept for the SPAWNER_SPAWN that may be waiting already.
static void make_userns(int sock, const struct spawner_slot *msg, struct spawner *spawner)
{
    int sync[2], fd = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sync) < 0) {
        answer_error(sock, msg->head.id, "socketpair", errno);
        return;
    }
    long pid = clone_as(msg->slot * SLOT_IDS + (weaken(WEAKEN_GUESTUID) ? 0 : SLOT_GUEST_ID));
    if (pid == 0) {
        fd_close(sync[0]);
        be_namespace(sync[1]);
    }
    fd_close(sync[1]);
    int r = pid < 0 ? (int)pid : open_userns((pid_t)pid, msg->slot, sync[0], &fd);
    fd_close(sync[0]);
    if (pid > 0)
        (void)waitpid((pid_t)pid, NULL, 0);
    if (r < 0)
        answer_error(sock, msg->head.id, "user namespace of a box", -r);
    else
        answer_userns(sock, msg, fd);
    fd_close(spawner->userns);
    spawner->slot = msg->slot;
    spawner->userns = fd;
}

// --- boxes ---

static uint64_t box_flags(const struct spawner *spawner)
{
    uint64_t flags = CLONE_PARENT | CLONE_PIDFD | CLONE_NEWNS | CLONE_NEWUTS;
    flags |= weaken(WEAKEN_PID) ? 0 : CLONE_NEWPID;
    flags |= weaken(WEAKEN_NET) || spawner->network >= 0 ? 0 : CLONE_NEWNET;
    flags |= weaken(WEAKEN_IPC) ? 0 : CLONE_NEWIPC;
    return flags;
}

// In the child: the start of a guest.
static _Noreturn void be_guest(const struct spawner_spawn *msg, const struct wire_fds *fds,
                               const struct spawner *spawner)
{
    if (spawner->network >= 0 && setns(spawner->network, CLONE_NEWNET) < 0)
        _exit(1);
    struct guest_boot boot = {
        .slot = msg->slot,
        .sock = fds->fd[0],
        .userns = msg->has_userns ? fds->fd[1] : spawner->userns,
        .has_network = spawner->network >= 0,
    };
    guest_main(&boot);
}

static void spawn_guest(int sock, const struct spawner_spawn *msg, struct wire_fds *fds,
                        struct spawner *spawner)
{
    if (fds->n != (msg->has_userns ? 2 : 1) ||
        (!msg->has_userns && (spawner->userns < 0 || spawner->slot != msg->slot))) {
        answer_error(sock, msg->head.id, "spawn message", EINVAL);
        return;
    }
    int pidfd = -1;
    // The keeper becomes the parent, so that it hears of the end and no zombie gathers here.
    struct clone_args args = {.flags = box_flags(spawner), .pidfd = (uintptr_t)&pidfd};
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid < 0) {
        answer_error(sock, msg->head.id, "namespaces of a box", errno);
        return;
    }
    if (pid == 0)
        be_guest(msg, fds, spawner);
    fd_close(spawner->network); // the box's now, and gone with it
    spawner->network = -1;
    answer_spawned(sock, msg->head.id, pidfd);
    fd_close(pidfd);
}

// In the host's pid namespace, above those of all boxes: only from there can one be entered.
static void spawn_zygote(int sock, const struct spawner_zygote *msg, struct wire_fds *fds)
{
    if (msg->n_binds > GUEST_BINDS_MAX || fds->n != 2 + msg->n_binds) {
        answer_error(sock, msg->head.id, "zygote message", EINVAL);
        return;
    }
    int pidfd = -1;
    struct clone_args args = {
        .flags =
            CLONE_PARENT | CLONE_PIDFD | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWIPC,
        .pidfd = (uintptr_t)&pidfd,
    };
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        zygote_main(msg, fds);
    if (pid < 0) {
        answer_error(sock, msg->head.id, "namespaces of a zygote", errno);
        return;
    }
    answer_spawned(sock, msg->head.id, pidfd);
    fd_close(pidfd);
}

// 0, or -errno for a request that makes no sense.
static int handle(int sock, const union spawner_request *msg, size_t len, struct wire_fds *fds,
                  struct spawner *spawner)
{
    if (msg->head.type == SPAWNER_STAGE && len == sizeof msg->plain && fds->n == 1)
        return enter_stage(fds->fd[0]);
    if (msg->head.type == SPAWNER_USERNS && len == sizeof msg->slot)
        make_userns(sock, &msg->slot, spawner);
    else if (msg->head.type == SPAWNER_SPAWN && len == sizeof msg->spawn)
        spawn_guest(sock, &msg->spawn, fds, spawner);
    else if (msg->head.type == SPAWNER_ZYGOTE && len == sizeof msg->zygote)
        spawn_zygote(sock, &msg->zygote, fds);
    else
        return -EINVAL;
    return 0;
}

// Nothing to do for a moment, and boxes have been made before: there will be more.
static void prepare_while_idle(int sock, struct spawner *spawner)
{
    struct pollfd poll_sock = {.fd = sock, .events = POLLIN};
    if (spawner->userns >= 0 && spawner->network < 0 && !weaken(WEAKEN_NET) &&
        poll(&poll_sock, 1, SPARE_IDLE_MS) == 0)
        spawner->network = spare_make();
}

_Noreturn void spawner_main(const struct spawner_start *start)
{
    union spawner_request msg;
    struct wire_fds fds;
    struct spawner spawner = {.userns = -1, .network = -1};
    int r = become_spawner(start);
    while (r == 0) {
        prepare_while_idle(start->sock, &spawner);
        ssize_t n = wire_recv(start->sock, &msg, sizeof msg, &fds, 0);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            _exit(0);
        r = handle(start->sock, &msg, (size_t)n, &fds, &spawner);
        wire_fds_close(&fds);
    }
    answer_error(start->sock, 0, "start the spawner", -r);
    _exit(1);
}
