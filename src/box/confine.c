// SPDX-License-Identifier: Apache-2.0
#include "box/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/tool.h"

enum {
    NOBODY = 65534,
};

static const char *const usr_parts[] = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"};

enum {
    N_PARTS = sizeof usr_parts / sizeof usr_parts[0],
};

// A copy of the mount at (fd, path) that is attached nowhere yet, or -errno.
static int detached(int fd, const char *path, uint64_t attributes)
{
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (path[0] == '\0' ? AT_EMPTY_PATH : 0);
    auto_fd tree = open_tree(fd, path, flags);
    struct mount_attr attr = {.attr_set = attributes | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return -errno;
    return TAKE_FD(tree);
}

static void attach(int tree, const char *at)
{
    if (mkdir(at, 0755) < 0 || move_mount(tree, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        tool_die(at, errno);
    fd_close(tree);
}

// In the new root, which is the working directory: links as the machine has them, or the trees
// themselves.
static void place_usr(const int trees[N_PARTS])
{
    for (int i = 0; i < N_PARTS; i++) {
        char from[16], target[64];
        (void)snprintf(from, sizeof from, "/%s", usr_parts[i]);
        ssize_t len = i == 0 ? -1 : readlink(from, target, sizeof target - 1);
        if (len > 0) {
            target[len] = '\0';
            if (symlink(target, usr_parts[i]) < 0)
                tool_die(usr_parts[i], errno);
        } else if (trees[i] >= 0) {
            attach(trees[i], usr_parts[i]);
        }
    }
}

static void enter_root(int target)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        tool_die("private mounts", errno);
    int trees[N_PARTS];
    for (int i = 0; i < N_PARTS; i++) {
        char path[16];
        struct stat st;
        (void)snprintf(path, sizeof path, "/%s", usr_parts[i]);
        bool is_dir = fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
        trees[i] = is_dir ? detached(AT_FDCWD, path, MOUNT_ATTR_RDONLY) : -1;
        if (is_dir && trees[i] < 0)
            tool_die(path, -trees[i]);
    }
    // Any directory that surely exists will do to stand on: nobody else sees this namespace.
    if (mount("none", "/usr", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=64k,mode=0755") <
            0 ||
        chdir("/usr") < 0)
        tool_die("tmpfs", errno);
    place_usr(trees);
    if (target >= 0)
        attach(target, &CONFINE_TARGET[1]);
    if (mount(NULL, ".", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
              NULL) < 0)
        tool_die("read-only root", errno);
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        tool_die("pivot_root", errno);
}

static void drop_to(uint64_t keep)
{
    for (unsigned cap = 0; cap < 64; cap++) {
        if ((keep >> cap & 1) == 0 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
            tool_die("drop capabilities", errno);
    }
    if (keep == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
                      setresuid(NOBODY, NOBODY, NOBODY) < 0))
        tool_die("become nobody", errno);
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.effective = (uint32_t)keep,         .permitted = (uint32_t)keep        },
        {.effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32)},
    };
    if (syscall(SYS_capset, &header, data) < 0)
        tool_die("drop capabilities", errno);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        tool_die("no new privileges", errno);
}

static void set_limit(int which, uint64_t value)
{
    struct rlimit limit = {.rlim_cur = value, .rlim_max = value};
    if (setrlimit(which, &limit) < 0)
        tool_die("set limits", errno);
}

// Or what there may be at all.
static void set_files(uint64_t most)
{
    struct rlimit now;
    if (getrlimit(RLIMIT_NOFILE, &now) < 0)
        tool_die("look at limits", errno);
    set_limit(RLIMIT_NOFILE, now.rlim_max < most ? now.rlim_max : most);
}

struct cell {
    const struct confined *confined;
    int target; // a detached mount, or -1
};

static void confine(const void *arg)
{
    const struct cell *cell = arg;
    static const uint64_t own_files = UINT64_C(1) << CAP_CHOWN | UINT64_C(1) << CAP_FOWNER |
                                      UINT64_C(1) << CAP_DAC_OVERRIDE | UINT64_C(1) << CAP_FSETID;
    (void)umask(0022);
    enter_root(cell->target);
    set_limit(RLIMIT_CORE, 0);
    set_limit(RLIMIT_FSIZE, cell->confined->file_max);
    set_limit(RLIMIT_AS, UINT64_C(4) << 30); // decompressors may be asked for absurd windows
    const struct confine_how *how = cell->confined->how;
    if (how != NULL) {
        set_files(how->files_max);
        set_limit(RLIMIT_DATA, how->data_max);
        drop_to(how->caps);
    } else {
        drop_to(cell->target < 0 ? 0 : own_files);
    }
}

// Before the fork: the child's mount namespace would not own what the descriptor is of.
static int make_target(const struct confined *confined)
{
    const struct confine_how *how = confined->how;
    if (confined->target_fd < 0)
        return -1;
    if (how != NULL && how->is_mount) {
        int fd = fcntl(confined->target_fd, F_DUPFD_CLOEXEC, 20);
        return fd < 0 ? -errno : fd;
    }
    uint64_t read_only = how != NULL && how->is_read_only ? MOUNT_ATTR_RDONLY : 0;
    return detached(confined->target_fd, "", MOUNT_ATTR_NOEXEC | read_only);
}

int confine_start(const struct confined *confined, struct err *err)
{
    static const char *const envp[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", NULL};
    auto_fd target = make_target(confined);
    if (confined->target_fd >= 0 && target < 0)
        return err_sys(err, -target, "set up a place to unpack in");
    const struct cell cell = {.confined = confined, .target = target};
    struct tool tool = {
        .argv = confined->argv,
        .program = confined->how != NULL ? &confined->how->program : NULL,
        .envp = envp,
        .fds = {confined->fds[0], confined->fds[1], confined->fds[2]},
        .namespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
        .setup = confine,
        .setup_arg = &cell,
    };
    return tool_start(&tool, err);
}
