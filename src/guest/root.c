// SPDX-License-Identifier: Apache-2.0
// From a root in Z to the powerless PID 1 of a box. What the disk holds is user code's work, so
// every mount point is opened component by component, without following a link, before anything is
// put on it.
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/weaken.h"
#include "guest/filter.h"
#include "guest/guest-internal.h"
#include "guest/mounts.h"
#include "wire/spawner-msg.h"

static void attach(int root, int from, const char *from_path, const char *target)
{
    int r = mounts_attach(root, from, from_path, target);
    if (r < 0) {
        char step[60];
        (void)snprintf(step, sizeof step, "the root's /%s is not a plain directory", target);
        guest_die(step, -r);
    }
}

static int assemble(const struct guest_root *msg, const struct wire_fds *fds)
{
    if (move_mount(fds->fd[1], "", AT_FDCWD, "/new", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        guest_die("attach root", errno);
    int root = open("/new", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        guest_die("open root", errno);
    for (unsigned i = 0; i < msg->n_binds; i++)
        attach(root, fds->fd[2 + i], "", msg->target[i]);
    attach(root, AT_FDCWD, "/d", "dev");
    attach(root, AT_FDCWD, "/p", "proc");
    attach(root, AT_FDCWD, "/s", "sys");
    return root;
}

static void enter(int root)
{
    if (weaken(WEAKEN_MNT)) {
        auto_fd old =
            open_tree(AT_FDCWD, "/old", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
        if (old < 0 || mkdirat(root, "oldroot", 0755) < 0 ||
            move_mount(old, "", root, "oldroot", MOVE_MOUNT_F_EMPTY_PATH) < 0)
            guest_die("keep the host's root", errno);
    }
    int r = mounts_enter(root);
    if (r < 0)
        guest_die("pivot_root", -r);
}

static void take_gauges(struct guest *guest, const struct guest_root *msg, struct wire_fds *fds)
{
    static const struct {
        uint32_t flag;
        int first, last;
    } table[] = {
        {GUEST_ROOT_GAUGE_MEMORY, FD_GAUGE_MEMORY,    FD_GAUGE_MEMORY  },
        {GUEST_ROOT_GAUGE_PIDS,   FD_GAUGE_PIDS,      FD_GAUGE_PIDS    },
        {GUEST_ROOT_GAUGE_DISK,   FD_GAUGE_DISK_USED, FD_GAUGE_DISK_MAX},
    };
    unsigned next = 2 + msg->n_binds;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
        if (!(msg->flags & table[i].flag))
            continue;
        for (int fd = table[i].first; fd <= table[i].last; fd++)
            guest_place_fd(wire_fds_take(fds, next++), fd);
    }
    guest->gauges = msg->flags;
}

// The guest owns B, because it has the uid that made it, and so may still enter it and signal what
// runs there; it needs no capability in Z for that.
static void become_powerless(uint32_t slot)
{
    uint32_t id = slot * SLOT_IDS + (weaken(WEAKEN_GUESTUID) ? 0 : SLOT_GUEST_ID);
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    // Without B to become root in, the guest has to stay what user code shall be.
    int stay = weaken(WEAKEN_USERNS);
    if (!stay && (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, id, id, id) < 0 ||
                  syscall(SYS_setresuid, id, id, id) < 0))
        guest_die("guest identity", errno);
    if (!stay && syscall(SYS_capset, &head, none) < 0)
        guest_die("drop capabilities", errno);
    if (prctl(PR_SET_DUMPABLE, weaken(WEAKEN_DUMPABLE) ? 1 : 0, 0, 0, 0) < 0)
        guest_die("dumpable", errno);
    if (!weaken(WEAKEN_NNP) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        guest_die("no_new_privs", errno);
}

// The descriptors that came along: cgroup, root, binds, gauges. More or fewer is nonsense.
static int count_fits(const struct guest_root *msg, const struct wire_fds *fds)
{
    unsigned want = 2 + msg->n_binds;
    want += (msg->flags & GUEST_ROOT_GAUGE_MEMORY) ? 1 : 0;
    want += (msg->flags & GUEST_ROOT_GAUGE_PIDS) ? 1 : 0;
    want += (msg->flags & GUEST_ROOT_GAUGE_DISK) ? 2 : 0;
    return msg->n_binds <= GUEST_BINDS_MAX && fds->n == want;
}

// The spawner's descriptors were closed at boot, so those of this message lie above FD_PTS and may
// sit where a gauge shall go: they are moved up before any is placed.
static void lift_fds(struct wire_fds *fds)
{
    for (unsigned i = 0; i < fds->n; i++) {
        int up = fcntl(fds->fd[i], F_DUPFD_CLOEXEC, FD_FIRST_FREE);
        if (up < 0)
            guest_die("keep descriptor", errno);
        fd_close(fds->fd[i]);
        fds->fd[i] = up;
    }
}

void guest_take_root(struct guest *guest, const struct guest_root *msg, struct wire_fds *fds)
{
    if (!count_fits(msg, fds))
        guest_die("root message", EINVAL);
    lift_fds(fds);
    // The keeper has put us into the box's cgroups before it sent this: their directory becomes the
    // root of what is seen of them in here.
    if (!weaken(WEAKEN_CGROUPNS) && unshare(CLONE_NEWCGROUP) < 0)
        guest_die("cgroup namespace", errno);
    int root = assemble(msg, fds);
    enter(root);
    fd_close(root);
    guest_place_fd(wire_fds_take(fds, 0), FD_CGROUP);
    take_gauges(guest, msg, fds);
    wire_fds_close(fds);
    guest_place_fd(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), FD_ROOT);
    for (int fd = 0; fd < 3; fd++) { // the spawner's are on a mount that is gone now
        int null = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (null < 0 || dup3(null, fd, O_CLOEXEC) < 0)
            guest_die("open /dev/null", errno);
        fd_close(null);
    }
    // Whoever may gain privileges may not load a filter, unless it still has some.
    int early = weaken(WEAKEN_NNP) && !weaken(WEAKEN_SECCOMP);
    int r = early ? filter_load() : 0;
    if (r < 0)
        guest_die("seccomp filter", -r);
    become_powerless(msg->slot);
    r = guest_exec_cgroup(guest, 0);
    if (r < 0)
        guest_die("exec cgroup", -r);
    r = weaken(WEAKEN_SECCOMP) || early ? 0 : filter_load();
    if (r < 0)
        guest_die("seccomp filter", -r);
    guest->slot = msg->slot;
    guest->n_execs = 1;
    if (msg->flags & GUEST_ROOT_REHEARSE)
        guest_rehearse(guest);
    struct guest_plain ready = {
        .head = {.version = WIRE_VERSION, .type = GUEST_READY, .id = msg->head.id}
    };
    (void)wire_send(FD_SOCK, &ready, sizeof ready, NULL, 0, NULL, 0);
}
