// SPDX-License-Identifier: Apache-2.0
// What a box needs before it has a root. The guest is root in Z here and in the box's own mount,
// pid, net, ipc and uts namespaces. The mount namespace is a copy of the spawner's: a small
// read-only tmpfs with dev/ and sys/ as boxes shall see them, an `empty` file and directory for
// masks, a full /proc, and the mount points new/ p/ d/ s/ where the box's own mounts are staged.
// All of it is left behind at pivot.
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/weaken.h"
#include "guest/guest-internal.h"
#include "guest/guest.h"
#include "guest/net.h"
#include "wire/spawner-msg.h"

// Readable by anybody although they tell of the machine or of its other users. What only the host's
// root may read (kcore, kmsg, timer_list, slabinfo...) the kernel refuses by itself.
static const char *const masked_files[] = {
    "kallsyms", "keys",    "config.gz", "diskstats", "partitions",  "interrupts",
    "cmdline",  "modules", "locks",     "iomem",     "sched_debug", "sys/kernel/core_pattern",
};
static const char *const masked_dirs[] = {"acpi", "asound", "bus", "fs", "irq", "scsi", "pressure"};

void guest_place_fd(int fd, int place)
{
    if (fd == place)
        return;
    if (fd < 0 || dup3(fd, place, O_CLOEXEC) < 0)
        guest_die("keep descriptor", errno);
    fd_close(fd);
}

// Puts the descriptors we keep at their fixed numbers and closes all others, the spawner's among
// them.
static void settle_fds(const struct guest_boot *boot)
{
    enum { HIGH = 900 };
    const int keep[] = {boot->sock, boot->userns};
    const int place[] = {FD_SOCK, FD_USERNS};
    for (int i = 0; i < 2; i++) // out of each other's way first
        (void)dup3(keep[i], HIGH + i, O_CLOEXEC);
    for (int i = 0; i < 2; i++) {
        if (dup3(HIGH + i, place[i], O_CLOEXEC) < 0)
            _exit(1);
    }
    (void)close_range(FD_USERNS + 1, ~0u, 0);
}

static void mask(const char *what, const char *with)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/p/%s", what);
    if (mount(with, path, NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
        guest_die("mask /proc", errno);
}

static void stage_proc(void)
{
    // Without a pid namespace of ours only the host's own /proc is to be had.
    int r = weaken(WEAKEN_PID)
                ? mount("/proc", "/p", NULL, MS_BIND | MS_REC, NULL)
                : mount("proc", "/p", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    if (r < 0)
        guest_die("mount /proc", errno);
    if (weaken(WEAKEN_MASKS))
        return;
    for (unsigned i = 0; i < sizeof masked_files / sizeof *masked_files; i++)
        mask(masked_files[i], "/empty/file");
    for (unsigned i = 0; i < sizeof masked_dirs / sizeof *masked_dirs; i++)
        mask(masked_dirs[i], "/empty/dir");
    // Recursive, so that core_pattern stays masked below the read-only copy.
    auto_fd sys = open_tree(AT_FDCWD, "/p/sys", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    struct mount_attr ro = {.attr_set = MOUNT_ATTR_RDONLY};
    if (sys < 0 || mount_setattr(sys, "", AT_EMPTY_PATH | AT_RECURSIVE, &ro, sizeof ro) < 0 ||
        move_mount(sys, "", AT_FDCWD, "/p/sys", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        guest_die("read-only /proc/sys", errno);
}

static void stage_dev(uint32_t slot)
{
    // Terminals belong to whoever opens them and to group tty of the box, whose id in Z this is.
    // The machine has 4096 of them for all.
    char opts[96];
    (void)snprintf(opts, sizeof opts, "newinstance,ptmxmode=0666,mode=0620,gid=%u%s",
                   slot * SLOT_IDS + 5, weaken(WEAKEN_TERMINALS) ? "" : ",max=256");
    if (mount("/dev", "/d", NULL, MS_BIND | (weaken(WEAKEN_DEV) ? MS_REC : 0), NULL) < 0)
        guest_die("bind /dev", errno);
    if (!weaken(WEAKEN_DEV) && mount("devpts", "/d/pts", "devpts", MS_NOSUID | MS_NOEXEC, opts) < 0)
        guest_die("mount /dev/pts", errno);
    (void)snprintf(opts, sizeof opts, "mode=1777,uid=%u,gid=%u", slot * SLOT_IDS, slot * SLOT_IDS);
    if (!weaken(WEAKEN_DEV) && mount("shm", "/d/shm", "tmpfs", MS_NOSUID | MS_NODEV, opts) < 0)
        guest_die("mount /dev/shm", errno);
    guest_place_fd(open("/d/pts", O_PATH | O_DIRECTORY | O_CLOEXEC), FD_PTS);
    int deep = weaken(WEAKEN_SYS) || weaken(WEAKEN_CGROUPFS) ? MS_REC : 0;
    if (mount("/sys", "/s", NULL, MS_BIND | (unsigned long)deep, NULL) < 0)
        guest_die("bind /sys", errno);
}

void guest_boot(const struct guest_boot *boot)
{
    settle_fds(boot);
    int r = boot->has_network || weaken(WEAKEN_NET) ? 0 : net_raise_loopback();
    if (r < 0)
        guest_die("loopback", -r);
    if (sethostname("cay", 3) < 0)
        guest_die("hostname", errno);
    if (!weaken(WEAKEN_KEYRING))
        (void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    stage_proc();
    stage_dev(boot->slot);
}
