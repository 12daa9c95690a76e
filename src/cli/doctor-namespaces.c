// SPDX-License-Identifier: Apache-2.0
// Namespaces as boxes have them: made by a root that is root only in a user namespace Z of its own,
// with a second user namespace inside. And what holds processes: pidfds and the system call filter.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/slots.h"
#include "cli/doctor.h"
#include "wire/spawner-msg.h"

// --- user namespaces ---

static int write_maps(pid_t pid, uint32_t base)
{
    char path[48], map[48];
    (void)snprintf(map, sizeof map, "0 %" PRIu32 " %d", base, SLOT_BOX_IDS);
    (void)snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
    int r = fd_write_file(AT_FDCWD, path, map);
    (void)snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
    return r < 0 ? r : fd_write_file(AT_FDCWD, path, map);
}

static int open_mapped(pid_t pid, uint32_t base, struct err *err)
{
    char path[48];
    int r = write_maps(pid, base);
    if (r < 0)
        return err_sys(err, -r, "map the ids of a user namespace");
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? err_sys(err, errno, "open a user namespace") : fd;
}

static int make_userns(uint32_t base, struct err *err)
{
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(err, errno, "pipe");
    auto_fd wait_end = ends[0], go_end = ends[1];
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) {
        char byte;
        fd_close(TAKE_FD(go_end));
        _exit(read(wait_end, &byte, 1) == 0 ? 0 : 1); // until the other end is closed
    }
    if (pid < 0)
        return err_sys(err, errno, "make a user namespace");
    int fd = open_mapped((pid_t)pid, base, err);
    fd_close(TAKE_FD(go_end));
    (void)waitpid((pid_t)pid, NULL, 0);
    return fd;
}

int doctor_userns(struct err *err)
{
    return make_userns(SLOT_ID_BASE, err);
}

