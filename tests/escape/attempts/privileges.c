// SPDX-License-Identifier: Apache-2.0
// 25 ways to gain privileges: set-user-id bits, file and ambient capabilities, the loader, binary
// formats.
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/xattr.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "attempt.h"
#include "helpers.h"
#include "world.h"

enum {
    SOMEBODY = 1000,
};

// A copy of this program in the attempt's directory; its path, or NULL with errno.
static const char *copy_self(void)
{
    const char *path = scratch_path("copy");
    struct stat st;
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    bool good = from >= 0 && to >= 0 && fstat(from, &st) == 0 &&
                sendfile(to, from, NULL, (size_t)st.st_size) == st.st_size;
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    chmod(scratch(), 0755);
    return good ? path : NULL;
}

static bool become_somebody(void)
{
    if (geteuid() != 0)
        return true; // is one already
    setgroups(0, NULL);
    return setresgid(SOMEBODY, SOMEBODY, SOMEBODY) == 0 &&
           setresuid(SOMEBODY, SOMEBODY, SOMEBODY) == 0;
}

// Runs the copy as an ordinary user: which effective uid and capabilities does it have?
static bool run_copy(const char *path, unsigned *ret_euid, unsigned long *ret_caps)
{
    int pipe_fds[2];
    char text[64] = "";
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipe_fds[1], STDOUT_FILENO);
        if (become_somebody())
            execl(path, HELPER_IDENTITY, (char *)NULL);
        _exit(127);
    }
    close(pipe_fds[1]);
    ssize_t n = read(pipe_fds[0], text, sizeof(text) - 1);
    close(pipe_fds[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return n > 0 && sscanf(text, "%u %lx", ret_euid, ret_caps) == 2;
}

static enum outcome priv_setuid_made(const struct attempt *self)
{
    unsigned euid = 0;
    unsigned long caps = 0;
    (void)self;
    if (geteuid() != 0)
        return cannot("only root can make a file that runs as root");
    const char *path = copy_self();
    if (path == NULL || chmod(path, 04755) < 0)
        return cannot("copy: %s", strerrorname_np(errno));
    if (!run_copy(path, &euid, &caps))
        return cannot("the copy did not run");
    if (euid == 0)
        return escaped("an ordinary user became root of the box by a set-user-id file");
    return held("it ran with uid %u and capabilities %lx", euid, caps);
}

static enum outcome priv_file_caps(const struct attempt *self)
{
    struct vfs_cap_data data = {.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE};
    unsigned euid = 0;
    unsigned long caps = 0;
    (void)self;
    const char *path = copy_self();
    if (path == NULL)
        return cannot("copy: %s", strerrorname_np(errno));
    data.data[0].permitted = 1u << CAP_CHOWN;
    if (setxattr(path, XATTR_NAME_CAPS, &data, sizeof(data), 0) < 0)
        return held("the file takes no capabilities: %s", strerrorname_np(errno));
    if (!run_copy(path, &euid, &caps))
        return cannot("the copy did not run");
    if (caps != 0)
        return escaped("an ordinary user got capabilities %lx from a file", caps);
    return held("it ran with uid %u and no capabilities", euid);
}

// A program that writes to a full pipe waits there, and can be looked at.
static pid_t start_stuck(const char *path)
{
    int pipe_fds[2];
    char block[4096] = "";
    if (pipe2(pipe_fds, O_NONBLOCK) < 0)
        return -1;
    while (write(pipe_fds[1], block, sizeof(block)) > 0)
        continue;
    fcntl(pipe_fds[1], F_SETFL, 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipe_fds[1], STDOUT_FILENO);
        dup2(pipe_fds[1], STDERR_FILENO);
        if (become_somebody())
            execl(path, path, "--help", (char *)NULL);
        _exit(127);
    }
    return pid;
}

static bool effective_uid(pid_t pid, const char *name, unsigned *ret_real, unsigned *ret_effective)
{
    char path[64], status[4096], comm[64];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    if (slurp(path, status, sizeof(status)) <= 0)
        return false;
    const char *uids = strstr(status, "\nUid:");
    return sscanf(status, "Name: %63s", comm) == 1 && strcmp(comm, name) == 0 && uids != NULL &&
           sscanf(uids, " Uid: %u %u", ret_real, ret_effective) == 2;
}

static enum outcome priv_setuid_found(const struct attempt *self)
{
    static const char *const programs[] = {"/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd",
                                           "/bin/su", "/bin/mount"};
    (void)self;
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        struct stat st;
        unsigned real = 0, effective = 0;
        if (stat(programs[i], &st) < 0 || !(st.st_mode & S_ISUID))
            continue;
        pid_t pid = start_stuck(programs[i]);
        bool seen = false;
        for (int t = 0; pid > 0 && t < 200 && !seen; t++) {
            usleep(10000);
            seen = effective_uid(pid, strrchr(programs[i], '/') + 1, &real, &effective);
        }
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        if (!seen)
            continue;
        if (real != effective)
            return escaped("%s runs as uid %u for uid %u", programs[i], effective, real);
        return held("%s runs as uid %u, its bit is ignored", programs[i], effective);
    }
    return held("no set-user-id program in the box could be started");
}

static unsigned long status_mask(const char *field)
{
    char status[4096];
    unsigned long mask = ~0ul;
    const char *line;
    if (slurp("/proc/self/status", status, sizeof(status)) > 0 &&
        (line = strstr(status, field)) != NULL)
        sscanf(line + strlen(field), ": %lx", &mask);
    return mask;
}

#define BIT(cap) (1ul << (cap))

