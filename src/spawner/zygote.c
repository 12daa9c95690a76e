// SPDX-License-Identifier: Apache-2.0
#include "spawner/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/memfd.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/filter.h"
#include "guest/guest.h"
#include "guest/mounts.h"
#include "kernels/kernels.h"
#include "wire/zygote-msg.h"

#ifndef MFD_EXEC
#    define MFD_EXEC 0x0010U // Linux 6.3
#endif

enum { FD_BOOT = 60, FD_SETUP = 61, FD_KEEPER = 62, FILES = 256 };

// What a fork needs to enter a box. It loses them there, for those of B. Not to become another user
// of Z: guests are users of it, and own what their boxes are in.
static const uint64_t caps = 1ull << CAP_SYS_ADMIN | 1ull << CAP_SYS_CHROOT;

// Whoever started us hears nothing but that we have ended.
static _Noreturn void give_up(void)
{
    _exit(1);
}

// --- what it finds when it starts

static int write_all(int fd, const void *bytes, size_t len)
{
    const char *p = bytes;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n <= 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

static int make_boot(void)
{
    struct kernel_source source = kernel_source(KERNEL_PYTHON);
    int fd = memfd_create("boot", MFD_CLOEXEC);
    if (fd < 0 || write_all(fd, source.bytes, source.len) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        give_up();
    return fd;
}

static int make_setup(const char *preload)
{
    struct zygote_setup setup = {
        .kept_caps = guest_kept_caps,
        .n_filter = filter_program_len,
    };
    (void)snprintf(setup.preload, sizeof setup.preload, "%s", preload);
    int fd = memfd_create("setup", MFD_CLOEXEC);
    if (fd < 0 || write_all(fd, &setup, sizeof setup) < 0 ||
        write_all(fd, filter_program, filter_program_len * sizeof *filter_program) < 0 ||
        lseek(fd, 0, SEEK_SET) < 0)
        give_up();
    return fd;
}

// Moves them to their places and closes everything else.
static void settle_fds(int boot, int setup, int keeper)
{
    const int from[] = {boot, setup, keeper};
    for (int i = 0; i < 3; i++) {
        if (dup2(from[i], FD_BOOT + i) < 0)
            give_up();
    }
    (void)close_range(3, FD_BOOT - 1, 0);
    (void)close_range(FD_KEEPER + 1, ~0u, 0);
}

// --- its root

static void enter_root(const struct spawner_zygote *msg, const struct wire_fds *fds)
{
    if (move_mount(fds->fd[1], "", AT_FDCWD, "/new", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        give_up();
    auto_fd root = open("/new", O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_fd dev = open_tree(AT_FDCWD, "/dev", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (root < 0 || dev < 0 || mounts_attach(root, dev, "", "dev") < 0)
        give_up();
    for (unsigned i = 0; i < msg->n_binds; i++) {
        if (mounts_attach(root, fds->fd[2 + i], "", msg->target[i]) < 0)
            give_up();
    }
    // Neither /proc nor /sys: it has no use for what they tell.
    if (mounts_enter(root) < 0)
        give_up();
    for (int fd = 0; fd < 3; fd++) {
        auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0 || dup2(null, fd) < 0)
            give_up();
    }
}

// --- what it may

static void bound_caps(void)
{
    for (int cap = 0; cap <= CAP_LAST_CAP; cap++) {
        if (!(caps >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
            give_up();
    }
}

static void keep_caps(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.effective = (uint32_t)caps, .permitted = (uint32_t)caps, .inheritable = (uint32_t)caps}
    };
    if (syscall(SYS_capset, &head, data) < 0)
        give_up();
    for (int cap = 0; cap <= CAP_LAST_CAP; cap++) {
        if ((caps >> cap & 1) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
            give_up();
    }
}

// A user of Z that is not its root, so that it cannot touch the spawner: the first one of a slot of
// its own.
static void become_user(uint32_t slot)
{
    struct rlimit files; // the upper limit is for its forks
    const struct rlimit none = {.rlim_cur = 1, .rlim_max = 1};
    uint32_t id = slot * SLOT_IDS;
    (void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    (void)setsid();
    bound_caps();
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        give_up();
    files.rlim_cur = FILES;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &none) < 0 ||
        prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || syscall(SYS_setgroups, 0, NULL) < 0 ||
        syscall(SYS_setresgid, id, id, id) < 0 || syscall(SYS_setresuid, id, id, id) < 0)
        give_up();
    keep_caps();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        give_up();
    (void)umask(022);
}

// --- its program

static int open_python(const char **ret_path)
{
    static const char *const places[] = {"/usr/local/bin/python3", "/usr/bin/python3",
                                         "/bin/python3"};
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        int fd = open(places[i], O_RDONLY | O_CLOEXEC);
        *ret_path = places[i];
        if (fd >= 0)
            return fd;
    }
    give_up();
}

// Forks have /proc/self/exe in common. So it is a copy that users of boxes may execute but not
// open: locks on it, or watches, would reach from one box to another.
static int copy_program(int program)
{
    struct stat st;
    int copy = memfd_create("python3", MFD_CLOEXEC | MFD_EXEC);
    if (copy < 0)
        copy = memfd_create("python3", MFD_CLOEXEC);
    if (copy < 0 || fstat(program, &st) < 0)
        give_up();
    while (lseek(copy, 0, SEEK_CUR) < st.st_size) {
        if (sendfile(copy, program, NULL, (size_t)st.st_size) <= 0)
            give_up();
    }
    if (fchmod(copy, 0711) < 0)
        give_up();
    return copy;
}

static _Noreturn void exec_python(void)
{
    static const char *const envp[] = {
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "LANG=C.UTF-8",
        "HOME=/tmp",
        "OPENBLAS_NUM_THREADS=1",
        "OMP_NUM_THREADS=1",
        "MPLBACKEND=agg",
        NULL,
    };
    const char *path;
    int program = open_python(&path);
    int copy = copy_program(program);
    const char *const argv[] = {path, "-I", "-c", "exec(open(60).read())", "zygote", NULL};
    (void)syscall(SYS_execveat, copy, "", argv, envp, AT_EMPTY_PATH);
    give_up();
}

_Noreturn void zygote_main(const struct spawner_zygote *msg, const struct wire_fds *fds)
{
    char word[64];
    if (recv(fds->fd[0], word, sizeof word, MSG_PEEK) <= 0)
        give_up();
    enter_root(msg, fds);
    become_user(msg->slot);
    settle_fds(make_boot(), make_setup(msg->preload), fds->fd[0]);
    exec_python();
}