static int become_root_of(int userns)
{
    if (setns(userns, CLONE_NEWUSER) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
        syscall(SYS_setresuid, 0, 0, 0) < 0)
        return -errno;
    // A change of ids hides our files in /proc, the children's maps among them, even from
    // ourselves.
    return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int nest(void *arg)
{
    const int *userns = arg;
    struct err err = {0};
    int r = become_root_of(*userns);
    if (r < 0)
        return r;
    auto_fd inner = make_userns(0, &err);
    return inner < 0 ? -(err.sys_errno > 0 ? err.sys_errno : EINVAL) : 0;
}

static void advise_userns(struct finding *ret)
{
    if (!has_all_ids())
        advise(ret, "see the line 'container'");
    else if (read_number("/proc/sys/user/max_user_namespaces") == 0)
        advise(ret, "sysctl user.max_user_namespaces=65536");
    else if (read_number("/proc/sys/kernel/unprivileged_userns_clone") == 0)
        advise(ret, "sysctl kernel.unprivileged_userns_clone=1");
    else if (read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") > 0)
        advise(ret, "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile "
                    "for cay that allows userns");
    else
        advise(ret, "use a kernel with CONFIG_USER_NS; in a container, allow them (--privileged)");
}

void check_userns(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    enum { FEW = 1024 };
    struct err err = {0};
    int64_t most = read_number("/proc/sys/user/max_user_namespaces");
    int userns = doctor_userns(&err);
    int r = userns < 0 ? 0 : in_child(nest, &userns);
    fd_close(userns);
    if (userns < 0) {
        found(ret, DOCTOR_MISSING, "%s", err.msg);
        advise_userns(ret);
    } else if (r < 0) {
        found(ret, DOCTOR_MISSING, "one is made and mapped, but not another inside it: %s",
              errno_text(-r));
        advise_userns(ret);
    } else {
        found(ret, most < FEW ? DOCTOR_NOTE : DOCTOR_OK,
              "made, mapped, and one inside another; each user may have %" PRId64, most);
        if (most < FEW)
            advise(ret,
                   "sysctl user.max_user_namespaces=65536: each box takes one, and one for all");
    }
}

// --- the others ---

static const struct {
    const char *name;
    int flag;
} kinds[] = {
    {"mnt",    CLONE_NEWNS    },
    {"pid",    CLONE_NEWPID   },
    {"net",    CLONE_NEWNET   },
    {"ipc",    CLONE_NEWIPC   },
    {"uts",    CLONE_NEWUTS   },
    {"cgroup", CLONE_NEWCGROUP},
};

struct in_z {
    int userns;
    int flag;
};

static int unshare_in_z(void *arg)
{
    const struct in_z *z = arg;
    int r = become_root_of(z->userns);
    return r < 0 ? r : unshare(z->flag) < 0 ? -errno : 0;
}

void check_namespaces(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    struct err err = {0};
    auto_fd userns = doctor_userns(&err);
    if (userns < 0) {
        found(ret, DOCTOR_MISSING, "%s", err.msg);
        return;
    }
    int64_t least = INT64_MAX;
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct in_z z = {.userns = userns, .flag = kinds[i].flag};
        char path[64];
        int r = in_child(unshare_in_z, &z);
        if (r < 0) {
            found(ret, DOCTOR_MISSING, "%s: %s", kinds[i].name, errno_text(-r));
            advise(ret,
                   r == -ENOSPC ? "sysctl user.max_%s_namespaces=65536"
                                : "use a kernel that has %s namespaces",
                   kinds[i].name);
        }
        (void)snprintf(path, sizeof path, "/proc/sys/user/max_%s_namespaces", kinds[i].name);
        int64_t most = read_number(path);
        least = most >= 0 && most < least ? most : least;
    }
    if (ret->state == DOCTOR_OK)
        found(ret, DOCTOR_OK, "mnt, pid, net, ipc, uts and cgroup; at least %" PRId64 " of each",
              least);
}

// --- /proc ---

static int mount_proc(void *arg)
{
    (void)arg;
    return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ? -errno : 0;
}

static int mount_proc_in_z(void *arg)
{
    const struct in_z *z = arg;
    int r = become_root_of(z->userns);
    if (r < 0)
        return r;
    if (unshare(CLONE_NEWNS | CLONE_NEWPID) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -errno;
    // The child is the first process of the new pid namespace, and sees no parent that it could
    // check.
    pid_t pid = fork();
    if (pid == 0)
        _exit(-mount_proc(NULL) & 0xff);
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return -errno;
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
}

void check_proc(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    struct err err = {0};
    auto_fd userns = doctor_userns(&err);
    struct in_z z = {.userns = userns};
    int r = userns < 0 ? 0 : in_child(mount_proc_in_z, &z);
    if (userns < 0) {
        found(ret, DOCTOR_MISSING, "%s", err.msg);
    } else if (r == -EPERM) {
        found(ret, DOCTOR_MISSING,
              "refused: the kernel mounts a new /proc only for those who see one "
              "that is whole, and parts of this one are masked");
        advise(ret, "start the container with an unmasked /proc "
                    "(docker run --security-opt systempaths=unconfined)");
    } else if (r < 0) {
        found(ret, DOCTOR_MISSING, "mount: %s", errno_text(-r));
    } else {
        found(ret, DOCTOR_OK, "mounted in a namespace of its own");
    }
}

// --- pidfds ---

static int try_pidfd(void *arg)
{
    (void)arg;
    int pidfd = -1;
    struct clone_args args = {
        .flags = CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
        .pidfd = (uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
    };
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)pause();
        _exit(0);
    }
    if (pid < 0)
        return -errno;
    siginfo_t info = {0};
    int r = pidfd_send_signal(pidfd, SIGKILL, NULL, 0) < 0 ? -errno : 0;
    if (r < 0)
        (void)kill((pid_t)pid, SIGKILL);
    if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0 && r == 0)
        r = -errno;
    fd_close(pidfd);
    return r == 0 && info.si_status != SIGKILL ? -EINVAL : r;
}

void check_pidfd(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    int r = in_child(try_pidfd, NULL);
    if (r == 0) {
        found(ret, DOCTOR_OK, "a process was made, killed and reaped by its descriptor");
        return;
    }
    found(ret, DOCTOR_MISSING, "%s", errno_text(-r));
    advise(ret, r == -ENOSYS || r == -EPERM
                    ? "Linux 5.5 has them; in a container, its own filter may refuse clone3"
                    : "boot Linux 6.15 or later");
}

// --- the filter ---

// getppid answers EDOM under this filter, which no kernel does by itself.
static int try_filter(void *arg)
{
    (void)arg;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDOM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = sizeof code / sizeof *code, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
        return -errno;
    return syscall(SYS_getppid) < 0 && errno == EDOM ? 0 : -EINVAL;
}

void check_seccomp(const struct check *check, const struct doctor *doctor, struct finding *ret)
{
    (void)check;
    (void)doctor;
    int r = in_child(try_filter, NULL);
    int64_t jit = read_number("/proc/sys/net/core/bpf_jit_enable");
    if (r < 0) {
        found(ret, DOCTOR_MISSING, "%s", errno_text(-r));
        advise(ret, "use a kernel with CONFIG_SECCOMP_FILTER");
        return;
    }
    found(ret, DOCTOR_OK, "a filter was loaded and held");
    if (jit == 0) {
        found(ret, DOCTOR_NOTE, "it is interpreted: each system call in a box costs more");
        advise(ret, "sysctl net.core.bpf_jit_enable=1");
    } else {
        found(ret, DOCTOR_OK,
              jit > 0 ? "compiled by the kernel (JIT)" : "whether compiled is not told");
    }
}