// What root in a box may have: power over its own files, users, ports and shared memory. The rest
// is for machines; CAP_DAC_READ_SEARCH too, which adds nothing to CAP_DAC_OVERRIDE but file
// handles.
static const unsigned long fit_for_a_box =
    BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) | BIT(CAP_KILL) |
    BIT(CAP_SETGID) | BIT(CAP_SETUID) | BIT(CAP_SETPCAP) | BIT(CAP_NET_BIND_SERVICE) |
    BIT(CAP_SYS_CHROOT) | BIT(CAP_SETFCAP) | BIT(CAP_AUDIT_WRITE) | BIT(CAP_IPC_OWNER);

static enum outcome priv_bounding(const struct attempt *self)
{
    (void)self;
    unsigned long bound = status_mask("CapBnd");
    if (bound & ~fit_for_a_box)
        return escaped("the bounding set has %lx too many", bound & ~fit_for_a_box);
    return held("the bounding set is %lx", bound);
}

static enum outcome priv_effective(const struct attempt *self)
{
    (void)self;
    unsigned long have = status_mask("CapEff") | status_mask("CapPrm") | status_mask("CapInh") |
                         status_mask("CapAmb");
    unsigned long may = geteuid() == 0 ? fit_for_a_box : 0;
    if (have & ~may)
        return escaped("has %lx too many", have & ~may);
    return held("has %lx as uid %u", have, (unsigned)geteuid());
}

static enum outcome priv_ambient(const struct attempt *self)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    (void)self;
    if (syscall(SYS_capget, &header, data) < 0)
        return held("capget: %s", strerrorname_np(errno));
    data[0].inheritable = data[0].permitted = data[0].effective = BIT(CAP_SYS_ADMIN);
    syscall(SYS_capset, &header, data);
    return judge_call("raising CAP_SYS_ADMIN",
                      prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0), REFUSALS);
}

static enum outcome priv_no_new(const struct attempt *self)
{
    (void)self;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return escaped("no_new_privs is not set");
    return held("no_new_privs is set");
}

// Files beside those that every process of a system trusts. Whether the host has them is seen
// outside.
static enum outcome priv_system_files(const struct attempt *self)
{
    static const char *const dirs[] = {"/etc", "/usr/bin",     "/var",
                                       "/tmp", "/oldroot/var", "/oldroot/tmp"};
    int made = 0;
    (void)self;
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/cay-written-%s", dirs[i], world.host.token);
        int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0)
            continue;
        made++;
        close(fd);
    }
    return held("made %d files in %zu directories", made, sizeof(dirs) / sizeof(dirs[0]));
}

static enum outcome priv_binfmt(const struct attempt *self)
{
    const char *target = scratch_path("binfmt");
    (void)self;
    int fd = open("/proc/sys/fs/binfmt_misc/register", O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        return escaped("binary formats of the host can be registered");
    mkdir(target, 0755);
    int r = mount("none", target, "binfmt_misc", 0, NULL);
    enum outcome outcome = judge_call("mount", r, REFUSALS);
    if (r == 0)
        umount2(target, MNT_DETACH);
    return outcome;
}

// It would push the members far to the right.
// clang-format off
static const struct attempt attempts[] = {
    {.number = 25,
     .name = "priv_setuid_made",
     .tries = "makes a set-user-id file as root and runs it as somebody else",
     .held_by = "no_new_privs, and mounts with nosuid",
     .canary = "nnp,nosuid",
     .run = priv_setuid_made},
    {.number = 25,
     .name = "priv_setuid_found",
     .tries = "runs su, mount or passwd as somebody else",
     .held_by = "no_new_privs, and mounts with nosuid",
     .canary = "nnp,nosuid",
     .needs = "file:/usr/bin/su",
     .run = priv_setuid_found},
    {.number = 25,
     .name = "priv_file_caps",
     .tries = "gives a file capabilities and runs it as somebody else",
     .held_by = "no_new_privs, and mounts with nosuid",
     .canary = "nnp,nosuid,caps",
     .run = priv_file_caps},
    {.number = 25,
     .name = "priv_bounding",
     .tries = "looks for capabilities in its bounding set that a box has no use for",
     .held_by = "the guest drops them",
     .canary = "caps",
     .run = priv_bounding},
    {.number = 25,
     .name = "priv_effective",
     .tries = "looks for capabilities that it has",
     .held_by = "the guest drops them; an ordinary user has none",
     .canary = "caps",
     .run = priv_effective},
    {.number = 25,
     .name = "priv_ambient",
     .tries = "raises an ambient CAP_SYS_ADMIN",
     .held_by = "it is in no other set to be raised from",
     .canary = "caps",
     .run = priv_ambient},
    {.number = 25,
     .name = "priv_no_new",
     .tries = "asks whether it may gain privileges",
     .held_by = "no_new_privs",
     .canary = "nnp",
     .run = priv_no_new},
    {.number = 25,
     .name = "priv_system_files",
     .tries = "writes beside ld.so.preload and other files that the host trusts",
     .held_by = "a root of its own, over read-only layers",
     .canary = "mnt,userns,caps",
     .place = OUTSIDE,
     .run = priv_system_files},
    {.number = 25,
     .name = "priv_binfmt",
     .tries = "registers a binary format",
     .held_by = "filter; no CAP_SYS_ADMIN; masks",
     .canary = ROOT_POWER,
     .needs = "fs:binfmt_misc",
     .run = priv_binfmt},
};
// clang-format on

const struct attempt_list privilege_attempts = ATTEMPTS(attempts);
